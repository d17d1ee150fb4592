"""What modules below ``Dataset`` know of one: a plan, and the options it runs under."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, Self

from drumline.data.elements.spec import DatasetValue
from drumline.data.options import Options
from drumline.data.plan.node import Node


class BaseDataset(DatasetValue):
    """An immutable plan with its options; `Dataset` adds the methods.

    The modules that build and run plans import this class, since `Dataset` imports them.

    Args:
        plan: what the elements are made of.
        options: those that were set; ``None`` for the defaults.

    Raises:
        ValueError: if an operation follows ``prefetch_to_device``.
    """

    def __init__(self, plan: Node, options: Options | None = None):
        for part in plan.inputs:
            check_on_host(part, plan.name)
        self._plan = plan
        self._given_options = options

    @property
    def _options(self) -> Options:
        """The options in force, created on first use: most datasets in functions need none."""
        if self._given_options is None:
            self._given_options = Options()
        return self._given_options

    def _with(self, plan: Node, name: str | None = None) -> Self:
        return type(self)(named(plan, name), self._given_options)


def check_on_host(plan: Node, operation: str) -> None:
    """Reject a plan whose elements are on a device, for an operation that would follow.

    Raises:
        ValueError: if ``plan`` ends with ``prefetch_to_device``.
    """
    if plan.is_last:
        raise ValueError(
            f"{operation}: prefetch_to_device must be the last operation of a dataset; call it "
            "after all others"
        )


def merged_options(datasets: Iterable[BaseDataset]) -> Options | None:
    """Merge the options of several datasets, later ones first in force.

    Returns:
        ``None`` if no dataset has any.
    """
    given = [d._given_options for d in datasets if d._given_options is not None]
    return functools.reduce(Options.merged, given) if given else None


def named(plan: Node, name: str | None) -> Node:
    """Return the operation under the name the user gave it, which ``explain()`` shows."""
    return plan if name is None else dataclasses.replace(plan, title=name)


_classes: list[type[BaseDataset]] = []


def set_dataset_class(dataset: type[BaseDataset]) -> None:
    """Say which class `Dataset` is; called once, where it is defined."""
    _classes[:] = [dataset]


def dataset_class() -> Any:
    """Return the class `Dataset`, for modules that it imports."""
    return _classes[0]


def as_dataset(plan: Node) -> Any:
    """Return a `Dataset` over ``plan``, for modules that `Dataset` imports."""
    return _classes[0](plan)
