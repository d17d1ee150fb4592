"""The logical plan: an immutable tree of operations, and walking it to change it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar, Self

from drumline.data.elements.spec import ElementSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One operation. Subclasses add its arguments; ``spec`` and ``cardinality`` follow from them.

    Attributes:
        inputs: the datasets it reads.
        title: the name the user gave it, for ``explain()``; it changes nothing.
    """

    inputs: tuple[Node, ...]
    title: str | None = dataclasses.field(default=None, kw_only=True)

    name: ClassVar[str] = ""
    is_last: ClassVar[bool] = False
    """Whether no operation may follow."""
    reads_files: ClassVar[bool] = False
    """Whether its elements are records of files that an input names."""

    @property
    def input(self) -> Node:
        """The only input."""
        (only,) = self.inputs
        return only

    @property
    def spec(self) -> ElementSpec:
        """What its elements look like."""
        return self.input.spec

    @property
    def cardinality(self) -> int:
        """How many elements it has, or ``INFINITE`` or ``UNKNOWN``."""
        return self.input.cardinality

    def arguments(self) -> str:
        """Its arguments as ``explain()`` and the plan's fingerprint show them."""
        return ""

    def with_inputs(self, *inputs: Node) -> Self:
        """The same operation over other inputs."""
        return dataclasses.replace(self, inputs=inputs)

    def walk(self) -> Iterator[Node]:
        """This node and all below, inputs first; shared ones as often as they occur."""
        for node in self.inputs:
            yield from node.walk()
        yield self

    def describe(self, depth: int = 0, titles: bool = False) -> str:
        """The tree as text, an operation a line, its inputs indented below it."""
        title = f" {self.title!r}" if titles and self.title is not None else ""
        line = "  " * depth + f"{self.name}({self.arguments()}){title}"
        return "\n".join([line, *(node.describe(depth + 1, titles) for node in self.inputs)])


@dataclasses.dataclass(frozen=True, eq=False)
class Specified(Node):
    """An operation that does not find out what its elements look like, but is told.

    Attributes:
        element: the spec.
    """

    element: ElementSpec

    @property
    def spec(self) -> ElementSpec:
        return self.element


Trail = tuple[int, ...]
"""Where in the tree a node stands: which input to follow at each step from the root."""


Pass = tuple[int, ...]
"""Which epoch, and inside it which repetition, a stage runs in."""


def bottom_up(plan: Node, change: Callable[[Node], Node]) -> Node:
    """Applies ``change`` to every node, inputs first; nodes that stay the same stay identical."""
    inputs = tuple(bottom_up(node, change) for node in plan.inputs)
    same = all(new is old for new, old in zip(inputs, plan.inputs, strict=True))
    return change(plan if same else plan.with_inputs(*inputs))
