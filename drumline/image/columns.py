"""Columns of images, and what their functions give back."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.cores import available_cores
from drumline.data.execute.pool import BufferPool
from drumline.data.native.operation import Column, Rows
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE

Told = tuple[str, str] | None
"""Why the next row has no result: the kind of failure, and a message."""

_pool = BufferPool(max_buffers=2 * available_cores() + 6)
"""As many as a pipeline has at once: two for each worker of a map, and some that wait."""


def one(shape: tuple[int | None, ...], dtype: Any) -> ElementSpec:
    """The spec of a single array."""
    return ElementSpec(LEAF_STRUCTURE, (TensorSpec(shape, dtype),))


def empty(n: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory for ``n`` images of one shape, used before if possible."""
    return _pool.empty((n, *shape), np.dtype(dtype))


def rows(column: Column, told: Told, name: str) -> Rows:
    """A column, and the failure of the row after it."""
    return Rows((column,), error(told, name))


def error(told: Told, name: str) -> Exception | None:
    """The exception for a failure."""
    if told is None:
        return None
    kind, what = told
    remedies = {
        "too large": "; if it is meant to be so large, raise them with dl.image.set_limits",
        "damaged": "",
        "unsupported": "",
        "request": "",
    }
    return ValueError(f"{name}: {what}{remedies[kind]}")


def require_bytes(spec: TensorSpec, name: str) -> None:
    """Raises if an argument is not the contents of one file.

    Raises:
        TypeError: it is no string.
        ValueError: it is an array of strings.
    """
    if not spec.is_string:
        raise TypeError(f"{name}: contents must be bytes, got {spec}")
    if spec.shape != ():
        raise ValueError(f"{name}: contents must be the bytes of one image, got {spec}")


def image_spec(spec: TensorSpec, name: str) -> TensorSpec:
    """Raises unless an argument is an image.

    Raises:
        TypeError: it holds strings.
        ValueError: it has not three dimensions.
    """
    if spec.is_string:
        raise TypeError(f"{name}: an image must be numbers, got {spec}; decode it first")
    if len(spec.shape) != 3:
        raise ValueError(f"{name}: an image has 3 dimensions, height, width, channels; got {spec}")
    return spec


def contents_of(column: Column) -> list[bytes]:
    """The bytes of a column of strings."""
    return list(column)


def whole_numbers(column: Column, columns: int) -> list[list[int]]:
    """The rows of a column (n, columns) of integers."""
    return np.asarray(column, np.int64).reshape(-1, columns).tolist()


def contiguous(column: Column) -> Any:
    """Images as the native functions take them: each without gaps."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return np.ascontiguousarray(column)
    return [np.ascontiguousarray(image) for image in column]
