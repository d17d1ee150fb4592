"""``shard`` over streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State
from drumline.data.ragged import RaggedArray


class ShardStage(Stage):
    """Every ``num_shards``-th position of its input, errors included; the others are dropped."""

    def __init__(self, source: Stage, num_shards: int, index: int):
        self.source = source
        self.num_shards = num_shards
        self.index = index
        self.eager = source.eager
        self.granule = source.granule
        self._position = 0

    def next(self, limit: int) -> Block | None:
        while True:
            first = (self.index - self._position) % self.num_shards
            covering = first + (limit - 1) * self.num_shards + 1
            block = self.source.next(min(covering, max(limit, first + 1)))
            if block is None:
                return None
            self._position += block.events
            kept = self._kept(block, first)
            if kept.events:
                return kept

    def _kept(self, block: Block, first: int) -> Block:
        rows = range(first, block.n, self.num_shards)
        columns = [_strided(c, first, self.num_shards) for c in block.columns]
        failed = (block.n - first) % self.num_shards == 0
        return Block(columns, len(rows), block.error if failed else None)

    def state(self) -> State:
        return {"position": self._position, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"shard {self.index} of {self.num_shards}"


def _strided(column: Any, first: int, step: int) -> Any:
    rows = column[first::step]
    return rows if isinstance(rows, RaggedArray) else np.ascontiguousarray(rows)
