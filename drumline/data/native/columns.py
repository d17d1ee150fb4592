"""Columns between blocks and native operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.elements.columns import ArrayRows, PackedStrings
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, uniform
from drumline.data.elements.spec import TensorSpec
from drumline.data.native.operation import Column


def for_operation(column: Any, spec: TensorSpec) -> Column:
    """A block's column as operations take values of ``spec``."""
    if isinstance(spec, RaggedTensorSpec) or spec.is_static or isinstance(column, PackedStrings):
        return column
    if None in spec.shape[1:]:
        return list(column)
    if isinstance(column, RaggedArray):
        return column
    return uniform(column) if isinstance(column, np.ndarray) else RaggedArray.from_rows(column)


def for_block(column: Column, spec: TensorSpec) -> Any:
    """An operation's column as blocks hold values of ``spec``."""
    if isinstance(column, list):
        return ArrayRows(column, spec.dtype, len(spec.shape))
    return column


def misfit(column: Column, spec: TensorSpec) -> str | None:
    """What is wrong with a column that should hold values of ``spec``."""
    if isinstance(spec, RaggedTensorSpec):
        fits = isinstance(column, np.ndarray) and column.dtype == object
    elif spec.is_static:
        fits = (
            isinstance(column, np.ndarray)
            and column.dtype == spec.dtype
            and column.shape[1:] == spec.shape
        )
    elif None not in spec.shape[1:]:
        fits = isinstance(column, RaggedArray | np.ndarray) and column.dtype == spec.dtype
    else:
        fits = isinstance(column, list) and all(
            spec.accepts(row.shape, row.dtype) for row in column
        )
    return None if fits else f"a column of {type(column).__name__} does not hold {spec}"
