"""Elements for which a predicate holds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drumline._memory import BufferPool
from drumline.data.elements.block import Block
from drumline.data.elements.spec import INFINITE, STRING, UNKNOWN
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.call import BlockFunction
from drumline.data.operations.map import own_input
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import CountingStage, ServingStage, Stage

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


class Predicate(CountingStage):
    """Blocks without the elements that fail the test; only ``FilterStage`` pulls it.

    Where reading ahead cannot be noticed it ignores ``limit`` and evaluates a whole block: padding
    a short one costs the same.

    Attributes:
        prepared: its results for all elements of the source, if they were computed beforehand.
    """

    prepared: Block | None = None

    def __init__(self, source: Stage, function: BlockFunction, pool: BufferPool):
        super().__init__(source)
        self.function = function
        self._pool = pool
        self.preferred_block_size = max(source.preferred_block_size, function.block_length)

    def next(self, limit: int) -> Block | None:
        wanted = (
            self.preferred_block_size
            if self.allows_readahead and self.preferred_block_size > 1
            else limit
        )
        block = self._pushback.peek(self.function.limit(wanted))
        if block is None:
            return None
        start = self._position
        verdict = self._verdict(block, start)
        self._use(verdict.events)
        keep = verdict.columns[0]
        kept = Block([c[: verdict.n] for c in block.columns], verdict.n)
        out = kept if keep.all() else self._selected(kept, keep)
        out.error = verdict.error
        return out

    def _verdict(self, block: Block, start: int) -> Block:
        if self.prepared is None:
            return self.function(block, lambda row: start + row)
        verdict = self.prepared.slice(start, start + block.n)
        return Block(verdict.columns, verdict.n, block.error)

    def _selected(self, block: Block, keep: np.ndarray) -> Block:
        index = np.flatnonzero(keep)
        columns = [
            self._taken(column, index)
            if isinstance(column, np.ndarray) and column.dtype != STRING
            else column[index]
            for column in block.columns
        ]
        return Block(columns, len(index))

    def _taken(self, column: np.ndarray, index: np.ndarray) -> np.ndarray:
        out = self._pool.empty((len(index), *column.shape[1:]), column.dtype)
        # Anything but "raise" writes to ``out`` itself; no index is out of range.
        return np.take(column, index, axis=0, out=out, mode="clip")

    def describe(self) -> str:
        return f"predicate {self.function.describe()}"


class FilterStage(ServingStage):
    """Serves what a ``Predicate``, evaluated on whole blocks, let through."""

    def __init__(self, source: Stage, function: BlockFunction, pool: BufferPool):
        super().__init__(Predicate(source, function, pool))

    def describe(self) -> str:
        return "keep where true"


@dataclasses.dataclass(frozen=True, eq=False)
class Filter(Node):
    """The elements for which a function returns true."""

    function: BuiltFunction
    label: str
    name: ClassVar[str] = "filter"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN

    def arguments(self) -> str:
        return self.label


def lower_filter(lowering: Lowering, node: Filter, trail: Trail, run: Pass) -> Stage:
    source = own_input(lowering, node, trail, run)
    return FilterStage(source, node.function.run, lowering.pool)
