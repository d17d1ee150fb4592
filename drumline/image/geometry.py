"""Parts of images, and images with zeros around them, as ``tf.image``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data import random
from drumline.data.native.apply import is_symbol
from drumline.image.arranging import arranged, shape_of


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Any:
    """A part of an image, as ``tf.image.crop_to_bounding_box``.

    Args:
        image: (height, width, channels) or (n, height, width, channels).
        offset_height: the first row.
        offset_width: the first column.
        target_height: the number of rows; a Python integer, for the shape to be known.
        target_width: the number of columns, likewise. Of a batch both must be Python integers.

    Raises:
        ValueError: the part does not lie in the image; ``IndexError`` where an element says the
            offsets of a part of an image of known shape.
    """
    offsets, size = (offset_height, offset_width), (target_height, target_width)
    if is_symbol(image) or _varies(size):
        place = (*offsets, *size)
        return arranged("crop_to_bounding_box", image, place, size=_static(size), rule="within")
    height, width = _whole("crop_to_bounding_box", size)
    array = _checked("crop_to_bounding_box", image)
    if _varies(offsets):
        return _window(array, offsets, (height, width))
    top, left = _whole("crop_to_bounding_box", offsets)
    rows, columns = array.shape[-3:-1]
    fits = 0 <= top <= rows - height and 0 <= left <= columns - width
    if height < 1 or width < 1 or not fits:
        raise ValueError(
            f"crop_to_bounding_box: {height} x {width} pixels from ({top}, {left}) on do not lie "
            f"in an image of {rows} x {columns}"
        )
    return array[..., top : top + height, left : left + width, :]


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Any:
    """An image with zeros around it, as ``tf.image.pad_to_bounding_box``.

    Args:
        image: (height, width, channels) or (n, height, width, channels).
        offset_height: how many rows of zeros come before.
        offset_width: how many columns of zeros come before.
        target_height: the number of rows then; a Python integer, for the shape to be known.
        target_width: the number of columns, likewise. Of a batch both must be Python integers.

    Raises:
        ValueError: the image does not fit into it; ``IndexError`` where an element says the offsets
            of an image of known shape.
    """
    offsets, size = (offset_height, offset_width), (target_height, target_width)
    if is_symbol(image) or _varies(size):
        place = (-1 * offset_height, -1 * offset_width, *size)
        return arranged("pad_to_bounding_box", image, place, size=_static(size), rule="around")
    array = _checked("pad_to_bounding_box", image)
    height, width = _whole("pad_to_bounding_box", size)
    rows, columns = array.shape[-3:-1]
    if _varies(offsets) and rows <= height and columns <= width:
        # All places the image could have, in one array of zeros around it.
        room = (height - rows, width - columns)
        around = [(0, 0)] * (array.ndim - 3) + [(free, free) for free in room] + [(0, 0)]
        starts = [free - offset for free, offset in zip(room, offsets, strict=True)]
        return _window(jnp.pad(array, around), starts, (height, width))
    top, left = (0, 0) if _varies(offsets) else _whole("pad_to_bounding_box", offsets)
    below, right = height - top - rows, width - left - columns
    if min(top, left, below, right) < 0:
        raise ValueError(
            f"pad_to_bounding_box: an image of {rows} x {columns} does not fit into {height} x "
            f"{width} pixels from ({top}, {left}) on"
        )
    widths = [(0, 0)] * (array.ndim - 3) + [(top, below), (left, right), (0, 0)]
    return (jnp if isinstance(array, jax.Array) else np).pad(array, widths)


def resize_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Any:
    """The middle of an image, or zeros around it, as ``tf.image.resize_with_crop_or_pad``.

    Args:
        image: (height, width, channels) or (n, height, width, channels).
        target_height: rows of the result.
        target_width: columns of the result.

    Raises:
        ValueError: an argument is none of these.
    """
    size = _whole("resize_with_crop_or_pad", (target_height, target_width))
    if min(size) < 1:
        raise ValueError(f"resize_with_crop_or_pad: the size must be positive, got {size}")
    shape = shape_of(image) if is_symbol(image) else _checked("crop_or_pad", image).shape[-3:]
    offsets = [_centered(shape[axis], size[axis]) for axis in (0, 1)]
    if is_symbol(image):
        return arranged(
            "resize_with_crop_or_pad", image, (*offsets, *size), size=(size[0], size[1])
        )
    kept = [min(size[axis], shape[axis]) for axis in (0, 1)]
    part = crop_to_bounding_box(image, *(max(offset, 0) for offset in offsets), *kept)
    return pad_to_bounding_box(part, *(max(-offset, 0) for offset in offsets), *size)


def _centered(have: Any, want: int) -> Any:
    """Where a centered window begins: before the image, if it is larger. Halves round down."""
    if isinstance(have, int):
        return (have - want) // 2 if have >= want else -((want - have) // 2)
    return jnp.where(have >= want, (have - want) // 2, -((want - have) // 2))


def central_crop(image: Any, central_fraction: float) -> Any:
    """The middle of an image, as ``tf.image.central_crop``.

    Args:
        image: (height, width, channels) or (n, height, width, channels).
        central_fraction: of height and width, more than 0 and at most 1.

    Raises:
        ValueError: the fraction is not such.
    """
    fraction = float(central_fraction)
    if not 0 < fraction <= 1:
        raise ValueError(f"central_crop: central_fraction must be in (0, 1], got {fraction}")
    if fraction == 1:
        return image
    shape = shape_of(image) if is_symbol(image) else _checked("central_crop", image).shape[-3:]
    starts = [_central_start(shape[axis], fraction) for axis in (0, 1)]
    sizes = [shape[axis] - 2 * starts[axis] for axis in (0, 1)]
    if is_symbol(image):
        return arranged("central_crop", image, (*starts, *sizes))
    return crop_to_bounding_box(image, *starts, *sizes)


def _central_start(count: Any, fraction: float) -> Any:
    if isinstance(count, int):
        return int((count - count * fraction) / 2)
    return ((count - count * fraction) / 2).astype(jnp.int32)


def random_crop(
    value: Any, size: Sequence[int], seed: int | None = None, name: str | None = None
) -> Any:
    """A part of an image from a random place, as ``tf.image.random_crop``.

    Args:
        value: (height, width, channels); of fixed shapes with any dimensions.
        size: integers, one for each dimension.
        seed: in place of the operation's.

    Raises:
        ValueError: the part is larger than the value.
    """
    wanted = tuple(map(operator.index, size))
    shape = tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
    if len(wanted) != len(shape):
        raise ValueError(f"random_crop: size {wanted} has not the dimensions of {shape}")
    if any(have is not None and have < want for have, want in zip(shape, wanted, strict=True)):
        raise ValueError(f"random_crop: {wanted} does not fit into {shape}")
    if not is_symbol(value):
        limits = np.array(shape) - np.array(wanted) + 1
        starts = random.uniform((len(shape),), 0, limits, np.int32, seed)
        if isinstance(starts, jax.core.Tracer) or isinstance(value, jax.core.Tracer):
            return jax.lax.dynamic_slice(value, list(starts), wanted)
        pairs = zip(np.asarray(starts).tolist(), wanted, strict=True)
        return value[tuple(slice(start, start + want) for start, want in pairs)]
    have = shape_of(value)
    if shape[2] != wanted[2]:
        raise ValueError(f"random_crop: the image has {shape[2]} channels, size says {wanted[2]}")
    limits = jnp.stack([have[0] - wanted[0], have[1] - wanted[1]]) + 1
    starts = random.uniform((2,), 0, jnp.maximum(limits, 1), np.int32, seed)
    place = (starts[0], starts[1], *wanted[:2])
    return arranged("random_crop", value, place, size=(wanted[0], wanted[1]), rule="within")


def _window(array: Any, starts: Sequence[Any], size: tuple[int, int]) -> Any:
    """The pixels from traced places on; places they do not lie at are out of bounds."""
    # A start below 0 would count from the end: from beyond it on, it is out of bounds.
    pairs = zip(starts, array.shape[-3:-1], strict=True)
    within = [jnp.where(start < 0, end, start) for start, end in pairs]
    whole = [*array.shape[:-3], *size, array.shape[-1]]
    return jax.lax.dynamic_slice(array, [*[0] * (array.ndim - 3), *within, 0], whole)


def _varies(numbers: Sequence[Any]) -> bool:
    return any(isinstance(number, jax.core.Tracer) for number in numbers)


def _checked(called: str, image: Any) -> Any:
    array = image if isinstance(image, jax.Array) else np.asarray(image)
    if array.ndim not in (3, 4):
        raise ValueError(f"{called}: an image has 3 dimensions, a batch 4; got {array.shape}")
    return array


def _whole(called: str, numbers: Sequence[Any]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(np.asarray(number)[()]) for number in numbers)
    except TypeError:
        raise ValueError(f"{called}: offsets and sizes must be integers, got {numbers}") from None


def _static(size: Sequence[Any]) -> tuple[int | None, int | None]:
    height, width = (None if isinstance(n, jax.core.Tracer) else int(n) for n in size)
    return height, width
