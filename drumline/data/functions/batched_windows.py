"""Which functions of windows do nothing but batch them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from drumline.data.dataset_spec import DatasetSpec
from drumline.data.functions.purity import random_states_kept
from drumline.data.functions.user_function import UserFunction
from drumline.data.methods.planned import Planned
from drumline.data.plan.batching import Batch
from drumline.data.plan.combining import Zip
from drumline.data.plan.node import Node
from drumline.data.seeds import SeedsFor
from drumline.data.spec import ElementSpec
from drumline.data.wrapping import as_dataset


@dataclasses.dataclass(frozen=True)
class Batched:
    """A leaf of what a function makes: batches of one of its windows.

    Attributes:
        leaf: which leaf of the elements the window holds.
        size: of the batches.
        drop_remainder: as of ``batch``.
    """

    leaf: int
    size: int
    drop_remainder: bool


class _More(Exception):
    """The function does more than to batch its windows."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Unknown(Node):
    """Stands for any window of a leaf; it has no elements to look at, and no number of them."""

    leaf: int
    element: ElementSpec
    name: ClassVar[str] = "a window"

    @property
    def spec(self) -> ElementSpec:
        return self.element

    @property
    def cardinality(self) -> int:
        raise _More

    def walk(self) -> Iterator[Node]:
        raise _More


def batched_windows(
    user: UserFunction, windows: ElementSpec, made: Node
) -> tuple[Batched, ...] | None:
    """How a function batches windows, leaf by leaf; ``None`` if it does more than that.

    It is called with windows that cannot be looked into, twice, so that one which decides by their
    content, by random numbers or by what changes between its calls is not taken for another.

    Args:
        user: the function.
        windows: the spec of its argument.
        made: what it made of the first windows.
    """
    of_windows = all(isinstance(leaf, DatasetSpec) for leaf in windows.leaves)
    if not of_windows or type(made) not in (Batch, Zip):
        return None
    try:
        first, second = _called(user, windows), _called(user, windows)
    except Exception:
        # It does something else with windows, or looks into them: it did not fail with real ones.
        return None
    return first if first == second else None


def _called(user: UserFunction, windows: ElementSpec) -> tuple[Batched, ...]:
    unknown = [
        as_dataset(_Unknown((), i, leaf.element))
        for i, leaf in enumerate(windows.leaves)
        if isinstance(leaf, DatasetSpec)
    ]
    with random_states_kept(), SeedsFor(0, (0,)) as seeds:
        before = _random_states()
        result = user(windows.structure.unflatten(unknown))
        if seeds.drawn or _random_states() != before or not isinstance(result, Planned):
            raise _More
    return tuple(_batches(result._plan))


def _random_states() -> tuple[Any, ...]:
    numpy = np.random.get_state(legacy=False)
    assert isinstance(numpy, dict)
    return random.getstate(), numpy["state"]["key"].tobytes(), numpy["state"]["pos"]


def _batches(plan: Node) -> Iterator[Batched]:
    if type(plan) is Zip:
        for node in plan.inputs:
            yield from _batches(node)
    elif type(plan) is Batch:
        for leaf in _leaves(plan.input):
            yield Batched(leaf, plan.size, plan.drop_remainder)
    else:
        raise _More


def _leaves(plan: Node) -> Iterator[int]:
    """The windows that a plan is made of, side by side."""
    if type(plan) is _Unknown:
        yield plan.leaf
    elif type(plan) is Zip:
        for node in plan.inputs:
            yield from _leaves(node)
    else:
        raise _More
