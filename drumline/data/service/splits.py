"""Stages whose elements are splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.elements.rows import single
from drumline.data.runtime.stage import Carry, Stage, State
from drumline.data.service.cluster import Split

_SHORT = 0.05
_LONG = 0.2
_MOST_BYTES = 4 << 20
_MOST = 16_384


class SplitSize:
    """How many input elements a split has: few at first, and more while splits take little time.

    It decides who makes an element, never what it is.

    Args:
        row_nbytes: estimated bytes of an element, in or out.
        fixed: a number that stays.
    """

    def __init__(self, row_nbytes: int, fixed: int | None = None):
        self._fixed = fixed
        self._most = max(1, min(_MOST, _MOST_BYTES // max(1, row_nbytes)))
        self.now = fixed or 1

    def took(self, size: int, seconds: float) -> None:
        """Hears how long a split of so many elements took."""
        if self._fixed is not None:
            return
        if seconds < _SHORT:
            self.now = max(self.now, min(2 * size, self._most))
        elif seconds > _LONG:
            self.now = max(1, min(self.now, size // 2))


class SplitStage(Stage):
    """One split at a time, in a block of one row."""

    def __init__(self, size: SplitSize):
        self.size = size
        self._number = 0
        self._next_size = size.now

    def next(self, limit: int) -> Block | None:
        made = self._made(self._next_size)
        if isinstance(made, Split):
            self._number += 1
            # The state says how long the next split is, so it must not change after it was taken.
            self._next_size = self.size.now
            return Block([single(made)[None]], 1)
        return made

    def _made(self, size: int) -> Split | Block | None:
        """The next split, an error in its place, or ``None`` at the end."""
        raise NotImplementedError

    def state(self) -> State:
        return {"number": self._number, "size": self._next_size, **self._position()}

    def restore(self, state: State) -> None:
        self._number, self._next_size = state["number"], state["size"]
        self._seek(state)

    def _position(self) -> State:
        raise NotImplementedError

    def _seek(self, state: State) -> None:
        raise NotImplementedError


class SpanStage(SplitStage):
    """Ranges of the positions of a random-access input."""

    def __init__(self, length: int, size: SplitSize):
        super().__init__(size)
        self._length = length
        self._start = 0

    def _made(self, size: int) -> Split | None:
        if self._start >= self._length:
            return None
        start, self._start = self._start, min(self._length, self._start + size)
        return Split(self._number, start, self._start)

    def _position(self) -> State:
        return {"start": self._start}

    def _seek(self, state: State) -> None:
        self._start = state["start"]

    def describe(self) -> str:
        return f"ranges of {self._length} positions"


class RowsStage(SplitStage):
    """Runs of the elements of a stream.

    A split ends where its size says, at an error or at the end, and nowhere else: when it is made
    again it has the same elements.
    """

    def __init__(self, source: Stage, size: SplitSize):
        super().__init__(size)
        self.source = source
        self._carry = Carry(source)
        self._start = 0

    def _made(self, size: int) -> Split | Block | None:
        blocks: list[Block] = []
        rows = 0
        while rows < size:
            block = self._carry.peek(size - rows)
            if block is None:
                break
            if block.n:
                self._carry.commit(block.n)
                blocks.append(Block(block.columns, block.n))
                rows += block.n
            if block.error is not None:
                if blocks:
                    break
                self._carry.commit(1)
                self._start += 1
                return Block([np.empty(0, object)], 0, block.error)
        start, self._start = self._start, self._start + rows
        return Split(self._number, start, self._start, tuple(blocks)) if blocks else None

    def _position(self) -> State:
        return {"start": self._start, "input": self._carry.state()}

    def _seek(self, state: State) -> None:
        self._start = state["start"]
        self._carry.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return "runs of elements"


class ShardsStage(SplitStage):
    """The numbers of all shards."""

    def __init__(self, shards: int):
        super().__init__(SplitSize(1, fixed=1))
        self._shards = shards

    def _made(self, size: int) -> Split | None:
        return Split(self._number, shard=self._number) if self._number < self._shards else None

    def _position(self) -> State:
        return {}

    def _seek(self, state: State) -> None:
        """The number is all."""

    def describe(self) -> str:
        return f"{self._shards} shards"
