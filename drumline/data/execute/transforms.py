"""Indexed datasets made from other indexed datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.columns import concatenated
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.stage import Described


class SlicedRows(Indexed):
    """A run of another's positions: ``take`` and ``skip``."""

    def __init__(self, inner: Indexed, start: int, length: int):
        self.inner = inner
        self.start = start
        self.length = length
        self.granule = inner.granule

    def rows(self, index: Index) -> Block:
        if isinstance(index, range):
            return self.inner.rows(range(index.start + self.start, index.stop + self.start))
        return self.inner.rows(index + self.start)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"positions {self.start} to {self.start + self.length}"


class Strided(Indexed):
    """Every ``step``-th of another's positions: ``shard``."""

    def __init__(self, inner: Indexed, start: int, step: int):
        self.inner = inner
        self.start = start
        self.step = step
        self.length = len(range(start, inner.length, step))
        self.granule = inner.granule

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64) * self.step + self.start
        return self.inner.rows(positions)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"every {self.step}th position from {self.start}"


class Zipped(Indexed):
    """Elements at the same position of several datasets side by side."""

    def __init__(self, inner: Sequence[Indexed]):
        self.inner = list(inner)
        self.length = min((part.length for part in inner), default=0)
        self.granule = max((part.granule for part in inner), default=1)

    def rows(self, index: Index) -> Block:
        parts = [part.rows(index) for part in self.inner]
        shortest = min(parts, key=lambda part: part.n)
        columns = [column[: shortest.n] for part in parts for column in part.columns]
        return Block(columns, shortest.n, shortest.error)

    def parts(self) -> Sequence[Described]:
        return self.inner

    def describe(self) -> str:
        return "zip"


class Enumerated(Indexed):
    """The position in front of each element."""

    def __init__(self, inner: Indexed, start: int):
        self.inner = inner
        self.start = start
        self.length = inner.length
        self.granule = inner.granule

    def rows(self, index: Index) -> Block:
        block = self.inner.rows(index)
        numbers = np.asarray(index, np.int64)[: block.n] + self.start
        numbers.flags.writeable = False
        return Block([numbers, *block.columns], block.n, block.error)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"enumerate from {self.start}"


class Concatenated(Indexed):
    """One dataset after another."""

    def __init__(self, first: Indexed, second: Indexed):
        self.first = first
        self.second = second
        self.length = first.length + second.length
        self.granule = max(first.granule, second.granule)

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
        """Rows up to the next change of side, where a row failed or shapes differ."""
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
