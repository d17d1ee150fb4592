"""Several streams made one: ``zip`` and ``concatenate``."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.carry import Carry
from drumline.data.execute.stage import Stage, State


class ZipStage(Stage):
    """Elements at the same position side by side; ends with the shortest input."""

    def __init__(self, sources: Sequence[Stage]):
        self.sources = list(sources)
        self.eager = all(source.eager for source in sources)
        self._carries = [Carry(source) for source in sources]

    def next(self, limit: int) -> Block | None:
        parts: list[Block] = []
        for carry in self._carries:
            part = carry.peek(limit)
            if part is None:
                return None
            parts.append(part)
            limit = min(limit, part.events)
        for carry in self._carries:
            carry.commit(limit)
        parts = [part.slice(0, limit) for part in parts]
        shortest = min(parts, key=lambda part: part.n)
        columns = [column[: shortest.n] for part in parts for column in part.columns]
        return Block(columns, shortest.n, shortest.error)

    def state(self) -> State:
        return {"inputs": [carry.state() for carry in self._carries]}

    def restore(self, state: State) -> None:
        for carry, saved in zip(self._carries, state["inputs"], strict=True):
            carry.restore(saved)

    def inputs(self) -> Sequence[Stage]:
        return self.sources

    def describe(self) -> str:
        return "zip"


class ConcatenateStage(Stage):
    """One stream after another."""

    def __init__(self, sources: Sequence[Stage]):
        self.sources = list(sources)
        self.eager = all(source.eager for source in sources)
        self.granule = max(source.granule for source in sources)
        self._current = 0

    def next(self, limit: int) -> Block | None:
        while self._current < len(self.sources):
            block = self.sources[self._current].next(limit)
            if block is not None:
                return block
            self._current += 1
        return None

    def state(self) -> State:
        current = min(self._current, len(self.sources) - 1)
        return {"current": self._current, "input": self.sources[current].state()}

    def restore(self, state: State) -> None:
        self._current = state["current"]
        self.sources[min(self._current, len(self.sources) - 1)].restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return self.sources

    def describe(self) -> str:
        return "concatenate"
