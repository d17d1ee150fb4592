"""Indexed sources: arrays, in memory or mapped into it, and ranges of integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.copying import gather
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.pool import BufferPool
from drumline.data.ragged import RaggedArray


class Columns(Indexed):
    """Rows of arrays in memory; contiguous rows are views, others are gathered."""

    def __init__(self, columns: Sequence[np.ndarray], length: int, pool: BufferPool):
        self.columns = [_read_only(column) for column in columns]
        self.length = length
        self.ragged = any(isinstance(column, RaggedArray) for column in self.columns)
        self._gathers = [_gather(column, pool) for column in self.columns]

    def rows(self, index: Index) -> Block:
        if isinstance(index, range):
            return Block([c[index.start : index.stop] for c in self.columns], len(index))
        return Block([gather(index) for gather in self._gathers], len(index))

    def describe(self) -> str:
        size = sum(column.nbytes for column in self.columns)
        return f"arrays in memory ({self.length} elements, {size / 1e6:.1f} MB)"


class Gather:
    """Copies rows of one array into a recycled buffer."""

    def __init__(self, column: np.ndarray, pool: BufferPool):
        self._column = column
        self._pool = pool
        width = column[:1].nbytes
        self._bytes: np.ndarray | None = None
        if column.dtype != object and width > 0 and column.flags.c_contiguous:
            self._bytes = (
                column.view(np.uint8).reshape(len(column), width)
                if column.ndim > 1
                else (column.reshape(-1, 1).view(np.uint8))
            )

    def __call__(self, index: np.ndarray) -> np.ndarray:
        """The rows at ``index`` (k,), as a read-only array (k, ...)."""
        if self._bytes is None:
            out = self._column[index]
        else:
            out = self._pool.empty((len(index), *self._column.shape[1:]), self._column.dtype)
            width = self._bytes.shape[1]
            rows = (
                out.view(np.uint8).reshape(len(index), width)
                if out.ndim > 1
                else out.reshape(-1, 1).view(np.uint8)
            )
            gather(self._bytes, index, rows, self._pool.threads)
        out.flags.writeable = False
        return out


class Integers(Indexed):
    """``start + step * i`` as elements of a range."""

    def __init__(self, start: int, step: int, length: int, dtype: np.dtype):
        self.start = start
        self.step = step
        self.length = length
        self.dtype = dtype

    def rows(self, index: Index) -> Block:
        start, step = self.start, self.step
        if self.dtype == np.uint64:
            return Block([self._unsigned(index)], len(index))
        if isinstance(index, range):
            first = start + step * index.start
            column = np.arange(first, first + step * len(index), step, dtype=np.int64)
        else:
            column = index * step + start
        column = column.astype(self.dtype, copy=False)
        column.flags.writeable = False
        return Block([column], len(index))

    def _unsigned(self, index: Index) -> np.ndarray:
        """The same modulo 2**64, where int64 is too narrow on the way."""
        positions = np.asarray(index, np.int64).astype(np.uint64)
        column = positions * np.uint64(self.step % 2**64) + np.uint64(self.start % 2**64)
        column.flags.writeable = False
        return column

    def describe(self) -> str:
        return f"integers ({self.length} elements)"


def _gather(column: Any, pool: BufferPool) -> Callable[[np.ndarray], Any]:
    return Gather(column, pool) if isinstance(column, np.ndarray) else column.take


def _read_only(column: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return column
    view = column.view()
    view.flags.writeable = False
    return view
