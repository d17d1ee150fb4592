"""Descriptions of features, by the names and defaults of ``tf.io``, and their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drumline.data.elements.ragged import fill_value
from drumline.data.elements.spec import STRING, as_array, as_dtype
from drumline.io.feature_columns import (
    Cut,
    FeatureColumn,
    FixedColumn,
    PartitionedColumn,
    RaggedFramesColumn,
    VaryingColumn,
)
from drumline.io.feature_requests import BYTES, FLOAT, INT, FeatureRequest


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


_KINDS = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT, STRING: BYTES}


def features_of(features: Mapping[str, Feature], where: str) -> tuple[FeatureColumn, ...]:
    """The columns of an ``Example``'s features, or of a ``SequenceExample``'s context.

    Raises:
        TypeError: a description or dtype is none that there is.
        ValueError: a shape or default does not fit.
    """
    return tuple(_feature(str(key), feature, where) for key, feature in _items(features, where))


def feature_lists_of(features: Mapping[str, Feature], where: str) -> tuple[FeatureColumn, ...]:
    """The columns of a ``SequenceExample``'s lists of frames.

    Raises:
        TypeError: a description or dtype is none that there is for lists.
        ValueError: a shape or default does not fit.
    """
    return tuple(_list(str(key), feature, where) for key, feature in _items(features, where))


def _items(features: Mapping[str, Feature], where: str) -> list[tuple[str, Feature]]:
    if not isinstance(features, Mapping):
        raise TypeError(
            f"{where}: features are given as a dict from their names to FixedLenFeature and the "
            f"like, not as {features!r:.60}"
        )
    return list(features.items())


def _feature(name: str, feature: Feature, where: str) -> FeatureColumn:
    at = f"{where}: feature {name!r}"
    if isinstance(feature, FixedLenFeature):
        item, kind = _shape(feature.shape, at), _kind(feature.dtype, at)
        default = _default(feature.default_value, item, kind, at)
        return FixedColumn(
            name, FeatureRequest(name, kind, "fixed", math.prod(item), default), item
        )
    if isinstance(feature, VarLenFeature):
        return VaryingColumn(name, FeatureRequest(name, _kind(feature.dtype, at), "varying"))
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(
                f"{at}: FixedLenSequenceFeature takes records that lack it as empty ones; pass "
                "allow_missing=True"
            )
        return _padded(name, feature, "varying", at)
    if isinstance(feature, RaggedFeature):
        return _ragged(name, feature, at)
    raise TypeError(f"{at} is {feature!r:.80}, not a FixedLenFeature, VarLenFeature or the like")


def _list(name: str, feature: Feature, where: str) -> FeatureColumn:
    at = f"{where}: feature list {name!r}"
    if isinstance(feature, FixedLenSequenceFeature):
        form = "optional frames" if feature.allow_missing else "frames"
        return _padded(name, feature, form, at)
    if isinstance(feature, VarLenFeature):
        return RaggedFramesColumn(
            name, FeatureRequest(name, _kind(feature.dtype, at), "varying frames")
        )
    if isinstance(feature, RaggedFeature):
        if feature.partitions:
            raise TypeError(f"{at}: lists have no partitions; their frames are the rows")
        key = name if feature.value_key is None else feature.value_key
        return RaggedFramesColumn(
            name, FeatureRequest(key, _kind(feature.dtype, at), "varying frames")
        )
    raise TypeError(
        f"{at} is {feature!r:.80}; lists are described by FixedLenSequenceFeature, VarLenFeature "
        "or RaggedFeature"
    )


def _padded(name: str, feature: FixedLenSequenceFeature, form: str, at: str) -> VaryingColumn:
    item, kind = _shape(feature.shape, at), _kind(feature.dtype, at)
    wanted = FeatureRequest(name, kind, form, math.prod(item))
    if wanted.count == 0:
        raise ValueError(f"{at}: items of shape {list(item)} have no values to be counted by")
    filler = _default(feature.default_value, (), kind, at)
    return VaryingColumn(name, wanted, item, filler[0] if filler else fill_value(wanted.dtype))


def _ragged(name: str, feature: RaggedFeature, at: str) -> FeatureColumn:
    key = name if feature.value_key is None else feature.value_key
    partitions = list(feature.partitions)
    item: list[int] = []
    # The innermost dimensions that are equal for all are an array's.
    while partitions and isinstance(partitions[-1], UniformRowLength):
        item.insert(0, _cut(partitions.pop(), at).length)
    wanted = FeatureRequest(key, _kind(feature.dtype, at), "varying", math.prod(item))
    if not partitions:
        return VaryingColumn(name, wanted, tuple(item))
    cuts = tuple(_cut(partition, at) for partition in partitions)
    return PartitionedColumn(name, wanted, tuple(item), cuts)


def _cut(partition: Partition, at: str) -> Cut:
    kind = type(partition).__name__
    if not isinstance(partition, UniformRowLength):
        return Cut(kind, FeatureRequest(partition.key, INT, "varying"))
    if partition.length < 1:
        raise ValueError(f"{at}: UniformRowLength must be positive, got {partition.length}")
    return Cut(kind, None, int(partition.length))


def _shape(shape: Any, at: str) -> tuple[int, ...]:
    dims = tuple(shape) if not isinstance(shape, int) else (shape,)
    if None in dims:
        raise ValueError(
            f"{at}: all dimensions of its shape {list(dims)} must be known; a first one that "
            "varies is FixedLenSequenceFeature's"
        )
    if any(int(dim) < 0 for dim in dims):
        raise ValueError(f"{at}: its shape {list(dims)} has a negative dimension")
    return tuple(int(dim) for dim in dims)


def _kind(dtype: Any, at: str) -> str:
    found = _KINDS.get(as_dtype(dtype))
    if found is None:
        raise TypeError(
            f"{at}: records hold float32, int64 and string, not {as_dtype(dtype)}; convert it "
            "after parsing"
        )
    return found


def _default(value: Any, shape: tuple[int, ...], kind: str, at: str) -> Any:
    if value is None:
        return None
    given = as_array(value)
    if given.size != math.prod(shape):
        raise ValueError(f"{at}: default_value has {given.size} values, the shape {list(shape)}")
    if not given.size:
        return ()
    if kind == BYTES and given.dtype == STRING:
        return tuple(given.reshape(-1).tolist())
    allowed = "iuf" if kind == FLOAT else "iu"
    if kind == BYTES or given.dtype.kind not in allowed:
        raise TypeError(f"{at}: default_value is of dtype {given.dtype}, the feature of {kind}")
    return tuple(given.astype(kind).reshape(-1).tolist())
