"""What to have of each feature of a record, by the names and defaults of ``tf.io``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class FixedLenFeature(NamedTuple):
    """A feature with as many values in every record: an array of ``shape``.

    Attributes:
        shape: dimensions of one record's value; ``[]`` for a scalar.
        dtype: float32, int64 or string.
        default_value: what a missing feature is taken for, of ``shape``; without one it is an
            error. A number or string alone stands for a shape of one value.
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values, none where it is missing.

    A record's values are an array ``(None,)``, those of a batch a ``RaggedArray``.

    Attributes:
        dtype: float32, int64 or string.
    """

    dtype: Any


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of items of ``shape``, or a list of frames of that shape.

    A record's value is an array ``(None, *shape)``, that of a batch is filled up to its longest.

    Attributes:
        shape: dimensions of an item.
        dtype: float32, int64 or string.
        allow_missing: whether records may lack it; it must be true outside of sequence examples.
        default_value: what batches are filled up with, one number or string; else 0 or ``b""``.
    """

    shape: Sequence[int]
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class RowSplits(NamedTuple):
    """Rows end where the feature ``key``, int64, says; it begins with 0."""

    key: str


class RowLengths(NamedTuple):
    """Rows have the lengths that the feature ``key``, int64, says."""

    key: str


class RowStarts(NamedTuple):
    """Rows begin where the feature ``key``, int64, says; it begins with 0."""

    key: str


class RowLimits(NamedTuple):
    """Rows end where the feature ``key``, int64, says; it does not begin with 0."""

    key: str


class ValueRowIds(NamedTuple):
    """The feature ``key``, int64, has the row of each value."""

    key: str


class UniformRowLength(NamedTuple):
    """All rows are ``length`` long."""

    length: int


Partition = RowSplits | RowLengths | RowStarts | RowLimits | ValueRowIds | UniformRowLength


class _RaggedFeature(NamedTuple):
    dtype: Any
    value_key: str | None
    partitions: tuple[Partition, ...]
    row_splits_dtype: Any
    validate: bool


class RaggedFeature(_RaggedFeature):
    """A feature whose values other features cut into rows, and these perhaps into rows again.

    Attributes:
        dtype: float32, int64 or string.
        value_key: the feature that holds the values; the one it is listed under by default.
        partitions: how values are cut, the outermost first: ``RaggedFeature.RowSplits(key)``,
            ``RowLengths``, ``RowStarts``, ``RowLimits``, ``ValueRowIds`` or
            ``UniformRowLength(length)``. Without any, values are as of a ``VarLenFeature``.
        row_splits_dtype: int32 or int64; splits are int64 here in either case.
        validate: they are checked in either case.
    """

    __slots__ = ()

    RowSplits = RowSplits
    RowLengths = RowLengths
    RowStarts = RowStarts
    RowLimits = RowLimits
    ValueRowIds = ValueRowIds
    UniformRowLength = UniformRowLength

    def __new__(
        cls,
        dtype: Any,
        value_key: str | None = None,
        partitions: Sequence[Partition] = (),
        row_splits_dtype: Any = np.int32,
        validate: bool = False,
    ) -> RaggedFeature:
        """Checks the partitions.

        Raises:
            TypeError: one is none of the above.
            ValueError: ``row_splits_dtype`` is neither int32 nor int64.
        """
        for partition in partitions:
            if not isinstance(partition, Partition):
                raise TypeError(f"RaggedFeature: {partition!r:.80} is no partition")
        if np.dtype(row_splits_dtype) not in (np.int32, np.int64):
            raise ValueError(
                f"RaggedFeature: row_splits_dtype is int32 or int64, not {row_splits_dtype!r:.60}"
            )
        return super().__new__(
            cls, dtype, value_key, tuple(partitions), row_splits_dtype, bool(validate)
        )


Feature = FixedLenFeature | VarLenFeature | FixedLenSequenceFeature | RaggedFeature
