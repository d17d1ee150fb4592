"""Numbers without end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class _Numbers(Stage):
    """A stream that is a function of the position."""

    def __init__(self) -> None:
        self._position = 0

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = state["position"]

    def advance(self, count: int) -> None:
        self._position += count


class CounterStage(_Numbers):
    """``start + step * i``; a number that does not fit ``dtype`` is an error, and the end."""

    def __init__(self, start: float, step: float, dtype: np.dtype):
        super().__init__()
        self.start = start
        self.step = step
        self.dtype = dtype
        self._length = _how_many_fit(start, step, dtype)

    def next(self, limit: int) -> Block | None:
        if self._length is not None and self._position >= self._length:
            return self._beyond()
        room = limit if self._length is None else min(limit, self._length - self._position)
        start, steps = self._position, np.arange(room)
        self._position += room
        if self.dtype.kind == "f":
            column: np.ndarray = self.start + self.step * (start + steps.astype(np.float64))
        else:
            first, step = int(self.start) + int(self.step) * start, int(self.step)
            column = steps.astype(np.uint64) * np.uint64(step % 2**64) + np.uint64(first % 2**64)
        column = column.astype(self.dtype)
        column.flags.writeable = False
        return Block([column], room)

    def _beyond(self) -> Block | None:
        if self._position > (self._length or 0):
            return None
        value = int(self.start) + int(self.step) * self._position
        self._position += 1
        error = OverflowError(f"counter: {value} does not fit {self.dtype}; give a wider dtype")
        return Block([np.empty(0, self.dtype)], 0, error)

    def describe(self) -> str:
        return f"counter from {self.start} by {self.step}"


def _how_many_fit(start: float, step: float, dtype: np.dtype) -> int | None:
    """How many of the numbers ``dtype`` can hold, ``None`` for all."""
    if dtype.kind not in "iu" or step == 0:
        return None
    info = np.iinfo(dtype)
    room = (info.max - int(start)) if step > 0 else (int(start) - info.min)
    return int(Fraction(room, abs(int(step)))) + 1


class RandomStage(_Numbers):
    """Uniform integers of 0 to 2**32 - 1: the upper halves of splitmix64's sequence for a key."""

    def __init__(self, key: int):
        super().__init__()
        self._key = np.uint64(key)

    def next(self, limit: int) -> Block | None:
        first = np.uint64(self._position + 1)
        numbers = np.arange(limit, dtype=np.uint64) + first
        self._position += limit
        z = numbers * _GAMMA + self._key
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        column = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.int64)
        column.flags.writeable = False
        return Block([column], limit)

    def describe(self) -> str:
        return "random integers"
