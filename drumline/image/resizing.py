"""Resizing images, as ``tf.image``: alone, with padding, and fused with decoding of JPEG files."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from drumline._core import resize_images, resize_nearest, resize_spans
from drumline._lazy import jax, jnp
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import (
    Arithmetic,
    Column,
    NativeOperation,
    OperationResult,
    described,
    rounded,
)
from drumline.image import columns as col
from drumline.image.columns import get_limits
from drumline.image.jpeg import DecodeJpeg, DecodeResized, joined


class ResizeMethod:
    """Names of methods, as ``tf.image.ResizeMethod``."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


METHODS = tuple(value for name, value in vars(ResizeMethod).items() if name.isupper())


@dataclasses.dataclass(frozen=True)
class Resize(NativeOperation):
    """Images of any size to images of one, also of any number of channels if ``mixed``."""

    height: int
    width: int
    method: str
    antialias: bool
    mixed: bool = False
    arithmetic: tuple[Arithmetic, ...] = ()

    @property
    def name(self) -> str:
        """As users know it."""
        return described("image.resize", self.arithmetic)

    def then(self, arithmetic: tuple[Arithmetic, ...]) -> NativeOperation | None:
        """Return the same operation, with arithmetic on values while they are in the cache."""
        if self.mixed or self.method == "nearest":
            return None
        return dataclasses.replace(self, arithmetic=arithmetic)

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size, of float32 unless pixels are copied."""
        spec = col.image_spec(arguments[0], self.name)
        if self.method != "nearest" and spec.dtype not in _NUMBERS:
            raise TypeError(f"{self.name}: images of {spec.dtype} cannot be interpolated")
        dtype = spec.dtype if self.method == "nearest" else np.dtype(np.float32)
        return col.one((self.height, self.width, spec.shape[2]), dtype)

    def after(self, before: NativeOperation) -> NativeOperation | None:
        """Of JPEG files the image is not made, but its rows when they are needed."""
        if not isinstance(before, DecodeJpeg):
            return None
        return joined(before, self.height, self.width, self.method, self.antialias)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Resizes images on all cores."""
        if self.mixed:
            return self._one_by_one(columns[0])
        images = col.contiguous(columns[0])
        first = images[0]
        shape = (self.height, self.width, first.shape[-1])
        if self.method == "nearest":
            out = col.empty(n, shape, first.dtype)
            made, told = resize_nearest(images, _as_bytes(out))
        else:
            out = col.empty(n, shape, np.float32)
            arithmetic = rounded(self.arithmetic)
            made, told = resize_images(images, self.method, self.antialias, arithmetic, out)
        return col.rows(out[:made], told, self.name)

    def _one_by_one(self, images: Column) -> OperationResult:
        alike = dataclasses.replace(self, mixed=False)
        made: list[np.ndarray] = []
        for image in images:
            rows = alike.run([image[None]], 1)
            if rows.error is not None:
                return OperationResult((made,), rows.error)
            made.append(np.asarray(rows.columns[0])[0])
        return OperationResult((made,))


