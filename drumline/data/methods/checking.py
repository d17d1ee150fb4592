"""Methods that look at each element: at its value, at whether it comes again or failed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from drumline.data.cardinality import INFINITE
from drumline.data.functions.user_function import UserFunction
from drumline.data.iterator import DatasetIterator
from drumline.data.methods.drawing import build_over, without_key
from drumline.data.methods.planned import Planned
from drumline.data.plan import checking
from drumline.data.spec import TensorSpec


class Checking(Planned):
    """``take_while``, ``unique``, what concerns errors and numbers, and the one element."""

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """The elements before the first for which ``predicate`` returns false.

        Raises:
            TypeError: it does not return one bool.
        """
        plan, built = build_over(self._plan, predicate, "take_while")
        label = UserFunction(predicate, "take_while").name
        if built.spec.leaves != (TensorSpec((), np.bool_),) or built.spec.structure.kind != "leaf":
            raise TypeError(
                f"take_while({label}) must return one bool, it returns {built.spec.tree()}"
            )
        taken: Any = self._with(checking.TakeWhile((plan,), built, label), name)
        return taken if plan is self._plan else taken.map(without_key)

    def unique(self, name: str | None = None) -> Self:
        """Leaves out elements that came before.

        All different elements are kept in memory, and restoring an iterator reads the input again.

        Raises:
            TypeError: elements are not one array of integers, bools or strings.
        """
        (leaf, *more) = self._plan.spec.leaves
        if more or not (leaf.is_string or leaf.dtype.kind in "iub"):
            raise TypeError(
                "unique takes elements that are one array of integers, bools or strings, they are "
                f"{self.element_spec}; map them to a key first"
            )
        return self._with(checking.Unique((self._plan,)), name)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Self:
        """Leaves out elements that could not be made; ``ignored_errors`` says how many.

        Args:
            log_warning: whether each is logged, as a warning of the logger ``drumline.data``.
            name: shown by ``explain()``.
        """
        count = checking.ErrorCount()
        return self._with(checking.IgnoreErrors((self._plan,), bool(log_warning), count), name)

    @property
    def ignored_errors(self) -> int:
        """How many errors ``ignore_errors`` has passed over in this process, in all epochs.

        A prefetch may have met some of them ahead of its consumer.
        """
        nodes = self._plan.walk()
        return sum(n.count.value for n in nodes if isinstance(n, checking.IgnoreErrors))

    def assert_cardinality(self, expected_cardinality: int, name: str | None = None) -> Self:
        """Says how many elements there are: known from then on, and checked as they come.

        Args:
            expected_cardinality: a number or ``INFINITE_CARDINALITY``. Another number of elements
                raises ``ValueError`` where it shows.
            name: shown by ``explain()``.
        """
        expected = operator.index(expected_cardinality)
        if expected < INFINITE:
            raise ValueError(f"assert_cardinality: no number of elements: {expected}")
        return self._with(checking.AssertCardinality((self._plan,), expected), name)

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element.

        Raises:
            ValueError: there is none, or more than one.
        """
        where = f"get_single_element{f' {name!r}' if name is not None else ''}"
        iterator = iter(self)
        try:
            found = [element for element, _ in zip(iterator, range(2), strict=False)]
        finally:
            iterator.close()
        if len(found) != 1:
            raise ValueError(
                f"{where}: the dataset {'has more than one' if found else 'has no'} element"
            )
        return found[0]

    def __iter__(self) -> DatasetIterator[Any]:
        """Starts the next epoch."""
        raise NotImplementedError
