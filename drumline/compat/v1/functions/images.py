"""``tf.compat.v1.image``: sizes of images as TensorFlow 1 changed them.

Pixels are points at whole numbers there, and not squares whose centers lie between them: without
``align_corners`` the image moves by up to half a pixel. Bicubic resizing has TensorFlow's kernel
(A = -0.75), with its table of 1,024 steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.compat.symbols import table
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, static
from drumline.compat.values.tensor import Tensor

_STEPS = 1024


class FormerResizeMethod:
    """How `resize` finds pixels, as ``tf.compat.v1.image.ResizeMethod``."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


FormerResizeMethod.__name__ = FormerResizeMethod.__qualname__ = "ResizeMethod"


def _places(size: int, new: int, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    """Where the pixels of an axis come from, as float32."""
    scale = np.float32((size - 1) / (new - 1) if align_corners and new > 1 else size / new)
    numbers = np.arange(new, dtype=np.float32)
    if half_pixel_centers:
        return (numbers + np.float32(0.5)) * scale - np.float32(0.5)
    return numbers * scale


def _bilinear(places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each of the pixels that one is made of, its number and its weight."""
    below = np.floor(places)
    share = places - below
    first = np.clip(below, 0, size - 1).astype(int)
    second = np.clip(below + 1, 0, size - 1).astype(int)
    return [(first, 1 - share), (second, share)]


def _bicubic(a: float, places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """As `_bilinear`, with the kernel whose parameter is ``a``."""
    below = np.floor(places)
    step = np.rint((places - below) * _STEPS)

    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        x = x + 1
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    right, left = step / _STEPS, (_STEPS - step) / _STEPS
    weights = [far(right), near(right), near(left), far(left)]
    numbers = [below + offset for offset in (-1, 0, 1, 2)]
    return [
        (np.clip(number, 0, size - 1).astype(int), weight.astype(np.float32))
        for number, weight in zip(numbers, weights, strict=True)
    ]


def _sampled(xp: Any, images: Any, axes: list[list[tuple[np.ndarray, np.ndarray]]]) -> Any:
    """Images ``(batch, height, width, channels)`` of sums along the two axes of space."""
    found = images.astype(np.float32)
    for axis, parts in zip((2, 1), reversed(axes), strict=True):
        sizes = [1] * 4
        sizes[axis] = -1
        found = sum(
            xp.take(found, numbers, axis) * weights.reshape(sizes) for numbers, weights in parts
        )
    return found


def _resizing(
    images: Any,
    size: Any,
    align_corners: bool,
    half_pixel_centers: bool,
    parts: Callable[[np.ndarray, int], list[tuple[np.ndarray, np.ndarray]]],
) -> Tensor:
    array = convert(images)
    if array.ndim != 4:
        raise ValueError(f"images must have 4 dimensions, got {tuple(array.shape)}")
    sizes = [int(each) for each in np.asarray(static(size))]
    if align_corners and half_pixel_centers:
        raise ValueError("If half_pixel_centers is True, align_corners must be False.")
    axes = [
        parts(_places(array.shape[1 + axis], new, align_corners, half_pixel_centers), before)
        for axis, (new, before) in enumerate(zip(sizes, array.shape[1:3], strict=True))
    ]
    if is_jax(array):
        return Tensor(compute(functools.partial(_sampled, jnp, axes=axes), array))
    return Tensor(_sampled(np, array, axes))


def resize_bilinear(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: Any = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of another size, bilinear.

    Args:
        images: ``(batch, height, width, channels)``.
        size: the new height and width.
        align_corners: whether the centers of the corners' pixels stay.
        name: no effect.
        half_pixel_centers: whether pixels are squares, as in TensorFlow 2.

    Returns:
        float32, ``(batch, *size, channels)``.

    Raises:
        ValueError: of images of another rank, or with both options.
    """
    return _resizing(images, size, align_corners, half_pixel_centers, _bilinear)


def resize_bicubic(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: Any = None,
    half_pixel_centers: bool = False,
) -> Any:
    """Images of another size, bicubic; see `resize_bilinear`."""
    if half_pixel_centers:
        return _in_tensorflow_2(images, size, "bicubic")
    parts = functools.partial(_bicubic, -0.75)
    return _resizing(images, size, align_corners, False, parts)


def resize_nearest_neighbor(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: Any = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Images of another size, of their nearest pixels, in their dtype; see `resize_bilinear`."""

    def nearest(places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
        if half_pixel_centers:
            places = places + np.float32(0.5)
        chosen = np.floor(places + 0.5) if align_corners else np.floor(places)
        return [(np.clip(chosen, 0, size - 1).astype(int), np.ones(len(places), np.float32))]

    array = convert(images)
    found = _resizing(images, size, align_corners, half_pixel_centers, nearest)
    return Tensor(convert(found).astype(array.dtype))


def resize_area(images: Any, size: Any, align_corners: bool = False, name: Any = None) -> Any:
    """Images of another size, of means over areas; see `resize_bilinear`.

    Raises:
        NotImplementedError: with ``align_corners``.
    """
    if align_corners:
        raise NotImplementedError("resize_area(align_corners=True): use resize_bilinear")
    return _in_tensorflow_2(images, size, "area")


def _in_tensorflow_2(images: Any, size: Any, method: str, **options: Any) -> Any:
    target: Any = table.find("image.resize")
    return target.load()(images, size, method, **options)


_METHODS: dict[int, Callable[..., Any]] = {
    FormerResizeMethod.BILINEAR: resize_bilinear,
    FormerResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    FormerResizeMethod.BICUBIC: resize_bicubic,
    FormerResizeMethod.AREA: resize_area,
}
_NAMES = {"bilinear": 0, "nearest": 1, "bicubic": 2, "area": 3}


def resize(
    images: Any,
    size: Any,
    method: Any = FormerResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: Any = None,
) -> Any:
    """Images of another size, as ``tf.compat.v1.image.resize``, or ``resize_images``.

    Args:
        images: ``(batch, height, width, channels)``, or ``(height, width, channels)``.
        size: the new height and width.
        method: one of `FormerResizeMethod`, or TensorFlow 2's name of it.
        align_corners: whether the centers of the corners' pixels stay.
        preserve_aspect_ratio: whether height and width keep their proportion, and ``size`` is the
            largest that they may become.
        name: no effect.

    Returns:
        float32; images that have the size already, and those of ``NEAREST_NEIGHBOR``, keep their
        dtype.

    Raises:
        ValueError: the method is unknown, or the images' rank.
    """
    array = convert(images)
    if array.ndim not in (3, 4):
        raise ValueError("'images' must have either 3 or 4 dimensions.")
    chosen = _METHODS.get(_NAMES.get(method, method) if not isinstance(method, list) else -1)
    if chosen is None:
        raise ValueError(f"Resize method is not implemented: {method}")
    sizes = np.asarray(static(size))
    if sizes.shape != (2,):
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    before = np.asarray(array.shape[-3:-1])
    if preserve_aspect_ratio:
        sizes = np.rint(np.min(sizes / before) * before).astype(int)
    if (sizes == before).all():
        return Tensor(array)
    batched = Tensor(array if array.ndim == 4 else array[None])
    found = chosen(batched, sizes, align_corners=align_corners)
    return found if array.ndim == 4 else found[0]


def draw_bounding_boxes(images: Any, boxes: Any, name: Any = None, colors: Any = None) -> Any:
    """Images with boxes drawn; by default in TensorFlow's ten colors, in turn.

    Args:
        images: floats ``(batch, height, width, channels)``.
        boxes: ``(batch, n, 4)``: top, left, bottom, right, as shares.
        name: no effect.
        colors: ``(m, channels)``.
    """
    target: Any = table.find("image.draw_bounding_boxes")
    return target.load()(images, boxes, colors)
