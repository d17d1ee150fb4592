"""Operations that look at each element: ``take_while``, ``unique`` and what concerns errors."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, ClassVar

from drumline.data.cardinality import INFINITE, UNKNOWN
from drumline.data.execute.indexed import Indexed
from drumline.data.functions.build import BuiltFunction
from drumline.data.plan.node import Node, Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class TakeWhile(Node):
    """The elements before the first for which a function returns false."""

    function: BuiltFunction
    label: str
    name: ClassVar[str] = "take_while"

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    def arguments(self) -> str:
        return self.label


@dataclasses.dataclass(frozen=True, eq=False)
class Unique(Node):
    """The elements that did not come before."""

    name: ClassVar[str] = "unique"

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN


class ErrorCount:
    """How many errors were passed over in this process; iterators of a dataset share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self) -> None:
        """One more."""
        with self._lock:
            self.value += 1


@dataclasses.dataclass(frozen=True, eq=False)
class IgnoreErrors(Node):
    """The elements that could be made."""

    log_warning: bool
    count: ErrorCount
    name: ClassVar[str] = "ignore_errors"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN

    def arguments(self) -> str:
        return f"log_warning={self.log_warning}"


@dataclasses.dataclass(frozen=True, eq=False)
class AssertCardinality(Node):
    """The input, which must have ``expected`` elements."""

    expected: int
    name: ClassVar[str] = "assert_cardinality"

    @property
    def cardinality(self) -> int:
        return self.expected

    def arguments(self) -> str:
        return str(self.expected)


def locate_assert_cardinality(
    lowering: Lowering, node: AssertCardinality, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is not None and inner.length != node.expected:
        number = "infinitely many" if node.expected == INFINITE else node.expected
        raise ValueError(
            f"assert_cardinality: {number} elements were expected, there are {inner.length}"
        )
    return inner
