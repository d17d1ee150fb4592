"""All values of a column in one row, and results put back in their places."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, objects, splits_of
from drumline.data.functions.native.operation import Column


class Flat(abc.ABC):
    """A column, flattened to one array of values.

    Attributes:
        values: of all rows, in order: an array (total,).
        scalar: whether each row is one value.
    """

    values: np.ndarray
    scalar: bool = False

    @abc.abstractmethod
    def sizes(self) -> np.ndarray:
        """How many values each row has: int64 (n,)."""

    @abc.abstractmethod
    def head(self, rows: int) -> Flat:
        """The first ``rows`` rows."""

    @abc.abstractmethod
    def put(self, values: np.ndarray) -> Column:
        """A column of the same shapes with other values (total, ...)."""

    @abc.abstractmethod
    def nest(self, row: int, inner: RaggedArray) -> RaggedArray:
        """The rows in ``inner``, one for each value of a row, in the shape of that row."""

    @abc.abstractmethod
    def inner_lengths(self) -> np.ndarray:
        """The lengths of the innermost dimension, one for each run of values along it."""

    def edges(self) -> np.ndarray:
        """Where the values of each row begin, and the last end: int64 (n + 1,)."""
        return splits_of(self.sizes())

    def row_of(self, value: int) -> int:
        """The row in which a value is."""
        return int(np.searchsorted(self.edges(), value, "right")) - 1

    def expand(self, values: np.ndarray, splits: np.ndarray) -> Column:
        """A column with a run of ``values``, cut at ``splits``, in place of each value."""
        ragged = RaggedArray(values, splits)
        if self.scalar:
            return ragged
        edges = self.edges().tolist()
        rows = range(len(edges) - 1)
        return objects([self.nest(row, ragged[edges[row] : edges[row + 1]]) for row in rows])


class _Dense(Flat):
    def __init__(self, column: np.ndarray):
        self._shape = column.shape
        self.scalar = column.ndim == 1
        self.values = np.ascontiguousarray(column).reshape(-1)

    def sizes(self) -> np.ndarray:
        return np.full(self._shape[0], math.prod(self._shape[1:]), np.int64)

    def head(self, rows: int) -> Flat:
        return _Dense(self.values.reshape(self._shape)[:rows])

    def put(self, values: np.ndarray) -> Column:
        return values.reshape(*self._shape, *values.shape[1:])

    def nest(self, row: int, inner: RaggedArray) -> RaggedArray:
        return _nested(self._shape[1:], inner)

    def inner_lengths(self) -> np.ndarray:
        return np.full(math.prod(self._shape[:-1]), self._shape[-1], np.int64)


class _Ragged(Flat):
    """Rows of which only the first dimension varies."""

    def __init__(self, column: RaggedArray):
        self._column = column
        self._values: np.ndarray = column.values
        self.values = self._values.reshape(-1)

    def sizes(self) -> np.ndarray:
        return self._column.row_lengths() * math.prod(self._values.shape[1:])

    def head(self, rows: int) -> Flat:
        return _Ragged(self._column[:rows])

    def put(self, values: np.ndarray) -> Column:
        shaped = values.reshape(*self._values.shape, *values.shape[1:])
        return RaggedArray(shaped, self._column.row_splits)

    def nest(self, row: int, inner: RaggedArray) -> RaggedArray:
        length = int(self._column.row_lengths()[row])
        return _nested((length, *self._values.shape[1:]), inner)

    def inner_lengths(self) -> np.ndarray:
        if self._values.ndim == 1:
            return self._column.row_lengths()
        return np.full(math.prod(self._values.shape[:-1]), self._values.shape[-1], np.int64)


class _FlatArrays(Flat):
    """Rows that are arrays of any shapes."""

    def __init__(self, column: Sequence[np.ndarray]):
        self._rows = column
        parts = [row.reshape(-1) for row in column]
        self.values = np.concatenate(parts) if parts else np.empty(0, object)

    def sizes(self) -> np.ndarray:
        return np.array([row.size for row in self._rows], np.int64)

    def head(self, rows: int) -> Flat:
        return _FlatArrays(self._rows[:rows])

    def put(self, values: np.ndarray) -> Column:
        edges = self.edges().tolist()
        return [
            values[edges[i] : edges[i + 1]].reshape(*row.shape, *values.shape[1:])
            for i, row in enumerate(self._rows)
        ]

    def nest(self, row: int, inner: RaggedArray) -> RaggedArray:
        return _nested(self._rows[row].shape, inner)

    def inner_lengths(self) -> np.ndarray:
        runs = [np.full(math.prod(row.shape[:-1]), row.shape[-1]) for row in self._rows]
        return np.concatenate(runs).astype(np.int64) if runs else np.empty(0, np.int64)


class _FlatNested(Flat):
    """Rows that are ragged arrays."""

    def __init__(self, column: Sequence[RaggedArray]):
        self._rows = column
        parts = [row.flat_values.reshape(-1) for row in column]
        self.values = np.concatenate(parts) if parts else np.empty(0, object)

    def sizes(self) -> np.ndarray:
        return np.array([row.flat_values.size for row in self._rows], np.int64)

    def head(self, rows: int) -> Flat:
        return _FlatNested(self._rows[:rows])

    def put(self, values: np.ndarray) -> Column:
        edges = self.edges().tolist()
        rows = enumerate(self._rows)
        return objects([_refilled(row, values[edges[i] : edges[i + 1]]) for i, row in rows])

    def nest(self, row: int, inner: RaggedArray) -> RaggedArray:
        return _renested(self._rows[row], inner)

    def inner_lengths(self) -> np.ndarray:
        runs = [_innermost(row) for row in self._rows]
        return np.concatenate(runs) if runs else np.empty(0, np.int64)


def flat(column: Column) -> Flat:
    """Flatten a column."""
    if isinstance(column, RaggedArray):
        return _Ragged(column)
    if not isinstance(column, np.ndarray):
        return _FlatArrays(column)
    return _FlatNested(list(column)) if holds_ragged(column) else _Dense(column)


def holds_ragged(column: np.ndarray) -> bool:
    """Whether rows are ragged arrays."""
    return column.ndim == 1 and len(column) > 0 and isinstance(column[0], RaggedArray)


def _nested(shape: tuple[int, ...], inner: RaggedArray) -> RaggedArray:
    for axis in range(len(shape) - 1, 0, -1):
        splits = np.arange(math.prod(shape[:axis]) + 1, dtype=np.int64) * shape[axis]
        inner = RaggedArray(inner, splits)
    return inner


def _renested(outer: RaggedArray, inner: RaggedArray) -> RaggedArray:
    values = outer.values
    if isinstance(values, RaggedArray):
        inner = _renested(values, inner)
    elif values.ndim > 1:
        inner = _nested(values.shape, inner)
    return RaggedArray(inner, outer.row_splits)


def _refilled(row: RaggedArray, values: np.ndarray) -> RaggedArray:
    inner = row.values
    if isinstance(inner, RaggedArray):
        return RaggedArray(_refilled(inner, values), row.row_splits)
    return RaggedArray(values.reshape(*inner.shape, *values.shape[1:]), row.row_splits)


def _innermost(row: RaggedArray) -> np.ndarray:
    inner: Any = row.values
    if isinstance(inner, RaggedArray):
        return _innermost(inner)
    if inner.ndim > 1:
        return np.full(math.prod(inner.shape[:-1]), inner.shape[-1], np.int64)
    return row.row_lengths()
