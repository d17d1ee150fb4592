"""Stages that put something beside each element that depends on its position in the stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.random_keys import keyed
from drumline.data.execute.stage import Stage, State


class NumberingStage(Stage):
    """Passes blocks on with what `_beside` makes of them and their elements' positions."""

    def __init__(self, source: Stage):
        self.source = source
        self.eager = source.eager
        self.granule = source.granule
        self._position = 0

    def _beside(self, block: Block, positions: np.ndarray) -> Block:
        raise NotImplementedError

    def next(self, limit: int) -> Block | None:
        block = self.source.next(limit)
        if block is None:
            return None
        start = self._position
        self._position += block.events
        return self._beside(block, np.arange(start, start + block.n, dtype=np.int64))

    def expect(self, positions: int) -> None:
        self.source.expect(positions)

    def state(self) -> State:
        return {"position": self._position, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]


class EnumerateStage(NumberingStage):
    """A running number in front of each element."""

    def __init__(self, source: Stage, start: int):
        super().__init__(source)
        self.start = start

    def _beside(self, block: Block, positions: np.ndarray) -> Block:
        numbers = positions + self.start
        numbers.flags.writeable = False
        return Block([numbers, *block.columns], block.n, block.error)

    def describe(self) -> str:
        return f"enumerate from {self.start}"


class RandomKeysStage(NumberingStage):
    """Keys by position in the stream."""

    def __init__(self, source: Stage, keys: tuple[int, int]):
        super().__init__(source)
        self.keys = keys

    def _beside(self, block: Block, positions: np.ndarray) -> Block:
        return keyed(block, self.keys, positions)

    def describe(self) -> str:
        return "random keys by position"
