"""Calling a native operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline._lazy import jax
from drumline.data.elements.precision import given
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.rows import single, spec_of_leaf
from drumline.data.elements.spec import as_array
from drumline.data.functions.native.operation import Column, NativeOperation
from drumline.data.functions.native.symbol import Symbol, record


def is_symbol(value: Any) -> bool:
    """Whether a value is one without contents, in a function that is being traced.

    Strings are, and arrays whose shape varies between elements. They have ``shape``, ``dtype``,
    ``ndim`` and ``spec``, and can be given to ``apply`` and to nothing else.
    """
    return isinstance(value, Symbol)


def apply(operation: NativeOperation, *arguments: Any) -> Any:
    """The operation's result for one element's values, in the structure its spec has.

    In a function that is being traced the operation is put into the program: results of fixed
    shapes are JAX's tracers, others symbols.

    Args:
        arguments: numbers, strings, arrays, ``RaggedArray``; tracers and symbols.

    Raises:
        Exception: what the operation says is wrong with a value.
    """
    if any(isinstance(value, Symbol | jax.core.Tracer) for value in arguments):
        return record(operation, arguments)
    specs = [spec_of_leaf(value, static=True) for value in arguments]
    results = operation.results(*specs)
    rows = operation.run([_column_of_one(value) for value in arguments], 1)
    if rows.error is not None:
        raise rows.error
    return results.structure.unflatten([given(_value(column)) for column in rows.columns])


def _column_of_one(value: Any) -> Column:
    array = single(value) if isinstance(value, RaggedArray) else as_array(value)
    return array[None]


def _value(column: Column) -> Any:
    row = column[0]
    return row[()] if isinstance(row, np.ndarray) and row.ndim == 0 else row