_NUMBERS = tuple(map(np.dtype, ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")))


def _as_bytes(images: np.ndarray) -> np.ndarray:
    return images.view(np.uint8).reshape(*images.shape[:-1], -1)


def resize(
    images: Any,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Any:
    """Images of another size, as ``tf.image.resize``: float32, or copied pixels if "nearest".

    Args:
        images: (height, width, channels) or (n, height, width, channels), of numbers.
        size: two integers: height and width.
        method: of `ResizeMethod`.
        preserve_aspect_ratio: whether ``size`` is only what the result must fit into.
        antialias: whether all pixels count when images become smaller; always so for "area",
            never for "nearest".

    Raises:
        ValueError: an argument is none of these, or an image has no pixels.
    """
    height, width = size_of("resize", size)
    if method not in METHODS:
        raise ValueError(f"resize: method must be one of {METHODS}, got {method!r}")
    shape = tuple(images.shape) if hasattr(images, "shape") else np.shape(images)
    if len(shape) not in (3, 4):
        raise ValueError(f"resize: images must have 3 or 4 dimensions, got shape {shape}")
    if preserve_aspect_ratio:
        height, width = _fitted(shape[-3:-1], height, width)
    if isinstance(images, jax.core.Tracer):
        return resize_fixed(images, height, width, method, bool(antialias))
    operation = Resize(height, width, method, bool(antialias), mixed=shape[-1] is None)
    if len(shape) == 3:
        return apply(operation, images)
    if shape[0] == 0:
        (of_one,) = operation.results(TensorSpec(shape[1:], images.dtype)).leaves
        return np.empty((0, *of_one.shape), of_one.dtype)
    rows = operation.run([np.asarray(images)], shape[0])
    if rows.error is not None:
        raise rows.error
    return rows.columns[0]


def resize_fixed(images: Any, height: int, width: int, method: str, antialias: bool) -> Any:
    """Images (..., height, width, channels) of a fixed shape, with operations of ``jax.numpy``."""
    if method == "nearest":
        rows = _nearest(images.shape[-3], height)
        return images[..., rows, :, :][..., _nearest(images.shape[-2], width), :]
    values = images.astype(jnp.float32)
    values = _weighted(values, values.ndim - 3, height, method, antialias)
    return _weighted(values, values.ndim - 2, width, method, antialias)


def _nearest(count: int, size: int) -> np.ndarray:
    scale = np.float32(count) / np.float32(size)
    places = np.floor((np.arange(size, dtype=np.float32) + np.float32(0.5)) * scale)
    return np.minimum(places.astype(np.int64), count - 1)


def _weighted(values: Any, axis: int, size: int, method: str, antialias: bool) -> Any:
    starts, weights = resize_spans(values.shape[axis], size, method, antialias)
    trailing = (1,) * (values.ndim - axis - 1)
    total = None
    for tap in range(weights.shape[1]):
        part = jnp.take(values, starts + tap, axis) * weights[:, tap].reshape(-1, *trailing)
        total = part if total is None else total + part
    return total


def size_of(called: str, size: Any) -> tuple[int, int]:
    """Height and width, checked."""
    try:
        height, width = map(operator.index, size)
    except TypeError:
        height = width = 0
    except ValueError:
        raise ValueError(f"{called}: size must be two integers, got {size!r}") from None
    if height < 1 or width < 1:
        raise ValueError(f"{called}: size must be two positive integers, got {size!r}")
    return height, width


def _fitted(shape: Sequence[int | None], height: int, width: int) -> tuple[int, int]:
    if shape[0] is None or shape[1] is None:
        raise ValueError(
            "resize: with preserve_aspect_ratio images must be of one known size; these vary"
        )
    # TensorFlow's way: both scales in single precision, the smaller one counts.
    down, along = np.float32(height) / shape[0], np.float32(width) / shape[1]
    scale = min(np.float32(down), np.float32(along))
    return max(1, round(float(scale * shape[0]))), max(1, round(float(scale * shape[1])))


def decode_jpeg_resized(
    contents: Any,
    size: Sequence[int],
    crop_window: Any = None,
    flip: Any = None,
    channels: int = 3,
    ratio: int | str = 1,
    method: str = "bilinear",
    antialias: bool = False,
) -> Any:
    """A JPEG file, or a window of it, at another size: float32 (height, width, channels).

    The same as `decode_and_crop_jpeg`, `resize` and `flip_left_right` in sequence, without
    the images between them. TensorFlow has no such function.

    Args:
        contents: bytes.
        size: two integers: height and width.
        crop_window: integers (4,): first row and column, height and width, in pixels of the whole
            image, whatever the ratio.
        flip: a bool: whether the result is mirrored.
        channels: 1 or 3.
        ratio: 1, 2, 4 or 8: by how much the image is made smaller while it is decoded, which is
            faster and not the same; or ``"auto"``, the largest at which the window is not smaller
            than ``size``.
        method: as for `resize`, but not ``"nearest"``.
        antialias: as for `resize`.

    Raises:
        ValueError: as `decode_and_crop_jpeg` and `resize`.
    """
    height, width = size_of("decode_jpeg_resized", size)
    if method not in METHODS or method == "nearest":
        raise ValueError(f"decode_jpeg_resized: no method {method!r} interpolates")
    if channels not in (1, 3):
        raise ValueError(f"decode_jpeg_resized: channels must be 1 or 3, got {channels!r}")
    if ratio not in (1, 2, 4, 8, "auto"):
        raise ValueError(f"decode_jpeg_resized: ratio must be 1, 2, 4, 8 or 'auto', got {ratio!r}")
    operation = DecodeResized(
        height,
        width,
        int(channels),
        0 if ratio == "auto" else int(ratio),
        method,
        bool(antialias),
        crop_window is not None,
        flip is not None,
        get_limits(),
    )
    optional = [value for value in (crop_window, flip) if value is not None]
    return apply(operation, contents, *optional)


_NAME = "image.resize_with_pad"


@dataclasses.dataclass(frozen=True)
class ResizeWithPad(NativeOperation):
    """Images, or arrays of images, to ones of a size."""

    row_by_row: ClassVar[bool] = True

    height: int
    width: int
    method: str
    antialias: bool

    @property
    def name(self) -> str:
        """As users know it."""
        return _NAME

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of one size."""
        (images,) = arguments
        if len(images.shape) != 4:
            col.image_spec(images, self.name)
        dtype = images.dtype if self.method == "nearest" else np.float32
        return col.one((*images.shape[:-3], self.height, self.width, images.shape[-1]), dtype)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Resizes image by image."""
        rows = [self._padded(np.asarray(row)) for row in columns[0]]
        same = len({row.shape for row in rows}) == 1
        return OperationResult((np.stack(rows) if same else rows,))

    def _padded(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[-3:-1]
        ratio = max(width / self.width, height / self.height)
        rows, columns = int(np.floor(height / ratio)), int(np.floor(width / ratio))
        top = int(np.floor((self.height - height / ratio) / 2))
        left = int(np.floor((self.width - width / ratio) / 2))
        size = (max(rows, 1), max(columns, 1))
        part = resize(image, size, self.method, antialias=self.antialias)
        shape = (*image.shape[:-3], self.height, self.width, image.shape[-1])
        whole = np.zeros(shape, part.dtype)
        whole[..., top : top + size[0], left : left + size[1], :] = part
        return whole


def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: str = "bilinear",
    antialias: bool = False,
) -> Any:
    """The image made to fit a size, in the middle of zeros, as ``tf.image.resize_with_pad``.

    Args:
        image: (height, width, channels) or (n, height, width, channels).
        target_height: rows of the result.
        target_width: columns of the result.
        method: as of `resize`.
        antialias: as of `resize`.

    Returns:
        float32, for ``"nearest"`` of the image's type.

    Raises:
        ValueError: an argument is none of these.
    """
    size = operator.index(target_height), operator.index(target_width)
    if min(size) < 1:
        raise ValueError(f"resize_with_pad: the size must be positive, got {size}")
    return apply(ResizeWithPad(*size, method, antialias), image)
