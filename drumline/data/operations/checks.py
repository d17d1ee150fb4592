"""Operations that look at each element: ``take_while``, ``unique``, ``scan``, ``ignore_errors``."""

from __future__ import annotations

import base64
import dataclasses
import logging
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drumline._forks import ForkSafeLock
from drumline.data.elements.block import Block
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import INFINITE, STRING, UNKNOWN, ElementSpec, as_dtype
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.recurrence import BuiltRecurrence, Recurrence
from drumline.data.operations.map import own_input
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    MAX_ELEMENTS,
    CountingStage,
    RandomAccessSource,
    Stage,
    State,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


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
        self._lock = ForkSafeLock()
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
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is not None and inner.length != node.expected:
        number = "infinitely many" if node.expected == INFINITE else node.expected
        raise ValueError(
            f"assert_cardinality: {number} elements were expected, there are {inner.length}"
        )
    return inner


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Node):
    """A function of a state and each element, whose new state goes to the next.

    Attributes:
        function: the user's, traced or arranged to run as Python.
        label: its name, for ``explain()``.
        start: a digest of the initial state, for the fingerprint.
    """

    function: BuiltRecurrence
    label: str
    start: str
    name: ClassVar[str] = "scan"

    @property
    def spec(self) -> ElementSpec:
        return self.function.spec

    def arguments(self) -> str:
        return f"{self.label}, initial state {self.start}"


_logger = logging.getLogger("drumline.data")


class IgnoreErrorsStage(Stage):
    """Leaves errors out, and counts them."""

    def __init__(self, source: Stage, count: ErrorCount, log_warning: bool):
        self.source = source
        self.count = count
        self.log_warning = log_warning
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size

    def next(self, limit: int) -> Block | None:
        while (block := self.source.next(limit)) is not None:
            if block.error is not None:
                self.count.add()
                if self.log_warning:
                    _logger.warning(
                        "ignore_errors: %s: %s", type(block.error).__name__, block.error
                    )
            if block.n:
                return Block(block.columns, block.n)
        return None

    def state(self) -> State:
        return {"input": self.source.state()}

    def restore(self, state: State) -> None:
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"ignore errors ({self.count.value} so far)"


