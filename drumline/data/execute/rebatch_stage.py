"""Batches of sizes that take turns."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.batch_stage import BatchStage
from drumline.data.execute.block import Block
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.stage import Stage, State
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec


class RebatchStage(BatchStage):
    """Each batch has the next of ``sizes``, again from the first after the last.

    ``tf.data`` drops a batch that is too short, whichever of the sizes was its turn.
    """

    def __init__(
        self,
        source: Stage,
        sizes: Sequence[int],
        drop_remainder: bool,
        pool: BufferPool,
        spec: ElementSpec,
    ):
        super().__init__(source, sizes[0], drop_remainder, pool, "rebatch")
        self.sizes = list(sizes)
        self._made = 0
        self._rowless = [column[None] for column in stack([], spec)]
        # Whether a batch found the end: none without rows comes after it.
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        self.size = self.sizes[self._made % len(self.sizes)]
        block = super().next(1) if self.size else Block(self._rowless, 1)
        self._made += block.events if block is not None else 0
        return block

    def _remainder(self, parts: list[Block], rows: int) -> Block | None:
        self._ended = True
        return super()._remainder(parts, rows)

    def state(self) -> State:
        return {**super().state(), "made": self._made, "ended": self._ended}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._made = state["made"]
        self._ended = state.get("ended", False)

    def describe(self) -> str:
        return f"rebatch {self.sizes}{', remainder dropped' if self.drop_remainder else ''}"
