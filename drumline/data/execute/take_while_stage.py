"""Elements up to the first for which a predicate fails."""

from __future__ import annotations

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage
from drumline.data.execute.stage import Stage, State
from drumline.data.functions.call import BlockFunction


class TakeWhileStage(CountingStage):
    """Ends before the first element that fails the test."""

    def __init__(self, source: Stage, function: BlockFunction):
        super().__init__(source)
        self.function = function
        self.granule = max(source.granule, function.block_length)
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        limit = self.function.limit(min(limit, self.granule) if self.granule > 1 else limit)
        block = self._carry.peek(limit)
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
