"""What every group of methods builds on: a plan, and the options it runs under."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, Self

from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.plan.placing import PrefetchToDevice


class Planned:
    """Holds an immutable plan; methods return another object over a larger plan."""

    def __init_subclass__(cls, **given: Any) -> None:
        """Methods are of ``Dataset`` to who reads what Python says of a call that is wrong."""
        super().__init_subclass__(**given)
        for name, value in vars(cls).items():
            function: Any = value
            if isinstance(value, classmethod | staticmethod):
                function = value.__func__
            elif isinstance(value, property):
                function = value.fget
            if getattr(function, "__qualname__", "") == f"{cls.__qualname__}.{name}":
                function.__qualname__ = f"Dataset.{name}"

    def __init__(self, plan: Node, options: Options | None = None):
        if any(isinstance(part, PrefetchToDevice) for part in plan.inputs):
            raise ValueError(
                f"{plan.name}: prefetch_to_device must be the last operation of a dataset; call it "
                "after all others"
            )
        self._plan = plan
        self._given_options = options

    @property
    def _options(self) -> Options:
        """Made when they are asked for: functions make many datasets whose options nobody reads."""
        if self._given_options is None:
            self._given_options = Options()
        return self._given_options

    @property
    def element_spec(self) -> Any:
        """A ``TensorSpec`` for each leaf, in the structure of the elements."""
        return self._plan.spec.tree()

    def _with(self, plan: Node, name: str | None = None) -> Self:
        return type(self)(named(plan, name), self._given_options)


def merged_options(datasets: Iterable[Planned]) -> Options | None:
    """The options of all, later ones first in force; ``None`` if none has any."""
    given = [d._given_options for d in datasets if d._given_options is not None]
    return functools.reduce(Options.merged, given) if given else None


def named(plan: Node, name: str | None) -> Node:
    """The same operation under the name the user gave it, which ``explain()`` shows."""
    return plan if name is None else dataclasses.replace(plan, title=name)
