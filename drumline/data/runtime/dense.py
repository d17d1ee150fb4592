"""Blocks of rows of different lengths cut where the length changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.elements.columns import ArrayRows, dense
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec
from drumline.data.runtime.stage import Carry, Described, Stage, State


def may_vary(item: Described) -> bool:
    """Whether blocks of a stage may hold columns of rows that differ in any dimension."""
    own = getattr(item, "varying", None)
    if own is None and getattr(item, "ragged", None) is False:
        return False
    return own if own is not None else any(may_vary(part) for part in item.parts())


def may_be_ragged(item: Described) -> bool:
    """Whether blocks of a stage may hold columns of rows that differ in length."""
    own = getattr(item, "ragged", None)
    return own if own is not None else any(may_be_ragged(part) for part in item.parts())


def ragged_rows(spec: ElementSpec) -> bool:
    """Whether columns of such elements may be ragged arrays: only their first dimension varies."""
    return any(leaf.shape[:1] == (None,) for leaf in spec.leaves)


class DenseStage(Stage):
    """For operations that take blocks of equal shapes only."""

    ragged = False
    varying = False

    def __init__(self, source: Stage):
        self.source = source
        self.eager = source.eager
        self.granule = source.granule
        self._carry = Carry(source)

    def next(self, limit: int) -> Block | None:
        block = self._carry.peek(limit)
        if block is None:
            return None
        rows = _equal_rows(block)
        part = block.slice(0, block.events if rows == block.n else rows)
        self._carry.commit(part.events)
        return Block([dense(column) for column in part.columns], part.n, part.error)

    def state(self) -> State:
        return self._carry.state()

    def restore(self, state: State) -> None:
        self._carry.restore(state)

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return "rows of equal shapes at a time"


def _equal_rows(block: Block) -> int:
    """How many rows from the first on have its shape."""
    rows = block.n
    for column in block.columns:
        if isinstance(column, ArrayRows):
            rows = min(rows, column.same_shapes())
        elif isinstance(column, RaggedArray) and rows:
            lengths = column[:rows].row_lengths()
            differs = lengths != lengths[0]
            rows = int(np.argmax(differs)) if differs.any() else rows
    return rows
