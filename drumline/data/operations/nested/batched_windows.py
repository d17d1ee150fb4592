"""Which functions of windows do nothing but batch them, or give them as they are."""

from __future__ import annotations

import dataclasses
import dis
import functools
import random
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar

import numpy as np

from drumline._function_identity import Incomparable
from drumline.data.elements.seeds import SeedsFor
from drumline.data.elements.spec import DatasetSpec, ElementSpec, Structure, flatten
from drumline.data.functions.build import Batched
from drumline.data.functions.closures import ClosureFlattener
from drumline.data.functions.programs import random_states_kept
from drumline.data.functions.trace import UserFunction
from drumline.data.operations.batch import Batch
from drumline.data.operations.combine import Zip
from drumline.data.operations.reading.sources import Slices
from drumline.data.options import BaseDataset, dataset_class
from drumline.data.plan.node import Node, Specified


class _More(Exception):
    """The function does more than to batch its windows."""


@dataclasses.dataclass(frozen=True)
class _Single:
    """Stands for the only element of a dataset."""

    plan: Node


@dataclasses.dataclass(frozen=True, eq=False)
class _Unknown(Specified):
    """Stands for any window of a leaf; it has no elements to look at, and no number of them."""

    leaf: int
    name: ClassVar[str] = "a window"

    @property
    def cardinality(self) -> int:
        raise _More

    def walk(self) -> Iterator[Node]:
        raise _More


def batched_windows(
    user: UserFunction, windows: ElementSpec, made: Node
) -> tuple[Batched, ...] | None:
    """Return how a function batches windows, leaf by leaf; ``None`` if it does more than that.

    It is called with windows that cannot be looked into, twice, so that one which decides by their
    content, by random numbers or by what changes between its calls is not taken for another.

    Args:
        user: the function.
        windows: the spec of its argument.
        made: what it made of the first windows.
    """
    of_windows = all(isinstance(leaf, DatasetSpec) for leaf in windows.leaves)
    if not of_windows or type(made) not in (Batch, Zip, Slices):
        return None
    return _twice(lambda: _batches_of(_called(user, windows)))


def single_batches(
    user: UserFunction, windows: ElementSpec, results: Structure
) -> tuple[Batched, ...] | None:
    """Like ``batched_windows``, for a function whose leaves are single batches of windows.

    Args:
        user: the function.
        windows: the spec of its argument.
        results: the structure of what it returns.
    """
    if not all(isinstance(leaf, DatasetSpec) for leaf in windows.leaves):
        return None
    return _twice(lambda: _single_batches(_called(user, windows), results))


def batched_group(user: UserFunction, element: ElementSpec, made: Node) -> Batched | None:
    """Return how a function batches its window, if it does nothing else, whatever the key is.

    Args:
        user: the function.
        element: the spec of the window's elements.
        made: what it made of the first window.
    """
    if type(made) is not Batch or not _ignores_key(user.function):
        return None
    before = _read_by(user)
    found = _twice(lambda: _batches_of(_called_with(user, (np.int64(0), _unknown(element, 0)))))
    if found is None or len(found) != 1 or before is None or _read_by(user) != before:
        return None
    return found[0]


def _ignores_key(function: Any) -> bool:
    """Return whether a function's code never mentions its first argument."""
    code = getattr(function, "__code__", None)
    if not isinstance(function, types.FunctionType) or code is None or code.co_argcount != 2:
        return False
    name = code.co_varnames[0]
    used = (instruction.argval for instruction in dis.get_instructions(code))
    return not any(value == name or (type(value) is tuple and name in value) for value in used)


def _read_by(user: UserFunction) -> Hashable:
    """Return a key of what a function reads; ``None`` if that has none, such as an iterator."""
    try:
        return ClosureFlattener(user.function).taken_apart(user.function).key()
    except Incomparable:
        return None


def _twice(call: Callable[[], tuple[Batched, ...]]) -> tuple[Batched, ...] | None:
    try:
        first, second = call(), call()
    except _More:
        return None
    return first if first == second else None


def _called(user: UserFunction, windows: ElementSpec) -> Any:
    unknown = [
        _unknown(leaf.element, i)
        for i, leaf in enumerate(windows.leaves)
        if isinstance(leaf, DatasetSpec)
    ]
    return _called_with(user, windows.structure.unflatten(unknown))


def _unknown(element: ElementSpec, leaf: int) -> BaseDataset:
    return _datasets_of_unknown()(_Unknown((), element, leaf))


def _called_with(user: UserFunction, argument: Any) -> Any:
    with random_states_kept(), SeedsFor(0, (0,)) as seeds:
        before = _random_states()
        try:
            result = user(argument)
        except Exception as error:
            # It did not fail with real windows: what looking into one raised came of it, perhaps
            # within an error of its own.
            raise _More from error
        if seeds.drawn or _random_states() != before:
            raise _More
    return result


@functools.cache
def _datasets_of_unknown() -> type[BaseDataset]:
    class OfUnknown(dataset_class()):  # type: ignore[misc]
        def get_single_element(self, name: str | None = None) -> Any:
            return _Single(self._plan)

    return OfUnknown


def _random_states() -> tuple[Any, ...]:
    numpy = np.random.get_state(legacy=False)
    assert isinstance(numpy, dict)
    return random.getstate(), numpy["state"]["key"].tobytes(), numpy["state"]["pos"]


def _batches_of(result: Any) -> tuple[Batched, ...]:
    if not isinstance(result, BaseDataset):
        raise _More
    return tuple(_batches(result._plan))


def _single_batches(result: Any, structure: Structure) -> tuple[Batched, ...]:
    leaves, found = flatten(result)
    if found != structure or not all(isinstance(leaf, _Single) for leaf in leaves):
        raise _More
    parts = [tuple(_batches(leaf.plan)) for leaf in leaves]
    if any(len(part) > 1 or part[0].size is None for part in parts):
        raise _More
    return tuple(part for (part,) in parts)


def _batches(plan: Node) -> Iterator[Batched]:
    if type(plan) is Zip:
        for node in plan.inputs:
            yield from _batches(node)
    elif type(plan) is Batch:
        for leaf in _leaves(plan.input):
            yield Batched(leaf, plan.size, plan.drop_remainder)
    else:
        for leaf in _leaves(plan):
            yield Batched(leaf, None, False)


def _leaves(plan: Node) -> Iterator[int]:
    """Yield the windows that a plan is made of, side by side."""
    if type(plan) is _Unknown:
        yield plan.leaf
    elif type(plan) is Zip:
        for node in plan.inputs:
            yield from _leaves(node)
    else:
        raise _More
