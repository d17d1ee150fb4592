"""Elements by position: the interface, views of others, and orders of positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline._core import ShuffleIndices, permuted
from drumline.data.elements.block import Block
from drumline.data.elements.columns import concatenated
from drumline.data.runtime.stage import Described

Index = range | np.ndarray
"""Positions: a ``range`` of step 1, or an int64 array (k,)."""


def joined(first: Index, then: Index) -> Index:
    """Return the positions of both, which follow one another in an order."""
    if not len(then):
        return first
    if isinstance(first, range) and isinstance(then, range):
        return range(first.start, then.stop)
    return np.concatenate([first, then])


class IndexOrder:
    """A sequence of positions that can be resumed at any point."""

    position: int = 0
    """How many positions were given out."""

    def next(self, limit: int) -> Index:
        """Return up to ``limit`` further positions; none at the end."""
        raise NotImplementedError

    def seek(self, position: int) -> None:
        """Continue after the first ``position`` positions."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return a word or two for ``explain()``."""
        raise NotImplementedError


class Sequential(IndexOrder):
    """The positions 0, 1, 2, ..."""

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


class Shuffled(IndexOrder):
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


class RandomAccessSource(Described):
    """Random access to ``length`` elements, by position.

    A chain of these (a source, then maps, ``enumerate``, ``zip``, ``take``, ...) has no state but
    the position, which is what makes shuffles cheap and resuming exact.
    """

    length: int = 0
    preferred_block_size: int = 1

    def rows(self, index: Index) -> Block:
        """Return the elements at ``index``: all of them, or those before the first that failed.

        Args:
            index: a ``range`` of step 1, or an int64 array (k,), within ``0 <= i < length``.
        """
        raise NotImplementedError

    def limit(self, wanted: int) -> int:
        """Return how many elements to ask for at once when ``wanted`` are needed."""
        return min(
            (p.limit(wanted) for p in self.parts() if isinstance(p, RandomAccessSource)),
            default=wanted,
        )

    def parts(self) -> Sequence[Described]:
        """Return what this is made of."""
        return []


class SlicedRows(RandomAccessSource):
    """A run of another's positions: ``take`` and ``skip``."""

    def __init__(self, inner: RandomAccessSource, start: int, length: int):
        self.inner = inner
        self.start = start
        self.length = length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        if isinstance(index, range):
            return self.inner.rows(range(index.start + self.start, index.stop + self.start))
        return self.inner.rows(index + self.start)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"positions {self.start} to {self.start + self.length}"


class Strided(RandomAccessSource):
    """Every ``step``-th of another's positions: ``shard``."""

    def __init__(self, inner: RandomAccessSource, start: int, step: int):
        self.inner = inner
        self.start = start
        self.step = step
        self.length = len(range(start, inner.length, step))
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64) * self.step + self.start
        return self.inner.rows(positions)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"every {self.step}th position from {self.start}"


class Zipped(RandomAccessSource):
    """Elements at the same position of several datasets side by side."""

    def __init__(self, inner: Sequence[RandomAccessSource]):
        self.inner = list(inner)
        self.length = min((part.length for part in inner), default=0)
        self.preferred_block_size = max((part.preferred_block_size for part in inner), default=1)

    def rows(self, index: Index) -> Block:
        parts = [part.rows(index) for part in self.inner]
        shortest = min(parts, key=lambda part: part.n)
        columns = [column[: shortest.n] for part in parts for column in part.columns]
        return Block(columns, shortest.n, shortest.error)

    def parts(self) -> Sequence[Described]:
        return self.inner

    def describe(self) -> str:
        return "zip"


class Enumerated(RandomAccessSource):
    """The position in front of each element."""

    def __init__(self, inner: RandomAccessSource, start: int):
        self.inner = inner
        self.start = start
        self.length = inner.length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        block = self.inner.rows(index)
        numbers = np.asarray(index, np.int64)[: block.n] + self.start
        numbers.flags.writeable = False
        return Block([numbers, *block.columns], block.n, block.error)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"enumerate from {self.start}"


class Concatenated(RandomAccessSource):
    """One dataset after another."""

    def __init__(self, first: RandomAccessSource, second: RandomAccessSource):
        self.first = first
        self.second = second
        self.length = first.length + second.length
        self.preferred_block_size = max(first.preferred_block_size, second.preferred_block_size)

    def rows(self, index: Index) -> Block:
        edge = self.first.length
        if isinstance(index, range):
            return self._contiguous(index, edge)
        early = index < edge
        if not early.any():
            return self.second.rows(index - edge)
        if early.all():
            return self.first.rows(index)
        whole = self._interleaved(index, early)
        return whole if whole is not None else self._first_run(index, early)

    def _interleaved(self, index: np.ndarray, early: np.ndarray) -> Block | None:
        late = ~early
        a, b = self.first.rows(index[early]), self.second.rows(index[late] - self.first.length)
        if a.n + b.n < len(index) or not a.same_shapes(b):
            return None
        columns = []
        for x, y in zip(a.columns, b.columns, strict=True):
            if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
                places = np.argsort(np.concatenate([np.flatnonzero(early), np.flatnonzero(late)]))
                columns.append(concatenated([x, y]).take(places))
                continue
            column = np.empty((len(index), *x.shape[1:]), x.dtype)
            column[early], column[late] = x, y
            column.flags.writeable = False
            columns.append(column)
        return Block(columns, len(index))

    def _first_run(self, index: np.ndarray, early: np.ndarray) -> Block:
        """Return rows up to the next change of side, where a row failed or shapes differ."""
        stop = int(np.argmax(early != early[0]))
        run = index[:stop]
        return self.first.rows(run) if early[0] else self.second.rows(run - self.first.length)

    def _contiguous(self, index: range, edge: int) -> Block:
        if index.start >= edge:
            return self.second.rows(range(index.start - edge, index.stop - edge))
        return self.first.rows(range(index.start, min(index.stop, edge)))

    def parts(self) -> Sequence[Described]:
        return [self.first, self.second]

    def describe(self) -> str:
        return "concatenate"


class Permuted(RandomAccessSource):
    """Another's elements in an order that is computed from ``key``, and takes no memory."""

    def __init__(self, inner: RandomAccessSource, key: int):
        self.inner = inner
        self.key = key
        self.length = inner.length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64)
        return self.inner.rows(permuted(self.key, self.length, positions))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"permutation of {self.length} positions"
