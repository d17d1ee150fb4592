"""Columns of images, what their functions return, and how large decoded images may be."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from drumline._memory import BufferPool
from drumline._settings import note_choice
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec
from drumline.data.functions.native.operation import Column, OperationResult
from drumline.data.runtime.threads import available_cores

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


def rows(column: Column, told: Told, name: str) -> OperationResult:
    """A column, and the failure of the row after it."""
    return OperationResult((column,), error(told, name))


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


@dataclasses.dataclass(frozen=True)
class Limits:
    """What an image may become before decoding it is refused.

    A few hundred bytes can claim to be, or truly become, gigabytes of pixels.

    Attributes:
        max_pixels: height times width, of all frames of an animation together.
        max_bytes: of the decoded image.
        max_expansion: decoded bytes for each byte of contents, for images of more than 1 MiB.
    """

    max_pixels: int = 1 << 27
    max_bytes: int = 1 << 29
    max_expansion: int = 2000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
                raise ValueError(f"Limits: {field.name} must be a positive integer, got {value!r}")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The three numbers, in order."""
        return self.max_pixels, self.max_bytes, self.max_expansion


_current = Limits()


def get_limits() -> Limits:
    """The limits of decoders from now on."""
    return _current


def set_limits(limits: Limits) -> None:
    """Sets the limits of decoders that are called, or traced in a ``map``, from now on.

    Worker processes have the limits of when they start.

    ``dl.image.set_limits(dl.image.Limits(max_pixels=10_000_000))``.

    Raises:
        TypeError: they are no ``Limits``.
    """
    global _current
    if not isinstance(limits, Limits):
        raise TypeError(f"set_limits takes a dl.image.Limits, got {limits!r:.60}")
    _current = limits
    note_choice(set_limits, limits)