class AssertCardinalityStage(Stage):
    """An error in place of the end, or of the element, that should not be there."""

    def __init__(self, source: Stage, expected: int, spec: ElementSpec):
        self.source = source
        self.expected = expected
        self.spec = spec
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._position = 0
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        missing = limit if self.expected == INFINITE else self.expected - self._position
        block = self.source.next(min(limit, missing) if missing else 1)
        if block is not None and missing:
            self._position += block.events
            return block
        self._ended = True
        if block is None and self._position == self.expected:
            return None
        if block is not None and not block.n:  # what follows is no element but cannot be read
            return block
        found = f"only {self._position}" if block is None else f"at least {self._position + 1}"
        number = "infinitely many" if self.expected == INFINITE else self.expected
        error = ValueError(
            f"assert_cardinality: {number} elements were expected, there are {found}"
        )
        return Block(stack([], self.spec), 0, error)

    def state(self) -> State:
        return {"position": self._position, "ended": self._ended, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._position, self._ended = state["position"], state["ended"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"assert cardinality {self.expected}"


class TakeWhileStage(CountingStage):
    """Ends before the first element that fails the test."""

    def __init__(self, source: Stage, function: BlockFunction):
        super().__init__(source)
        self.function = function
        self.preferred_block_size = max(source.preferred_block_size, function.block_length)
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        limit = self.function.limit(
            min(limit, self.preferred_block_size) if self.preferred_block_size > 1 else limit
        )
        block = self._pushback.peek(limit)
        if block is None:
            return None
        start = self._position
        verdict = self.function(block, lambda row: start + row)
        keep = verdict.columns[0]
        if not keep.all():
            rows = int(np.argmin(keep))
            self._ended = True
            self._use(rows)
            return block.slice(0, rows) if rows else None
        self._use(verdict.events)
        return Block([column[: verdict.n] for column in block.columns], verdict.n, verdict.error)

    def state(self) -> State:
        return {"ended": self._ended, **super().state()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._ended = state["ended"]

    def describe(self) -> str:
        return f"take while {self.function.describe()}"


class UniqueStage(Stage):
    """Remembers all elements it has seen.

    Its state is the number of elements read: restoring reads the input again from its start.
    """

    def __init__(self, source: Stage):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._seen: set[Hashable] = set()
        self._position = 0

    def next(self, limit: int) -> Block | None:
        while (block := self.source.next(limit)) is not None:
            new = self._new(block)
            out = block if len(new) == block.n else block.select(_mask(new, block.n))
            out.error = block.error
            if out.events:
                return out
        return None

    def _new(self, block: Block) -> list[int]:
        self._position += block.events
        seen, before = self._seen, len(self._seen)
        keys = _keys(block.columns[0]) if block.n else []
        new = []
        for row, key in enumerate(keys):
            seen.add(key)
            if len(seen) > before:
                before += 1
                new.append(row)
        return new

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        while (missing := state["position"] - self._position) > 0:
            block = self.source.next(min(missing, MAX_ELEMENTS))
            if block is None:
                return
            self._new(block)

    def most_nbytes(self) -> int | None:
        return None

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"unique ({len(self._seen)} seen)"


def _keys(column: np.ndarray) -> list[Any]:
    if column.ndim == 1:
        return list(column.tolist())
    if column.dtype == STRING:
        return [(row.shape, tuple(row.reshape(-1))) for row in column]
    return [(row.shape, row.tobytes()) for row in column]


def _mask(rows: list[int], n: int) -> np.ndarray:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


class ScanStage(CountingStage):
    """The function's results; its state is part of the stage's."""

    def __init__(self, source: Stage, function: Recurrence):
        super().__init__(source)
        self.function = function
        self.preferred_block_size = max(source.preferred_block_size, function.block_length)

    def next(self, limit: int) -> Block | None:
        limit = self.function.limit(
            min(limit, self.preferred_block_size) if self.preferred_block_size > 1 else limit
        )
        block = self._pushback.peek(limit)
        if block is None:
            return None
        start = self._position
        out = self.function(block, lambda row: start + row)
        self._use(out.events)
        return out

    def state(self) -> State:
        return {"state": [packed(leaf) for leaf in self.function.state], **super().state()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.function.state = [unpacked(leaf) for leaf in state["state"]]

    def describe(self) -> str:
        return f"scan {self.function.describe()}"


def packed(array: np.ndarray) -> dict[str, Any]:
    """Return an array as JSON, to the bit."""
    array = np.asarray(array)
    strings = array.dtype == STRING
    data: Any = [_text(item) for item in array.reshape(-1)] if strings else _text(array.tobytes())
    name = "string" if strings else array.dtype.name
    return {"dtype": name, "shape": list(array.shape), "data": data}


def unpacked(value: dict[str, Any]) -> np.ndarray:
    """Return the array that ``packed`` took."""
    dtype, shape = as_dtype(value["dtype"]), tuple(value["shape"])
    if dtype == STRING:
        array = np.empty(len(value["data"]), object)
        array[:] = [base64.b64decode(item) for item in value["data"]]
        return array.reshape(shape)
    return np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(shape)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def lower_take_while(lowering: Lowering, node: TakeWhile, trail: Trail, run: Pass) -> Stage:
    source = own_input(lowering, node, trail, run)
    return TakeWhileStage(source, node.function.run)


def lower_unique(lowering: Lowering, node: Unique, trail: Trail, run: Pass) -> Stage:
    return UniqueStage(lowering.input(node, trail, run))


def lower_ignore_errors(lowering: Lowering, node: IgnoreErrors, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return IgnoreErrorsStage(source, node.count, node.log_warning)


def lower_assert_cardinality(
    lowering: Lowering, node: AssertCardinality, trail: Trail, run: Pass
) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return AssertCardinalityStage(source, node.expected, node.spec)


def lower_scan(lowering: Lowering, node: Scan, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=node.function.is_python)
    return ScanStage(source, node.function.start())
