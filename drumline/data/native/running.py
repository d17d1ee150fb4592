"""One native operation over the rows of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.spec import TensorSpec
from drumline.data.native.columns import for_block, for_operation, misfit
from drumline.data.native.operation import NativeOperation, Rows


class Repeated:
    """A value as a column of any length."""

    def __init__(self, value: np.ndarray):
        self._value = value
        self._column = value[None]

    def __call__(self, n: int) -> np.ndarray:
        column = self._column
        if len(column) < n:
            column = np.repeat(self._value[None], n, axis=0)
            column.flags.writeable = False
            self._column = column
        return column[:n]


def run_native(
    operation: NativeOperation,
    columns: Sequence[Any],
    specs: Sequence[TensorSpec],
    results: Sequence[TensorSpec],
    n: int,
) -> tuple[list[Any], int, Exception | None]:
    """The results for ``n`` rows as columns of a block, how many rows they have, and why no more.

    Raises:
        TypeError: the operation does not give what it said it would.
    """
    given = [for_operation(column, spec) for column, spec in zip(columns, specs, strict=True)]
    rows = operation.run(given, n)
    _check(operation, rows, results, n)
    made = [for_block(column, leaf) for column, leaf in zip(rows.columns, results, strict=True)]
    return made, len(rows.columns[0]), rows.error


def _check(operation: NativeOperation, rows: Rows, results: Sequence[TensorSpec], n: int) -> None:
    lengths = {len(column) for column in rows.columns}
    if len(rows.columns) != len(results) or len(lengths) != 1:
        raise TypeError(
            f"dl.{operation.name} gives {len(rows.columns)} columns of lengths {sorted(lengths)} "
            f"for {len(results)} results"
        )
    (length,) = lengths
    if length > n or (length < n) != (rows.error is not None):
        raise TypeError(f"dl.{operation.name} gives {length} rows for {n}, error {rows.error!r}")
    for column, leaf in zip(rows.columns, results, strict=True):
        wrong = misfit(column, leaf)
        if wrong is not None:
            raise TypeError(f"dl.{operation.name}: {wrong}")
