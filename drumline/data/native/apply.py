"""Calling a native operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.leaves import as_array
from drumline.data.native.operation import Column, NativeOperation
from drumline.data.ragged import RaggedArray
from drumline.data.rows import single, spec_of_leaf


def apply(operation: NativeOperation, *arguments: Any) -> Any:
    """The operation's result for one element's values, in the structure its spec has.

    Args:
        arguments: numbers, strings, arrays, ``RaggedArray``.

    Raises:
        Exception: what the operation says is wrong with a value.
    """
    specs = [spec_of_leaf(value, static=True) for value in arguments]
    results = operation.results(*specs)
    rows = operation.run([_column_of_one(value) for value in arguments], 1)
    if rows.error is not None:
        raise rows.error
    return results.structure.unflatten([_value(column) for column in rows.columns])


def _column_of_one(value: Any) -> Column:
    array = single(value) if isinstance(value, RaggedArray) else as_array(value)
    return array[None]


def _value(column: Column) -> Any:
    row = column[0]
    return row[()] if isinstance(row, np.ndarray) and row.ndim == 0 else row
