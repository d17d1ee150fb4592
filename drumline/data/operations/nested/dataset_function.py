"""Users' functions that return datasets."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.errors import at_element
from drumline.data.elements.seeds import SeedsFor, draw_seed
from drumline.data.elements.spec import ElementSpec, TensorSpec, merged_element
from drumline.data.functions.build import Batched
from drumline.data.functions.closures import Reuse
from drumline.data.functions.programs import random_states_kept
from drumline.data.functions.trace import UserFunction, as_python
from drumline.data.operations.nested.batched_windows import batched_group, batched_windows
from drumline.data.operations.reading.sources import Generator
from drumline.data.options import BaseDataset
from drumline.data.plan.node import Node


@dataclasses.dataclass(frozen=True)
class DatasetFunction:
    """A function that makes a dataset for each element, called as Python.

    Attributes:
        function: the user's.
        spec: of the elements of all datasets that it makes.
        seed: from which the seeds of operations inside it follow; ``None`` if it draws none.
        allows_readahead: whether the datasets may be read ahead: none of them runs a generator.
        reads_files: whether they are records of files that an element names.
        batched: where it does nothing but batch windows, each leaf of what it makes.
        given: the specs of its argument, where these are known.
        wide: whether JAX has 64-bit types while it is called, since it would narrow integers.
    """

    function: UserFunction
    spec: ElementSpec
    seed: int | None
    allows_readahead: bool
    reads_files: bool
    batched: tuple[Batched, ...] | None = None
    given: tuple[TensorSpec, ...] = ()
    wide: bool = False

    @property
    def label(self) -> str:
        """The function's name."""
        return self.function.name

    @property
    def _remedy(self) -> str:
        if self.function.operation != "group_by_window":
            return ""
        return ", or output_signature say which dimensions vary, with None"

    @functools.cached_property
    def reuse(self) -> Reuse:
        """Functions inside it that were compiled for another element."""
        return Reuse(self.function.function)

    def __call__(self, element: Any, place: Sequence[int]) -> Node:
        """Return the plan of the dataset made for ``element``.

        Args:
            element: as iteration gives it; a tuple is spread over the arguments.
            place: the epoch, the pass of each ``repeat`` and, last, the element's position.

        Raises:
            Exception: what the function raises, with the position in a note.
        """
        try:
            with (
                SeedsFor(self.seed or 0, place),
                self.reuse.in_force(),
                as_python(self.given, self.wide),
            ):
                plan = _plan_of(self.function(element), self.function)
            if plan.spec != self.spec and merged_element(self.spec, plan.spec) != self.spec:
                raise ValueError(
                    f"{self.function.where} returned a dataset of {plan.spec.tree()}; its datasets "
                    f"so far have {self.spec.tree()}: give all of them elements of one structure, "
                    f"dtype and shape (a map inside the function can pad{self._remedy})"
                )
        except Exception as error:
            at_element(error, place[-1], self.function.where)
            raise
        return plan


def dataset_function(
    function: Callable[..., Any],
    operation: str,
    first: Any,
    others: Callable[[], Sequence[Any]],
    spec: ElementSpec | None = None,
    promised: ElementSpec | None = None,
    grouped: ElementSpec | None = None,
) -> DatasetFunction:
    """Call ``function`` for the first elements, to see what its datasets look like.

    Args:
        function: the user's.
        operation: the method it was given to.
        first: the first element of the input.
        others: gives further ones; they show which dimensions vary, if there are any.
        spec: of the input's elements, if they may be windows.
        promised: of the elements of all datasets, if the user says so; no others are tried then.
        grouped: of the elements of a window, if it takes a key and a window.

    Raises:
        ValueError: the first dataset is not as was promised.
        TypeError: it does not return a dataset.
        Exception: what it raises for the first element.
    """
    user = UserFunction(function, operation)
    seeds = SeedsFor(0, (0,))
    given = () if spec is None else spec.leaves
    with random_states_kept(), seeds:
        try:
            with as_python(given, wide=False):
                plan = _plan_of(user(first), user)
        except Exception as error:
            at_element(error, 0, user.where)
            raise
        wide = _narrows_integers(plan, user, first, given)
        with as_python(given, wide):
            if wide:
                plan = _plan_of(user(first), user)
            made = promised or _with_varying(plan.spec, user, others)
    if merged_element(made, plan.spec) != made:
        raise ValueError(
            f"{user.where} returned a dataset of {plan.spec.tree()}, output_signature says "
            f"{made.tree()}"
        )
    allows_readahead = not any(isinstance(node, Generator) for node in plan.walk())
    reads_files = any(node.reads_files for node in plan.walk())
    batched = None if spec is None else batched_windows(user, spec, plan)
    if grouped is not None and (found := batched_group(user, grouped, plan)) is not None:
        batched = (found,)
    seed = draw_seed() if seeds.drawn else None
    return DatasetFunction(user, made, seed, allows_readahead, reads_files, batched, given, wide)


def _narrows_integers(
    plan: Node, user: UserFunction, first: Any, given: Sequence[TensorSpec]
) -> bool:
    """Return whether JAX by default narrows 64-bit integers to 32 bits in the function.

    Args:
        plan: of the dataset made without 64-bit types.
        user: the function.
        first: what it was made of.
        given: the specs of that; none where they are not known.
    """
    if given and not any(leaf.dtype in _WIDE_INTEGERS for leaf in given):
        return False
    if not any(leaf.dtype in _INTEGERS for leaf in plan.spec.leaves):
        return False
    try:
        with as_python(given, wide=True):
            other = _plan_of(user(first), user).spec
    except Exception:
        # It works without 64-bit types alone, as it did when the plan was made.
        return False
    pairs = zip(plan.spec.leaves, other.leaves, strict=False)
    return any(a.dtype in _INTEGERS and b.dtype in _WIDE_INTEGERS for a, b in pairs)


_INTEGERS = (np.dtype("int32"), np.dtype("uint32"))
_WIDE_INTEGERS = (np.dtype("int64"), np.dtype("uint64"))


def _with_varying(
    spec: ElementSpec, user: UserFunction, others: Callable[[], Sequence[Any]]
) -> ElementSpec:
    if not any(dim is not None for leaf in spec.leaves for dim in leaf.shape):
        return spec
    for element in others():
        try:
            other = _plan_of(user(element), user).spec
        except Exception:
            # It is raised again, with its position, when that element's turn has come.
            continue
        spec = merged_element(spec, other) or spec
    return spec


def _plan_of(result: Any, user: UserFunction) -> Node:
    if not isinstance(result, BaseDataset):
        raise TypeError(f"{user.where} must return a Dataset, it returned {type(result).__name__}")
    return result._plan


@dataclasses.dataclass(frozen=True)
class WindowSize:
    """How many elements of a key make a window of ``group_by_window``."""

    size: int | Callable[[Any], Any]

    @property
    def label(self) -> str:
        """The name for ``explain()``."""
        if isinstance(self.size, int):
            return f"window_size={self.size}"
        return f"window_size_func={UserFunction(self.size, 'group_by_window').name}"

    def __call__(self, key: Any) -> int:
        """Return the number for a key (int64).

        Raises:
            ValueError: it is not positive.
        """
        if isinstance(self.size, int):
            number = self.size
        else:
            with as_python(()):
                number = operator.index(UserFunction(self.size, "group_by_window")(key))
        if number < 1:
            raise ValueError(
                f"group_by_window: window sizes must be positive, that of key {key} is {number}"
            )
        return number
