"""Columns of text as documents, each a row of strings, and what is made of them put back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, objects, splits_of
from drumline.data.functions.native.flat import Flat, flat, holds_ragged
from drumline.data.functions.native.operation import Column


@dataclasses.dataclass(frozen=True)
class Documents:
    """Attributes:
    given: the column.
    splits: where each document's strings begin in its values, and the last end: (documents + 1,).
    shape: of the documents in a row of the column; ``None`` if their number varies.
    counts: how many each row has.
    """

    given: Flat
    splits: np.ndarray
    shape: tuple[int, ...] | None
    counts: np.ndarray

    def put(self, values: np.ndarray) -> Column:
        """A column of one value (documents, ...) for each document."""
        if self.shape is None:
            return RaggedArray(values, splits_of(self.counts))
        return values.reshape(len(self.counts), *self.shape, *values.shape[1:])

    def put_rows(self, rows: RaggedArray, fill: bool) -> Column:
        """A column of a row for each document; rows of equal lengths in an element if ``fill``."""
        if self.shape == ():
            return rows
        edges = splits_of(self.counts).tolist()
        parts = [rows[edges[i] : edges[i + 1]] for i in range(len(self.counts))]
        if not fill:
            return objects(parts)
        shapes = [part.to_tensor() for part in parts]
        if self.shape is None:
            return shapes
        return [part.reshape(*self.shape, part.shape[1]) for part in shapes]


def texts(column: Column) -> Documents:
    """Each string a document; a last dimension of 1 is dropped."""
    if isinstance(column, RaggedArray):
        given = flat(column)
        sizes = given.sizes()
        return Documents(given, _each(given), None, sizes)
    dense: Any = column
    shape = dense.shape[1:-1] if dense.ndim > 2 else dense.shape[1:]
    given = flat(dense)
    return Documents(given, _each(given), shape, given.sizes())


def runs(column: Column) -> Documents:
    """The strings along the last dimension a document; single ones one each."""
    given = flat(column)
    if given.scalar:
        return Documents(given, _each(given), (), given.sizes())
    splits = splits_of(given.inner_lengths())
    if isinstance(column, np.ndarray) and not holds_ragged(column):
        shape = column.shape[1:-1]
        return Documents(given, splits, shape, np.full(len(column), int(np.prod(shape)), np.int64))
    if isinstance(column, RaggedArray) and column.ndim == 2:
        return Documents(given, splits, (), np.ones(len(column), np.int64))
    return Documents(given, splits, None, np.array([len(row) for row in column], np.int64))


def _each(given: Flat) -> np.ndarray:
    return np.arange(len(given.values) + 1, dtype=np.int64)
