"""Random windows for augmentation, as ``tf.image.sample_distorted_bounding_box``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drumline import random
from drumline._lazy import jax, jnp
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult


class DistortedBoundingBox(NamedTuple):
    """A window: ``begin`` (row, column, 0), ``size`` (height, width, -1), and ``bboxes`` float32
    (1, 1, 4): top, left, bottom and right as parts of the image."""

    begin: Any
    size: Any
    bboxes: Any


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any = None,
    seed: int | None = None,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> DistortedBoundingBox:
    """A window of random size, form and place, as ``tf.image.sample_distorted_bounding_box``.

    Args:
        image_size: integers (3,): height, width, channels.
        bounding_boxes: float (1, n, 4): top, left, bottom, right of objects, in [0, 1].
        seed: in place of the operation's.
        min_object_covered: the part of at least one object that must lie in the window.
        aspect_ratio_range: of width to height; 0.75 to 1.33 by default.
        area_range: as parts of the image's; 0.05 to 1 by default.
        max_attempts: how many windows are drawn, 100 by default; if none fits, the window is the
            image.
        use_image_if_no_bounding_boxes: whether without objects all of the image is one; false by
            default.

    Raises:
        ValueError: an argument is none of these.
    """
    low, high = map(float, (0.75, 1.33) if aspect_ratio_range is None else aspect_ratio_range)
    least, most = map(float, (0.05, 1.0) if area_range is None else area_range)
    attempts = 100 if max_attempts is None else max_attempts
    if not (0 < low <= high and 0 < least <= most <= 1 and attempts > 0):
        raise ValueError(
            f"sample_distorted_bounding_box: aspect_ratio_range {aspect_ratio_range}, area_range "
            f"{area_range} and max_attempts {attempts} must be positive and rise, areas to 1"
        )
    boxes = _boxes(bounding_boxes, bool(use_image_if_no_bounding_boxes))
    size = jnp.asarray(image_size, jnp.int32)[:2]
    drawn = random.uniform((4, attempts), seed=seed)
    covered = float(min_object_covered)
    return DistortedBoundingBox(*_chosen(drawn, size, boxes, (low, high), (least, most), covered))


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _chosen(
    drawn: jax.Array,
    size: jax.Array,
    boxes: jax.Array,
    ratios: tuple[float, float],
    areas: tuple[float, float],
    covered: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The first of the windows drawn that fits, or the image."""
    height, width = size[0], size[1]
    window, fits = _candidates(drawn, size, ratios, areas)
    fits &= _covers(window, boxes * jnp.stack([height, width] * 2), covered)
    first = jnp.argmax(fits)
    whole = jnp.stack([jnp.int32(0), jnp.int32(0), height, width])
    found = jnp.where(fits[first], window[first], whole).astype(jnp.int32)
    parts = found / jnp.stack([height, width] * 2).astype(jnp.float32)
    begin = jnp.concatenate([found[:2], jnp.zeros(1, jnp.int32)])
    end = jnp.concatenate([found[2:] - found[:2], jnp.full(1, -1, jnp.int32)])
    return begin, end, parts.astype(jnp.float32)[None, None]


@functools.partial(jax.jit, static_argnums=(2, 3))
def _candidates(
    drawn: jax.Array, size: jax.Array, ratios: tuple[float, float], areas: tuple[float, float]
) -> tuple[jax.Array, jax.Array]:
    """Windows (attempts, 4), top to right, and which of them are of a size that is allowed."""
    height, width = size[0], size[1]
    tall, wide = _sizes(drawn[:2], height, width, ratios, areas)
    top = jnp.floor(drawn[2] * (height - tall + 1)).astype(jnp.int32)
    left = jnp.floor(drawn[3] * (width - wide + 1)).astype(jnp.int32)
    area = tall * wide / (height * width).astype(jnp.float32)
    fits = (tall > 0) & (wide > 0) & (tall <= height) & (wide <= width)
    fits &= (area >= areas[0] * (1 - 1e-3)) & (area <= areas[1] * (1 + 1e-3))
    return jnp.stack([top, left, top + tall, left + wide], -1), fits


def _boxes(boxes: Any, use_image: bool) -> Any:
    shape = None if boxes is None else np.shape(boxes)
    if shape is not None and (len(shape) != 3 or shape[0] != 1 or shape[2] != 4):
        raise ValueError(
            f"sample_distorted_bounding_box: bounding_boxes must be (1, n, 4), got shape {shape}"
        )
    if shape is None or shape[1] == 0:
        if not use_image:
            raise ValueError(
                "sample_distorted_bounding_box: there are no bounding_boxes; pass some, or "
                "use_image_if_no_bounding_boxes=True"
            )
        return jnp.array([[0.0, 0.0, 1.0, 1.0]])
    return jnp.asarray(boxes, jnp.float32)[0]


def _sizes(
    drawn: jax.Array,
    height: jax.Array,
    width: jax.Array,
    ratios: tuple[float, float],
    areas: tuple[float, float],
) -> tuple[jax.Array, jax.Array]:
    """Heights evenly spread between the smallest and the largest with an area that is allowed."""
    ratio = ratios[0] + drawn[0] * (ratios[1] - ratios[0])
    pixels = (height * width).astype(jnp.float32)
    smallest = jnp.round(jnp.sqrt(areas[0] * pixels / ratio))
    largest = jnp.minimum(jnp.sqrt(areas[1] * pixels / ratio), height.astype(jnp.float32))
    largest = jnp.floor(jnp.minimum(largest, (width + 0.4999) / ratio))
    smallest = jnp.minimum(smallest, largest)
    tall = smallest + jnp.floor(drawn[1] * (largest - smallest + 1))
    return tall.astype(jnp.int32), jnp.round(tall * ratio).astype(jnp.int32)


