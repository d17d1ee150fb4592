"""Columns of Arrow tables as numpy columns, with their nulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline._lazy import lazy_module, pa
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import STRING

compute = lazy_module("pyarrow.compute")
kinds = lazy_module("pyarrow.types")


def arrow_columns(table: Any, operation: str = "from_arrow") -> dict[str, Any]:
    """The columns of a table by name, without a copy where Arrow holds one run of numbers.

    Args:
        table: a ``pyarrow.Table``, or anything that exports itself by ``__arrow_c_stream__``
            (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html): data
            frames of pandas and Polars, DuckDB relations, record batch readers.
        operation: the caller's, for errors.

    Raises:
        TypeError: it is no table, or a column has a type that no dataset column has.
        ValueError: a column has nulls, or there are no columns.
    """
    if not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(
                f"{operation} takes a pyarrow.Table or an object with __arrow_c_stream__ (a data "
                f"frame of pandas 2.2 or Polars), got {type(table).__name__}"
            )
        table = pa.table(table)
    if not table.num_columns:
        raise ValueError(f"{operation}: the table has no columns")
    names = table.column_names
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{operation}: several columns are called {', '.join(repeated)}")
    try:
        return {name: _column(table[name], name) for name in names}
    except (TypeError, ValueError) as error:
        raise type(error)(f"{operation}: {error}") from None


def _column(column: pa.ChunkedArray, path: str) -> Any:
    chunks = column.chunks or [pa.array([], column.type)]
    joined = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return _values(joined, path)


def _values(array: pa.Array, path: str) -> Any:
    if array.null_count:
        raise ValueError(
            f"column {path!r} has {array.null_count} nulls, and a dataset has none: "
            "drop those rows (table.drop_null()) or fill them (pyarrow.compute.fill_null)"
        )
    if isinstance(array, pa.ExtensionArray):
        return _extension(array, path)
    kind = array.type
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind):
        return array.to_numpy(zero_copy_only=False)
    if kinds.is_dictionary(kind):
        return _values(array.dictionary_decode(), path)
    if _is_text(kind):
        return _bytes(array)
    if kinds.is_fixed_size_list(kind):
        inner = _values(array.flatten(), path)
        return inner.reshape(len(array), kind.list_size, *inner.shape[1:])
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        splits = array.offsets.to_numpy().astype(np.int64)
        return _rows_of(_values(array.flatten(), path), splits - splits[0])
    if kinds.is_struct(kind):
        parts = zip(kind, array.flatten(), strict=True)
        return {field.name: _values(part, f"{path}.{field.name}") for field, part in parts}
    raise TypeError(
        f"column {path!r} has type {kind}; a dataset column holds numbers, bools, "
        "strings or lists of these: cast it (a timestamp to int64, a decimal to float64) or "
        "leave it out"
    )


def _rows_of(values: Any, splits: np.ndarray) -> Any:
    """Lists of values; of a list of structs a dict of lists, as TensorFlow Datasets has it."""
    if isinstance(values, dict):
        return {name: _rows_of(part, splits) for name, part in values.items()}
    return RaggedArray(values, splits)


def _extension(array: pa.ExtensionArray, path: str) -> Any:
    if isinstance(array, pa.FixedShapeTensorArray):
        return array.to_numpy_ndarray()
    shape = getattr(array.type, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(dim, int) for dim in shape[1:]):
        return _of_shape(array.storage, shape, path)
    return _values(array.storage, path)


def _of_shape(storage: pa.Array, shape: tuple[int | None, ...], path: str) -> Any:
    """Nested lists that all have one shape (Hugging Face's ``Array2D`` and its like)."""
    rows, flat = len(storage), storage
    for _ in shape:
        flat = flat.flatten()
    values = _values(flat, path)
    if shape[0] is not None:
        return values.reshape(rows, *shape)
    splits = storage.offsets.to_numpy().astype(np.int64)
    return RaggedArray(values.reshape(-1, *shape[1:]), splits - splits[0])


def _is_text(kind: pa.DataType) -> bool:
    return (
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_fixed_size_binary(kind)
        or kind in (pa.string_view(), pa.binary_view())
    )


def _bytes(array: pa.Array) -> np.ndarray:
    column = np.empty(len(array), STRING)
    column[:] = array.cast(pa.large_binary()).to_pylist()
    return column


def decoded(array: pa.Array) -> pa.Array:
    """The values of a dictionary array, of an extension array what it is stored as."""
    if isinstance(array, pa.ExtensionArray):
        return decoded(array.storage)
    return array.dictionary_decode() if kinds.is_dictionary(array.type) else array


def filled(array: pa.Array, value: pa.Scalar) -> pa.Array:
    """The array with ``value`` in the place of nulls; of dictionaries the values."""
    if not array.null_count:
        return array
    plain = decoded(array)
    return compute.if_else(plain.is_null(), value, plain)


def may_have_nulls(array: pa.Array) -> bool:
    """Whether it is worth looking for nulls."""
    return bool(array.null_count) or not kinds.is_primitive(array.type)


def null_rows(array: pa.Array) -> np.ndarray:
    """Which rows are null or have a null inside: bool (n,)."""
    array = decoded(array)
    kind = array.type
    found = array.is_null().to_numpy(zero_copy_only=False)
    if kinds.is_fixed_size_list(kind):
        inner = null_rows(array.flatten()).reshape(-1, kind.list_size)
        found[~found] = inner.any(axis=1) if inner.size else False
    elif kinds.is_list(kind) or kinds.is_large_list(kind):
        offsets = array.offsets.to_numpy().astype(np.int64)
        inner = null_rows(array.values[offsets[0] : offsets[-1]])
        before = np.concatenate([[0], np.cumsum(inner)])[offsets - offsets[0]]
        found |= np.diff(before) > 0
    elif kinds.is_struct(kind):
        for part in array.flatten():
            found |= null_rows(part)
    return np.asarray(found)
