"""Random windows for augmentation, as ``tf.image.sample_distorted_bounding_box``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drumline import random
from drumline._lazy import jax, jnp


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
    tall, wide = _sizes(drawn[:2], height, width, ratios, areas)
    top = jnp.floor(drawn[2] * (height - tall + 1)).astype(jnp.int32)
    left = jnp.floor(drawn[3] * (width - wide + 1)).astype(jnp.int32)
    area = tall * wide / (height * width).astype(jnp.float32)
    fits = (tall > 0) & (wide > 0) & (tall <= height) & (wide <= width)
    fits &= (area >= areas[0] * (1 - 1e-3)) & (area <= areas[1] * (1 + 1e-3))
    window = jnp.stack([top, left, top + tall, left + wide], -1)
    fits &= _covers(window, boxes * jnp.stack([height, width] * 2), covered)
    first = jnp.argmax(fits)
    whole = jnp.stack([jnp.int32(0), jnp.int32(0), height, width])
    found = jnp.where(fits[first], window[first], whole).astype(jnp.int32)
    parts = found / jnp.stack([height, width] * 2).astype(jnp.float32)
    begin = jnp.concatenate([found[:2], jnp.zeros(1, jnp.int32)])
    end = jnp.concatenate([found[2:] - found[:2], jnp.full(1, -1, jnp.int32)])
    return begin, end, parts.astype(jnp.float32)[None, None]


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
