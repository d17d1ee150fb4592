"""``take`` and ``skip`` over streams."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State


class TakeStage(Stage):
    """The first ``count`` positions; never asks its input for more."""

    def __init__(self, source: Stage, count: int):
        self.source = source
        self.count = count
        self.eager = source.eager
        self._taken = 0
        source.expect(count)

    @property
    def granule(self) -> int:  # type: ignore[override]
        return min(self.source.granule, max(1, self.count - self._taken))

    def expect(self, positions: int) -> None:
        self.source.expect(min(positions, self.count - self._taken))

    def next(self, limit: int) -> Block | None:
        limit = min(limit, self.count - self._taken)
        block = self.source.next(limit) if limit > 0 else None
        if block is not None:
            self._taken += block.events
        return block

    def state(self) -> State:
        return {"taken": self._taken, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._taken = state["taken"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"take {self.count}"


class SkipStage(Stage):
    """All but the first ``count`` positions."""

    def __init__(self, source: Stage, count: int):
        self.source = source
        self.count = count
        self.eager = source.eager
        self.granule = source.granule
        self._skipped = False

    def next(self, limit: int) -> Block | None:
        if not self._skipped:
            self._skipped = True
            self.source.advance(self.count)
        return self.source.next(limit)

    def state(self) -> State:
        return {"skipped": self._skipped, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._skipped = state["skipped"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"skip {self.count}"
