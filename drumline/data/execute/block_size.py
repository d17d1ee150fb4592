"""How much memory a block takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.observe.meter import nbytes_of
from drumline.data.ragged import RaggedArray
from drumline.data.spec import STRING

UNBOUNDED = 1 << 62
"""Stands for a number of bytes without a limit."""

_SAMPLE = 32


def estimated_nbytes(block: Block) -> int:
    """Bytes of a block's elements; where they are objects, from a sample of them."""
    return sum(map(_estimated, block.columns))


def _estimated(column: np.ndarray | Sequence[Any]) -> int:
    if type(column) is np.ndarray and column.dtype != STRING:
        return column.nbytes
    if isinstance(column, RaggedArray) and column.dtype == STRING:
        column = column.flat_values
    if not isinstance(column, np.ndarray) or column.dtype != object or column.size <= _SAMPLE:
        return nbytes_of(column)
    step = column.size // _SAMPLE
    sample = column.reshape(-1)[::step]
    return nbytes_of(sample) * column.size // len(sample)
