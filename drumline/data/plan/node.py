"""The logical plan: an immutable tree of operations, how to change it, and checks of arguments."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

from drumline.data.elements.seeds import draw_seed
from drumline.data.elements.spec import AUTOTUNE, INFINITE, UNKNOWN, ElementSpec


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
    digest_name: ClassVar[str | None] = None
    """Stands in fingerprints for the name of the class, where that was changed."""
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
    """An operation that is given the spec of its elements.

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


def count_of(value: Any, operation: str, name: str, least: int | None = None) -> int:
    """``value`` as an integer, of at least ``least``; errors name the method and the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        meant = isinstance(value, str) and value == "AUTOTUNE"
        found = f"{value!r:.40}{_automatic(operation, name) if meant else ''}"
        raise TypeError(f"{operation}: {name} must be an integer, got {found}") from None
    if least is not None and number < least:
        hint = _automatic(operation, name) if number == AUTOTUNE else ""
        raise ValueError(f"{operation}: {name} must be at least {least}, got {number}{hint}")
    if abs(number) >= 2**63:
        raise ValueError(f"{operation}: {name} must be less than 2**63, got {number}")
    return number


def _automatic(operation: str, name: str) -> str:
    """What to say to one who wants an argument to be left to drumline."""
    if name in ("num_parallel_calls", "num_parallel_reads", "cycle_length") or (
        (operation, name) == ("prefetch", "buffer_size")
    ):
        return "; give dl.data.AUTOTUNE, which is a number"
    if name in ("batch_size", "buffer_size", "block_length"):
        return f"; {name} cannot be AUTOTUNE (-1): give a number"
    return ""


def seed_of(seed: Any, operation: str) -> int:
    """The seed that was given, or one drawn now.

    Raises:
        TypeError: it is no integer.
    """
    if seed is None:
        return draw_seed()
    try:
        return operator.index(seed) % 2**64
    except TypeError:
        raise TypeError(f"{operation}: seed must be an integer or None, got {seed!r:.40}") from None


def parallel_calls(num_parallel_calls: int | None, operation: str) -> int | None:
    """The number of workers meant, ``AUTOTUNE``, or ``None`` if it was left open."""
    if num_parallel_calls is None or num_parallel_calls == AUTOTUNE:
        return num_parallel_calls
    return count_of(num_parallel_calls, operation, "num_parallel_calls", least=1)


def check_deterministic(value: Any, operation: str) -> None:
    """Rejects what is no bool or ``None``; results come in order either way."""
    if value not in (None, True, False):
        raise TypeError(f"{operation}: deterministic must be a bool or None, got {value!r}")


def shuffle_buffer(buffer_size: Any, cardinality: int) -> int:
    """Return the number of elements that ``shuffle`` is to hold, ``UNKNOWN`` for all.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is not positive, or all of a dataset that never ends.
    """
    number = count_of(buffer_size, "shuffle", "buffer_size")
    if number == UNKNOWN and cardinality == INFINITE:
        raise ValueError(
            "shuffle: a buffer for all elements of a dataset that never ends is never full; "
            "give a number, or shuffle before repeat"
        )
    least = 1 if number != UNKNOWN else UNKNOWN
    return count_of(number, "shuffle", "buffer_size", least)


def check_rows(spec: ElementSpec, operation: str) -> None:
    """Reject elements that cannot be split into rows.

    Raises:
        ValueError: if a leaf is a scalar, or first dimensions are known to differ.
    """
    if any(not leaf.shape for leaf in spec.leaves):
        raise ValueError(f"{operation}: a leaf has no first dimension: {spec.tree()}")
    if len({leaf.shape[0] for leaf in spec.leaves} - {None}) > 1:
        raise ValueError(f"{operation}: first dimensions differ: {spec.tree()}")
