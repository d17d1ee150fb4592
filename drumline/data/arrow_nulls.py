"""Rows of Arrow arrays in which there are nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.types as kinds


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
