"""Strings compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.flat import flat, holds_ragged
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_elementwise import failure
from drumline.data.native.string_specs import is_dense, one, require_strings, shape_of, with_dtype


@dataclasses.dataclass(frozen=True)
class Equal(NativeOperation):
    """Whether strings at the same places are the same; dense arrays are broadcast."""

    negated: bool

    @property
    def name(self) -> str:
        return "strings.not_equal" if self.negated else "strings.equal"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        for spec in arguments:
            require_strings(self.name, spec)
        x, y = arguments
        if is_dense(x) and is_dense(y):
            return one(TensorSpec(self._broadcast(x, y), np.bool_))
        common = y if not x.shape else x if not y.shape else x.merged(y)
        if common is None:
            raise self._misfit(x, y)
        return one(with_dtype(common, np.bool_))

    def _broadcast(self, x: TensorSpec, y: TensorSpec) -> tuple[int, ...]:
        try:
            return np.broadcast_shapes(*(tuple(dim or 0 for dim in s.shape) for s in (x, y)))
        except ValueError:
            raise self._misfit(x, y) from None

    def _misfit(self, x: TensorSpec, y: TensorSpec) -> ValueError:
        found = f"{shape_of(x)} and {shape_of(y)}"
        return failure(self.name, f"arrays of shapes {found} do not go together")

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        x, y = columns
        if _is_array(x) and _is_array(y):
            rank = max(np.ndim(x), np.ndim(y))
            same = np.asarray(_raised(x, rank) == _raised(y, rank), np.bool_)
            return Rows([~same if self.negated else same])
        return self._varying(columns if not _is_array(x) else columns[::-1], n)

    def _varying(self, columns: Sequence[Column], n: int) -> Rows:
        """Of rows of different lengths, and others of the same lengths or one string each."""
        whole, other = (flat(column) for column in columns)
        if whole.scalar:
            whole, other = other, whole
        sizes = whole.sizes()
        unequal = np.zeros(n, np.bool_) if other.scalar else other.sizes() != sizes
        bad = np.flatnonzero(unequal)
        rows = int(bad[0]) if len(bad) else n
        whole, other = whole.head(rows), other.head(rows)
        values = np.repeat(other.values, sizes[:rows]) if other.scalar else other.values
        same = np.asarray(whole.values == values, np.bool_)
        made = whole.put(~same if self.negated else same)
        if rows == n:
            return Rows([made])
        return Rows([made], failure(self.name, "arrays of different lengths are compared"))


def _is_array(column: Column) -> bool:
    return isinstance(column, np.ndarray) and not holds_ragged(column)


def _raised(column: Column, rank: int) -> np.ndarray:
    """A column with dimensions of length 1 between rows and values, so that it has ``rank``."""
    array = np.asarray(column)
    return array.reshape(len(array), *(1,) * (rank - array.ndim), *array.shape[1:])
