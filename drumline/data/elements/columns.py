"""Columns of blocks: numpy arrays, ragged rows, rows of any shapes, packed strings."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from drumline._changes import in_forked_child
from drumline._core import PackedBytes, gather_rows
from drumline.data.elements.ragged import RaggedArray, joined, uniform
from drumline.data.elements.spec import STRING


class ArrayRows:
    """A column of n arrays of one dtype and rank that may differ in every dimension: images.

    As other columns it is sliced, indexed by integers or bools, and iterated over by row. Its
    arrays are read-only.
    """

    __slots__ = ("dtype", "rank", "rows")

    def __init__(self, rows: Sequence[np.ndarray], dtype: np.dtype, rank: int):
        self.rows = list(rows)
        self.dtype = dtype
        self.rank = rank
        for row in self.rows:
            row.flags.writeable = False

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The dimensions; ``None`` for all that may vary."""
        return (len(self.rows), *([None] * self.rank))

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        return sum(row.nbytes for row in self.rows)

    @property
    def flags(self) -> Any:
        """Those of the first array; the others' are equal."""
        return (self.rows[0] if self.rows else np.empty(0)).flags

    def take(self, index: np.ndarray) -> ArrayRows:
        """The rows at ``index`` (k,)."""
        return self._with([self.rows[i] for i in index.tolist()])

    def same_shapes(self) -> int:
        """How many rows from the first on have its shape."""
        first = self.rows[0].shape if self.rows else ()
        differs = (i for i, row in enumerate(self.rows) if row.shape != first)
        return next(differs, len(self.rows))

    def dense(self) -> np.ndarray:
        """Rows of one shape, stacked; a single one is not copied."""
        if not self.rows:
            return np.empty((0,) * (self.rank + 1), self.dtype)
        return self.rows[0][None] if len(self.rows) == 1 else np.stack(self.rows)

    def copy(self) -> ArrayRows:
        """The same rows in memory of their own."""
        return self._with([row.copy() for row in self.rows])

    def _with(self, rows: list[np.ndarray]) -> ArrayRows:
        return ArrayRows(rows, self.dtype, self.rank)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.rows)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._with(self.rows[key])
        if isinstance(key, np.ndarray):
            return self.take(np.flatnonzero(key) if key.dtype == np.bool_ else key)
        return self.rows[key]


Part = tuple[PackedBytes, int, int]
"""Strings, from where to where."""


class PackedStrings:
    """A column of strings, or of vectors of as many strings each, that are no objects.

    Only native operations that say so take it; it stands for an array of dtype object.

    Args:
        parts: the strings, one part after the other.
        shape: ``(n,)`` or ``(n, size)``.

    Attributes:
        parts: as given.
        shape: as given.
    """

    __slots__ = ("parts", "shape")
    dtype = STRING

    def __init__(self, parts: Sequence[Part], shape: tuple[int, ...]):
        self.parts = tuple(parts)
        self.shape = shape

    @classmethod
    def of(cls, strings: PackedBytes) -> PackedStrings:
        """All of them."""
        return cls([(strings, 0, len(strings))], (len(strings),))

    @classmethod
    def joined(cls, columns: Sequence[PackedStrings]) -> PackedStrings:
        """Return the rows of all columns, which are of one shape, in order."""
        parts = [part for column in columns for part in column.parts]
        return cls(parts, (sum(map(len, columns)), *columns[0].shape[1:]))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> PackedStrings:
        start, stop, _ = rows.indices(len(self))
        stop = max(start, stop)
        if (start, stop) == (0, len(self)):
            return self
        size = self.shape[1] if len(self.shape) > 1 else 1
        parts = list(_cut(self.parts, start * size, stop * size))
        return PackedStrings(parts, (stop - start, *self.shape[1:]))

    def reshape(self, *shape: int) -> PackedStrings:
        """The same strings, as a column of another shape."""
        return PackedStrings(self.parts, shape)

    @property
    def nbytes(self) -> int:
        """How many bytes the strings have."""
        return sum(strings.nbytes(start, stop) for strings, start, stop in self.parts)

    def objects(self) -> np.ndarray:
        """The strings as an array of ``bytes``."""
        arrays = [strings.objects(start, stop) for strings, start, stop in self.parts]
        return np.concatenate([np.empty(0, STRING), *arrays]).reshape(self.shape)


def _cut(parts: Sequence[Part], start: int, stop: int) -> Sequence[Part]:
    found: list[Part] = []
    before = 0
    for strings, first, end in parts:
        low, high = max(first, first + start - before), min(end, first + stop - before)
        if low < high:
            found.append((strings, low, high))
        before += end - first
    return found


def concatenated(parts: Sequence[Any], out: np.ndarray | None = None) -> Any:
    """Return the rows of all columns in order; ragged or varying if one of them is.

    Args:
        parts: at least one.
        out: where to write dense rows.
    """
    varying = [part for part in parts if isinstance(part, ArrayRows)]
    if varying:
        rows = [row for part in parts for row in part]
        return ArrayRows(rows, varying[0].dtype, varying[0].rank)
    packed = [part for part in parts if isinstance(part, PackedStrings)]
    if packed:
        return PackedStrings.joined(packed)
    if any(isinstance(part, RaggedArray) for part in parts):
        return joined([p if isinstance(p, RaggedArray) else uniform(p) for p in parts])
    return np.concatenate(parts, out=out)


def row_lengths(column: Any) -> np.ndarray:
    """The first dimension of each row: int64 (n,)."""
    if isinstance(column, RaggedArray):
        return column.row_lengths()
    return np.full(len(column), column.shape[1], np.int64)


def dense(column: Any) -> np.ndarray:
    """Rows that are all of the first's shape, as an array."""
    if isinstance(column, ArrayRows):
        return column.dense()
    if not isinstance(column, RaggedArray):
        array: np.ndarray = column
        return array
    length = len(column[0]) if len(column) else 0
    values = column.values
    return np.asarray(values.reshape(len(column), length, *values.shape[1:]))


PIECE = 1 << 19
"""Bytes; copies from 1 << 20 on would be divided among all cores."""


def gather(source: np.ndarray, index: np.ndarray, out: np.ndarray, threads: int | None) -> None:
    """Copies the rows of ``source`` (n, width) at ``index`` (k,) to ``out`` (k, width), bytes.

    Args:
        source: uint8, contiguous.
        index: int64.
        out: uint8, contiguous.
        threads: the most that may copy at once; ``None`` for all cores.
    """
    if threads is None or out.nbytes < 2 * PIECE:
        gather_rows(source, index, out)
        return
    rows = max(1, PIECE // source.shape[1])
    starts = range(0, len(index), rows)
    if threads == 1:
        _copy(source, index, out, rows, starts)
        return
    shares = [starts[i::threads] for i in range(threads)]
    list(_threads(threads).map(lambda share: _copy(source, index, out, rows, share), shares))


def _copy(
    source: np.ndarray, index: np.ndarray, out: np.ndarray, rows: int, starts: Sequence[int]
) -> None:
    for start in starts:
        gather_rows(source, index[start : start + rows], out[start : start + rows])


@functools.cache
def _threads(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "drumline-copy")


in_forked_child(_threads.cache_clear, "a child has none of these threads")