def _covers(window: jax.Array, boxes: jax.Array, least: float) -> jax.Array:
    low = jnp.maximum(window[:, None, :2], boxes[None, :, :2])
    high = jnp.minimum(window[:, None, 2:], boxes[None, :, 2:])
    shared = jnp.prod(jnp.maximum(high - low, 0), -1)
    whole = jnp.prod(boxes[:, 2:] - boxes[:, :2], -1)
    return jnp.any(shared >= least * whole[None] * (1 - 1e-6), -1)


def candidate_windows(
    image_size: Any,
    aspect_ratio_range: tuple[float, float] = (0.75, 1.33),
    area_range: tuple[float, float] = (0.05, 1.0),
    max_attempts: int = 100,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Windows among which `FirstCovering` chooses, where elements have any number of objects.

    Args:
        image_size: integers (2,) or (3,): height and width.
        aspect_ratio_range: as the following, of `sample_distorted_bounding_box`.

    Returns:
        int32 (max_attempts, 4), top, left, bottom and right; bool (max_attempts,): which of them
        are of a form and size that is allowed.
    """
    size = jnp.asarray(image_size, jnp.int32)[:2]
    drawn = random.uniform((4, max_attempts), seed=seed)
    return _candidates(drawn, size, aspect_ratio_range, area_range)


@dataclasses.dataclass(frozen=True)
class FirstCovering(NativeOperation):
    """From candidates (attempts, 4), whether each may be, the image's size, and objects' corners.

    Corners are four arrays float32 (None,), of as many numbers: top, left, bottom and right of
    objects, in [0, 1]. Where there are none, the image is an object. Gives int32 (4,), top, left,
    height and width, of the first candidate that covers enough of an object, or of the image.

    Attributes:
        covered: the part of an object that has to lie in the window.
    """

    covered: float

    @property
    def name(self) -> str:
        """As users know it."""
        return "image.sample_distorted_bounding_box"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Top, left, height, width."""
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((4,), np.int32),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Chooses for all rows together."""
        windows, fits, size = (np.asarray(column) for column in columns[:3])
        boxes, rows, wrong = _objects(columns[3:], n)
        n = n if wrong is None else wrong[0]
        error = None if wrong is None else ValueError(wrong[1])
        if n == 0:
            return OperationResult((np.empty((0, 4), np.int32),), error)
        boxes, windows, fits, size = boxes[rows < n], windows[:n], fits[:n], size[:n]
        rows = rows[rows < n]
        whole = np.concatenate([np.zeros_like(size), size], -1)
        # Each row's image counts as one more object, where it has no other.
        alone = np.bincount(rows, minlength=n) == 0
        pixels = (boxes * np.tile(size[rows], 2).astype(np.float32)).astype(np.int32)
        rows = np.concatenate([rows, np.flatnonzero(alone)])
        order = np.argsort(rows, kind="stable")
        pixels, rows = np.concatenate([pixels, whole[alone]])[order], rows[order]
        covers = _covered(windows[rows], pixels, self.covered)
        covers = np.logical_or.reduceat(covers, np.searchsorted(rows, np.arange(n)), axis=0)
        fits = fits & covers
        found = windows[np.arange(n), fits.argmax(-1)]
        found = np.where(fits.any(-1)[:, None], found, whole).astype(np.int32)
        found[:, 2:] -= found[:, :2]
        return OperationResult((found,), error)


def _objects(
    corners: Sequence[Column], n: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, str] | None]:
    """Boxes (total, 4), the row of each, and the first row that is wrong."""
    if not corners:
        return np.empty((0, 4), np.float32), np.empty(0, np.int64), None
    lengths = np.stack([column.row_lengths() for column in corners])  # type: ignore[union-attr]
    uneven = np.flatnonzero((lengths != lengths[0]).any(0))
    n = int(uneven[0]) if len(uneven) else n
    ends = [column.row_splits for column in corners]  # type: ignore[union-attr]
    values = [
        column.values[splits[0] : splits[n]]  # type: ignore[union-attr]
        for column, splits in zip(corners, ends, strict=True)
    ]
    boxes = np.stack(values, -1).astype(np.float32)
    rows = np.repeat(np.arange(n), lengths[0, :n])
    outside = np.flatnonzero(~((boxes >= 0) & (boxes <= 1)).all(-1))
    if len(outside):
        box = boxes[outside[0]].tolist()
        return boxes, rows, (int(rows[outside[0]]), f"the box {box} does not lie in [0, 1]")
    if len(uneven):
        counts = lengths[:, n].tolist()
        return boxes, rows, (n, f"boxes have {counts} numbers: tops, lefts, bottoms, rights")
    return boxes, rows, None


def _covered(windows: np.ndarray, objects: np.ndarray, least: float) -> np.ndarray:
    """Which windows (n, attempts, 4) cover enough of objects int (n, 4), as TensorFlow counts."""
    low = np.maximum(windows[..., :2], objects[:, None, :2])
    high = np.minimum(windows[..., 2:], objects[:, None, 2:])
    shared = np.maximum(high - low, 0).prod(-1).astype(np.float32)
    areas = (objects[:, 2:] - objects[:, :2]).prod(-1)
    part = shared / np.maximum(areas, 1).astype(np.float32)[:, None]
    return (areas >= 1)[:, None] & (part >= np.float32(least))
