"""``reshape`` of what varies in shape, or is of strings, in traced functions."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.native.call import record
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.symbol import Symbol


@dataclasses.dataclass(frozen=True)
class Reshape(NativeOperation):
    """Each element's values in another shape, which is the same for all.

    Attributes:
        shape: of the results.
    """

    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"reshape{self.shape}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (values,) = arguments
        if values.is_static and math.prod(d or 0 for d in values.shape) != math.prod(self.shape):
            raise ValueError(f"cannot reshape {values} into shape {self.shape}")
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec(self.shape, values.dtype),))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (column,) = columns
        size = math.prod(self.shape)
        found = _sizes(column, n)
        bad = np.flatnonzero(found != size)
        rows = int(bad[0]) if len(bad) else n
        error = None
        if len(bad):
            error = ValueError(
                f"reshape: an array of {found[rows]} values cannot have the shape {self.shape}"
            )
        if isinstance(column, RaggedArray):
            splits = column.row_splits
            values = column.values[splits[0] : splits[rows]]
        elif isinstance(column, np.ndarray):
            values = column[:rows]
        else:
            parts = [np.asarray(row).reshape(self.shape) for row in column[:rows]]
            dtype = np.asarray(column[0]).dtype if len(column) else None
            values = np.stack(parts) if parts else np.empty((0, *self.shape), dtype)
        return Rows([np.ascontiguousarray(values).reshape(rows, *self.shape)], error)


def _sizes(column: Column, n: int) -> np.ndarray:
    """How many values each row has."""
    if isinstance(column, RaggedArray):
        return column.row_lengths() * math.prod(column.values.shape[1:])
    if isinstance(column, np.ndarray):
        return np.full(n, math.prod(column.shape[1:]))
    return np.array([np.size(row) for row in column], np.int64)


def reshaped(symbol: Symbol, shape: Sequence[Any], order: str = "C") -> Any:
    """The symbol's values in another shape, or ``None`` if that is not known or not the same."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    if order != "C" or isinstance(symbol.spec, RaggedTensorSpec):
        return None
    try:
        dims = [operator.index(dim) for dim in given]
    except TypeError:
        return None
    if dims.count(-1) == 1 and symbol.spec.is_static:
        known = math.prod(dim for dim in dims if dim != -1)
        total = math.prod(dim or 0 for dim in symbol.spec.shape)
        if known == 0 or total % known:
            return None
        dims[dims.index(-1)] = total // known
    if any(dim < 0 for dim in dims):
        return None
    return record(Reshape(tuple(dims)), (symbol,))
