"""Cropping, padding, mirroring and turning, as ``tf.image``: one native operation for all."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline import random
from drumline._core import arrange_images
from drumline._lazy import jax, jnp
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply, is_symbol
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.image import columns as col

TRANSPOSED, UPSIDE_DOWN, MIRRORED = 1, 2, 4


@dataclasses.dataclass(frozen=True)
class Arrange(NativeOperation):
    """Images to windows of them, zeros beyond their edges; then transposed, turned over, mirrored.

    A second argument, integers (5,), says for each where the window begins, its height and width
    (-1: to the end of the image), and the sum of what is done.

    Attributes:
        called: the name of the function for which this is done.
        height: of all results, if known.
        width: likewise.
        rule: ``"within"`` if windows must lie in their images, ``"around"`` if images must lie in
            their windows, or ``""``.
    """

    called: str
    height: int | None
    width: int | None
    rule: str = ""

    @property
    def name(self) -> str:
        """As users know it."""
        return f"image.{self.called}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Images of the known size, or of any."""
        spec = col.image_spec(arguments[0], self.name)
        return col.one((self.height, self.width, spec.shape[2]), spec.dtype)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Copies pixels on all cores."""
        images = col.contiguous(columns[0])
        placements = np.array(columns[1], np.int64).reshape(n, 5)
        shapes = np.array([image.shape for image in images], np.int64).reshape(n, 3)
        rest = shapes[:, :2] - placements[:, :2]
        placements[:, 2:4] = np.where(placements[:, 2:4] < 0, rest, placements[:, 2:4])
        good = self._first_bad(shapes[:, :2], placements[:, :2], placements[:, 2:4])
        made = self._arranged(images[:good], placements[:good], images[0])
        if good == n:
            return OperationResult((made,))
        (top, left, height, width, _), shape = placements[good], shapes[good]
        what = (
            f"{self.name}: the window of {height} x {width} pixels at ({top}, {left}) does not "
            f"fit an image of {shape[0]} x {shape[1]}"
        )
        return OperationResult((made,), ValueError(what))

    def _arranged(self, images: Any, placements: np.ndarray, like: np.ndarray) -> Column:
        found = arrange_images(images, placements.tolist())
        made = [image.view(like.dtype) for image in found]
        if self.width is None:
            return made
        if self.height is None:
            # A column of arrays of which the first dimension alone varies is ragged.
            splits = np.cumsum([0, *map(len, made)])
            none = np.empty((0, self.width, like.shape[2]), like.dtype)
            return RaggedArray(np.concatenate([none, *made]), splits)
        out = col.empty(len(made), (self.height, self.width, like.shape[2]), like.dtype)
        if made:
            np.stack(made, out=out)
        return out

    def _first_bad(self, shapes: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> int:
        bad = sizes < 1
        if self.rule == "within":
            bad |= (starts < 0) | (starts + sizes > shapes)
        if self.rule == "around":
            bad |= (starts > 0) | (starts + sizes < shapes)
        found = np.flatnonzero(bad.any(axis=1) & (self.rule != ""))
        return int(found[0]) if len(found) else len(shapes)


def arranged(
    called: str,
    image: Any,
    place: Sequence[Any] = (0, 0, -1, -1),
    turn: Any = 0,
    size: tuple[int | None, int | None] = (None, None),
    rule: str = "",
) -> Any:
    """The native operation on an image of varying shape, or of numpy."""
    numbers = [*place, turn]
    traced = any(not isinstance(number, int | np.integer) for number in numbers)
    given = jnp.stack([jnp.asarray(n, jnp.int32) for n in numbers]) if traced else numbers
    return apply(Arrange(called, *size, rule), image, given)


def shape_of(image: Any) -> Any:
    """(height, width, channels): Python numbers, or an array where the shape varies."""
    if is_symbol(image) and None in image.shape:
        return apply(ShapeOf(), image)
    return tuple(image.shape)


@dataclasses.dataclass(frozen=True)
class ShapeOf(NativeOperation):
    """Images to their shapes."""

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.shape"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Three integers."""
        col.image_spec(arguments[0], self.name)
        return col.one((3,), np.int32)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Looks at shapes."""
        return OperationResult(
            (np.array([image.shape for image in columns[0]], np.int32).reshape(n, 3),)
        )


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


def flip_left_right(image: Any) -> Any:
    """The image with its columns in reverse order, or each image of a batch.

    Args:
        image: (height, width, channels) or (n, height, width, channels).

    Raises:
        ValueError: it has other dimensions.
    """
    return _turned("flip_left_right", image, MIRRORED)


def flip_up_down(image: Any) -> Any:
    """The image with its rows in reverse order, or each image of a batch.

    Args, raises: as `flip_left_right`.
    """
    return _turned("flip_up_down", image, UPSIDE_DOWN)


def transpose(image: Any, name: str | None = None) -> Any:
    """The image with rows and columns exchanged, or each image of a batch.

    Args, raises: as `flip_left_right`.
    """
    return _turned("transpose", image, TRANSPOSED)


_QUARTERS = (0, TRANSPOSED + UPSIDE_DOWN, UPSIDE_DOWN + MIRRORED, TRANSPOSED + MIRRORED)


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Any:
    """The image turned by ``k`` quarters, counter-clockwise, or each image of a batch.

    Args, raises: as `flip_left_right`. Where an element says ``k``, batches of images that are not
    square are turned in Python: no operation makes batches of images whose shape varies.
    """
    if not isinstance(k, jax.core.Tracer):
        return _turned("rot90", image, _QUARTERS[int(k) % 4])
    height, width = image.shape[-3:-1]
    square = height is not None and height == width
    if is_symbol(image) or (not square and len(image.shape) == 3):
        side = height if square else None
        turn = jnp.array(_QUARTERS, jnp.int32)[k % 4]
        return arranged("rot90", image, turn=turn, size=(side, side))
    if not square:
        raise ValueNeedsPython("rot90 by such a k changes the shape of the image", varying=True)
    turned = [jnp.asarray(_turned("rot90", image, turn)) for turn in _QUARTERS]
    return jax.lax.select_n((k % 4).astype(jnp.int32), *turned)


def random_flip_left_right(image: Any, seed: int | None = None) -> Any:
    """`flip_left_right` of every second image or so, as ``tf.image.random_flip_left_right``."""
    return _by_chance("random_flip_left_right", image, MIRRORED, seed)


def random_flip_up_down(image: Any, seed: int | None = None) -> Any:
    """`flip_up_down` of every second image or so, as ``tf.image.random_flip_up_down``."""
    return _by_chance("random_flip_up_down", image, UPSIDE_DOWN, seed)


def _by_chance(called: str, image: Any, turn: int, seed: int | None) -> Any:
    if len(np.shape(image) if not hasattr(image, "shape") else image.shape) == 4:
        flips = random.bernoulli(0.5, (image.shape[0], 1, 1, 1), seed)
        return jnp.where(flips, _turned(called, image, turn), image)
    flip = random.bernoulli(0.5, seed=seed)
    if is_symbol(image) or not isinstance(flip, jax.core.Tracer):
        number = flip.astype(jnp.int32) * turn
        return arranged(called, image, turn=number, size=tuple(image.shape[:2]))
    return jnp.where(flip, _turned(called, image, turn), image)


def _turned(called: str, image: Any, turn: int) -> Any:
    if is_symbol(image):
        height, width = image.shape[:2]
        size = (width, height) if turn & TRANSPOSED else (height, width)
        return arranged(called, image, turn=turn, size=size)
    array = image if isinstance(image, jax.Array) else np.asarray(image)
    if array.ndim not in (3, 4):
        raise ValueError(f"{called}: an image has 3 dimensions, a batch 4; got {array.shape}")
    if turn & TRANSPOSED:
        array = array.swapaxes(-3, -2)
    if turn & UPSIDE_DOWN:
        array = array[..., ::-1, :, :]
    return array[..., ::-1, :] if turn & MIRRORED else array
