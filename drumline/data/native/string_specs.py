"""Specs of what functions of strings take and give."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedTensorSpec
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE


def one(leaf: TensorSpec) -> ElementSpec:
    """A result that is one leaf."""
    return ElementSpec(LEAF_STRUCTURE, (leaf,))


def require_strings(name: str, spec: TensorSpec) -> None:
    """Refuses what is no string or array of strings.

    Raises:
        TypeError: it is none.
    """
    if spec.dtype != STRING:
        raise TypeError(f"{name}: expected strings, got {spec.dtype} values of {spec.shape}")


def is_dense(spec: TensorSpec) -> bool:
    """Whether all values have one shape."""
    return spec.is_static and not isinstance(spec, RaggedTensorSpec)


def with_dtype(spec: TensorSpec, dtype: Any) -> TensorSpec:
    """The same shape with another dtype."""
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(spec.shape, dtype, spec.ragged_rank)
    return TensorSpec(spec.shape, dtype)


def expanded(spec: TensorSpec, dtype: Any) -> TensorSpec:
    """A run of values of any length in place of each value."""
    if not spec.shape:
        return TensorSpec((None,), dtype)
    rows = None if None in spec.shape[:1] else spec.shape[0]
    rank = len(spec.shape)
    return RaggedTensorSpec((rows, *[None] * rank), dtype, rank)


def shape_of(spec: TensorSpec) -> str:
    """For messages."""
    return str(tuple(spec.shape))


def as_text(value: str | bytes, name: str, argument: str) -> bytes:
    """A static argument that is text, as bytes.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | np.bytes_):
        return bytes(value)
    raise TypeError(f"{name}: {argument} must be a string, got {value!r:.60}")
