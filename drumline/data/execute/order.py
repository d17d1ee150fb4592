"""Orders in which the positions of an indexed dataset are visited."""

from __future__ import annotations

import numpy as np

from drumline._core import ShuffleIndices

Index = range | np.ndarray
"""Positions: a ``range`` of step 1, or an int64 array (k,)."""


def joined(first: Index, then: Index) -> Index:
    """The positions of both, which follow one another in an order."""
    if not len(then):
        return first
    if isinstance(first, range) and isinstance(then, range):
        return range(first.start, then.stop)
    return np.concatenate([first, then])


class Order:
    """A sequence of positions that can be resumed at any point."""

    position: int = 0
    """How many positions were given out."""

    def next(self, limit: int) -> Index:
        """Up to ``limit`` further positions; none at the end."""
        raise NotImplementedError

    def seek(self, position: int) -> None:
        """Goes on after the first ``position`` positions."""
        raise NotImplementedError

    def describe(self) -> str:
        """A word or two for ``explain()``."""
        raise NotImplementedError


class Sequential(Order):
    """0, 1, 2, ..."""

    def __init__(self, length: int):
        self.length = length

    def next(self, limit: int) -> Index:
        start = self.position
        self.position = min(self.length, start + limit)
        return range(start, self.position)

    def seek(self, position: int) -> None:
        self.position = min(position, self.length)

    def describe(self) -> str:
        return "in order"


class Shuffled(Order):
    """The order of a shuffle buffer over 0, 1, 2, ...

    The state is the number of positions given out: replaying a million of them takes a few
    milliseconds.
    """

    def __init__(self, length: int, buffer_size: int, key: int):
        self.length = length
        self.buffer_size = buffer_size
        self.key = key
        self._indices = ShuffleIndices(key, buffer_size, length)

    def next(self, limit: int) -> Index:
        index = self._indices.next(limit)
        self.position += len(index)
        return index

    def seek(self, position: int) -> None:
        self._indices = ShuffleIndices(self.key, self.buffer_size, self.length)
        self._indices.skip(position)
        self.position = min(position, self.length)

    def describe(self) -> str:
        return f"shuffled by index (buffer of {min(self.buffer_size, self.length)})"
