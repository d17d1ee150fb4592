"""From a user's description of features to columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from drumline.data.elements.ragged import fill_value
from drumline.data.elements.spec import STRING, as_array, as_dtype
from drumline.io.examples.columns import (
    FeatureColumn,
    FixedColumn,
    PartitionedColumn,
    RaggedFramesColumn,
    VaryingColumn,
)
from drumline.io.examples.partitions import Cut
from drumline.io.examples.wanted import BYTES, FLOAT, INT, Wanted
from drumline.io.features import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    Partition,
    RaggedFeature,
    UniformRowLength,
    VarLenFeature,
)

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
        return FixedColumn(name, Wanted(name, kind, "fixed", math.prod(item), default), item)
    if isinstance(feature, VarLenFeature):
        return VaryingColumn(name, Wanted(name, _kind(feature.dtype, at), "varying"))
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
        return RaggedFramesColumn(name, Wanted(name, _kind(feature.dtype, at), "varying frames"))
    if isinstance(feature, RaggedFeature):
        if feature.partitions:
            raise TypeError(f"{at}: lists have no partitions; their frames are the rows")
        key = name if feature.value_key is None else feature.value_key
        return RaggedFramesColumn(name, Wanted(key, _kind(feature.dtype, at), "varying frames"))
    raise TypeError(
        f"{at} is {feature!r:.80}; lists are described by FixedLenSequenceFeature, VarLenFeature "
        "or RaggedFeature"
    )


def _padded(name: str, feature: FixedLenSequenceFeature, form: str, at: str) -> VaryingColumn:
    item, kind = _shape(feature.shape, at), _kind(feature.dtype, at)
    wanted = Wanted(name, kind, form, math.prod(item))
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
    wanted = Wanted(key, _kind(feature.dtype, at), "varying", math.prod(item))
    if not partitions:
        return VaryingColumn(name, wanted, tuple(item))
    cuts = tuple(_cut(partition, at) for partition in partitions)
    return PartitionedColumn(name, wanted, tuple(item), cuts)


def _cut(partition: Partition, at: str) -> Cut:
    kind = type(partition).__name__
    if not isinstance(partition, UniformRowLength):
        return Cut(kind, Wanted(partition.key, INT, "varying"))
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
