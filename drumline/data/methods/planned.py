"""What every group of methods builds on: a plan, and the options it runs under."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from drumline.data.options import Options
from drumline.data.plan.node import Node


class Planned:
    """Holds an immutable plan; methods return another object over a larger plan."""

    def __init__(self, plan: Node, options: Options | None = None):
        self._plan = plan
        self._options = options if options is not None else Options()

    @property
    def element_spec(self) -> Any:
        """A ``TensorSpec`` for each leaf, in the structure of the elements."""
        return self._plan.spec.tree()

    def _with(self, plan: Node, name: str | None = None) -> Self:
        return type(self)(named(plan, name), self._options)


def named(plan: Node, name: str | None) -> Node:
    """The same operation under the name the user gave it, which ``explain()`` shows."""
    return plan if name is None else dataclasses.replace(plan, title=name)
