"""Elements on their way into a snapshot."""

from __future__ import annotations

from drumline.data.execute.block import Block
from drumline.data.execute.cache_stages import CacheStore, FillStage
from drumline.data.execute.stage import Stage, State


class SnapshotStage(FillStage):
    """Passes elements on and writes them, each to the shard that its last column says.

    Args:
        source: the elements.
        store: takes them.
        sharded: whether there is such a column, which is not passed on.
        in_order: whether later passes give the elements in the same order. If not, whether this
            pass was written matters to what follows: one that is resumed runs again up to there.
    """

    def __init__(self, source: Stage, store: CacheStore, sharded: bool, in_order: bool):
        super().__init__(source, store)
        self._sharded = sharded
        self._in_order = in_order
        self._position = 0

    def next(self, limit: int) -> Block | None:
        block = super().next(limit)
        if block is None:
            return None
        self._position += block.events
        return Block(block.columns[:-1], block.n, block.error) if self._sharded else block

    def state(self) -> State:
        return super().state() if self._in_order else {"position": self._position}

    def restore(self, state: State) -> None:
        if self._in_order:
            super().restore(state)
        else:
            self.advance(state["position"])

    def describe(self) -> str:
        return "snapshot (writing: kept when this pass ends)"
