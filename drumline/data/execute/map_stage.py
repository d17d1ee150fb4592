"""A function applied to a stream."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.carry import Carry
from drumline.data.execute.stage import Stage, State
from drumline.data.functions.call import BlockFunction


class MapStage(Stage):
    """Applies a function block by block; a failed element is an error in its place."""

    def __init__(self, source: Stage, function: BlockFunction):
        self.source = source
        self.function = function
        self.eager = source.eager
        self._carry = Carry(source)
        self._position = 0

    @property
    def granule(self) -> int:  # type: ignore[override]
        return max(self.source.granule, self.function.block_length)

    def next(self, limit: int) -> Block | None:
        limit = self.function.limit(min(limit, self.granule) if self.granule > 1 else limit)
        block = self._carry.peek(limit)
        if block is None:
            return None
        start = self._position
        out = self.function(block, lambda row: start + row)
        self._carry.commit(out.events)
        self._position += out.events
        return out

    def state(self) -> State:
        return {"position": self._position, "input": self._carry.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self._carry.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"map {self.function.describe()}"
