"""Rows that are arrays of any shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


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
