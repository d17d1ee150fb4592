"""Columns of comma-separated values: their types, and what stands for missing ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.spec import STRING, TensorSpec, as_array, as_dtype

DTYPES = ("float32", "float64", "int32", "int64", "string")

Default = int | float | bytes


@dataclasses.dataclass(frozen=True)
class CsvColumn:
    """Attributes:
    dtype: one of ``DTYPES``.
    default: what stands for a missing value; ``None`` if none may be missing.
    """

    dtype: str
    default: Default | None

    @property
    def spec(self) -> TensorSpec:
        """Of a value."""
        return TensorSpec((), STRING if self.dtype == "string" else self.dtype)

    def __str__(self) -> str:
        return self.dtype if self.default is None else f"{self.dtype} or {self.default!r}"


def csv_columns(operation: str, argument: str, given: Sequence[Any]) -> tuple[CsvColumn, ...]:
    """The columns that ``record_defaults`` stand for.

    Args:
        operation: the caller's, for errors.
        argument: the name of the argument, for errors.
        given: for each column a dtype, or an array without or with one value, or a value.

    Raises:
        TypeError: one is none of these.
        ValueError: an array has more values, or there are no columns.
    """
    if not len(given):
        raise ValueError(f"{operation}: {argument} must have at least one column")
    return tuple(_column(f"{operation}: {argument}[{i}]", item) for i, item in enumerate(given))


def _column(where: str, given: Any) -> CsvColumn:
    if isinstance(given, type | np.dtype) or (hasattr(given, "dtype") and callable(given)):
        return CsvColumn(_name(where, as_dtype(given)), None)
    array = as_array(given)
    if array.size > 1:
        raise ValueError(f"{where}: one default at most, got {given!r:.60}")
    name = _name(where, array.dtype)
    return (
        CsvColumn(name, array.reshape(-1)[0] if name == "string" else array.item())
        if (array.size)
        else CsvColumn(name, None)
    )


def _name(where: str, dtype: np.dtype) -> str:
    name = "string" if dtype == STRING else dtype.name
    if name not in DTYPES:
        raise TypeError(f"{where}: columns are {', '.join(DTYPES)}, not {name}")
    return name
