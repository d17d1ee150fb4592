"""Batches of sizes that take turns."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.batch_stage import BatchStage
from drumline.data.execute.block import Block
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.stage import Stage, State


class RebatchStage(BatchStage):
    """Each batch has the next of ``sizes``, again from the first after the last.

    ``tf.data`` drops a batch that is too short, whichever of the sizes was its turn.
    """

    def __init__(self, source: Stage, sizes: Sequence[int], drop_remainder: bool, pool: BufferPool):
        super().__init__(source, sizes[0], drop_remainder, pool, "rebatch")
        self.sizes = list(sizes)
        self._made = 0

    def next(self, limit: int) -> Block | None:
        self.size = self.sizes[self._made % len(self.sizes)]
        block = super().next(1)
        self._made += block.events if block is not None else 0
        return block

    def state(self) -> State:
        return {**super().state(), "made": self._made}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._made = state["made"]

    def describe(self) -> str:
        return f"rebatch {self.sizes}{', remainder dropped' if self.drop_remainder else ''}"
