"""A function applied to a stream."""

from __future__ import annotations

from drumline.data.elements.block import Block
from drumline.data.functions.call import BlockFunction, Gathering
from drumline.data.runtime.stage import CountingStage, Stage

_IN_TURN = (
    "; one by one in the thread that asks: python_workers='processes' needs num_parallel_calls"
)


class MapStage(CountingStage):
    """Applies a function block by block; a failed element is an error in its place.

    Args:
        source: of the elements.
        function: what is applied.
        processes: whether worker processes would run the function if their number was given.
    """

    def __init__(self, source: Stage, function: BlockFunction, processes: bool = False):
        super().__init__(source)
        self._processes = processes
        self._gathering = function if isinstance(function, Gathering) else None
        self._at_once = 0
        self.function = function
        self.ragged = function.ragged
        self.varying = function.varying

    @property
    def granule(self) -> int:  # type: ignore[override]
        return max(self.source.granule, self.function.block_length)

    def next(self, limit: int) -> Block | None:
        most = max(self.granule, self._at_once)
        limit = self.function.limit(min(limit, most) if self.granule > 1 else limit)
        block = self._carry.peek(limit)
        if block is None:
            return None
        start = self._position
        out = self.function(block, lambda row: start + row)
        self._use(out.events)
        return out

    def gathered(self, size: int) -> None:
        if self._gathering is not None:
            self._at_once = self._gathering.at_once(size)

    def expect(self, positions: int) -> None:
        self.source.expect(positions)

    def describe(self) -> str:
        return f"map {self.function.describe()}{_IN_TURN if self._processes else ''}"
