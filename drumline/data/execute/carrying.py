"""Stages that pull one input through a ``Carry``."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.carry import Carry
from drumline.data.execute.stage import Stage, State


class CountingStage(Stage):
    """Uses up blocks of its input and counts their positions, for errors and random keys."""

    def __init__(self, source: Stage):
        self.source = source
        self.eager = source.eager
        self._carry = Carry(source)
        self._position = 0

    def count_from(self, position: int) -> None:
        """Hears, before it is asked for anything, that its input begins at this position."""
        self._position = position

    def _use(self, positions: int) -> None:
        """Marks the first ``positions`` of what the carry gave as used."""
        self._carry.commit(positions)
        self._position += positions

    def state(self) -> State:
        return {"position": self._position, "input": self._carry.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self._carry.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]


class ServingStage(Stage):
    """Serves, as much at a time as is asked for, the blocks of a stage that gives any number.

    That stage may ignore ``limit`` and give blocks without a position; what was not asked for yet
    waits here.
    """

    def __init__(self, source: Stage):
        self.source = source
        self.eager = source.eager
        self._carry = Carry(source)

    def next(self, limit: int) -> Block | None:
        while True:
            block = self._carry.pull(limit)
            if block is None or block.events:
                return block

    def state(self) -> State:
        return self._carry.state()

    def restore(self, state: State) -> None:
        self._carry.restore(state)

    def inputs(self) -> Sequence[Stage]:
        return [self.source]
