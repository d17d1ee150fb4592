"""Columns of blocks: numpy arrays, ``RaggedArray`` for rows of different lengths, ``ArrayRows``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.array_rows import ArrayRows
from drumline.data.packed_strings import PackedStrings
from drumline.data.ragged import RaggedArray, joined, uniform


def concatenated(parts: Sequence[Any], out: np.ndarray | None = None) -> Any:
    """The rows of all columns, one after the other; ragged or varying if one of them is.

    Args:
        parts: at least one.
        out: where to write dense rows.
    """
    varying = [part for part in parts if isinstance(part, ArrayRows)]
    if varying:
        rows = [row for part in parts for row in part]
        return ArrayRows(rows, varying[0].dtype, varying[0].rank)
    packed = [part for part in parts if isinstance(part, PackedStrings)]
    if packed:
        return PackedStrings.joined(packed)
    if any(isinstance(part, RaggedArray) for part in parts):
        return joined([p if isinstance(p, RaggedArray) else uniform(p) for p in parts])
    return np.concatenate(parts, out=out)


def row_lengths(column: Any) -> np.ndarray:
    """The first dimension of each row: int64 (n,)."""
    if isinstance(column, RaggedArray):
        return column.row_lengths()
    return np.full(len(column), column.shape[1], np.int64)


def dense(column: Any) -> np.ndarray:
    """Rows that are all of the first's shape, as an array."""
    if isinstance(column, ArrayRows):
        return column.dense()
    if not isinstance(column, RaggedArray):
        array: np.ndarray = column
        return array
    length = len(column[0]) if len(column) else 0
    values = column.values
    return np.asarray(values.reshape(len(column), length, *values.shape[1:]))
