"""What a stage keeps of a block that it could not use whole."""

from __future__ import annotations

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State


class Carry:
    """The unused rest of a block pulled from an input, and where that block began.

    A stage that pulls more than it can use at once keeps the rest here; the state it reports is
    the input's state before the block plus how much of the block was used, so that no row ever
    has to be part of a state.
    """

    def __init__(self, stage: Stage):
        self.stage = stage
        self._block: Block | None = None
        self._used = 0
        self._before: State = {}

    def peek(self, limit: int) -> Block | None:
        """Up to ``limit`` positions: the rest if there is one, else a new block of the input."""
        if self._block is None:
            self._before = self.stage.state()
            self._block = self.stage.next(limit)
            self._used = 0
            if self._block is None:
                return None
        block, start = self._block, self._used
        if start == 0 and block.events <= limit:
            return block
        return block.slice(start, min(start + limit, block.events))

    def commit(self, count: int) -> None:
        """Marks the first ``count`` positions of what ``peek`` gave as used."""
        self._used += count
        if self._block is not None and self._used >= self._block.events:
            self._block = None

    def pull(self, limit: int) -> Block | None:
        """``peek`` and ``commit`` of all of it."""
        block = self.peek(limit)
        if block is not None:
            self.commit(block.events)
        return block

    @property
    def events(self) -> int:
        """How many positions are at hand without pulling."""
        return 0 if self._block is None else self._block.events - self._used

    def state(self) -> State:
        """The input's position, for ``restore``."""
        if self._block is None:
            return {"at": self.stage.state()}
        return {"at": self._before, "used": self._used}

    def restore(self, state: State) -> None:
        """Moves the input, fresh, to ``state``."""
        self.stage.restore(state["at"])
        used = state.get("used", 0)
        while used > 0 and (block := self.pull(used)) is not None:
            used -= block.events
