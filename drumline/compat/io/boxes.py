"""``tf.image``: boxes in images, which are chosen by their scores, cut out, or drawn."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.ops.arrays import static_array
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_traced, static
from drumline.compat.values.errors import EndOfSequenceError, InvalidArgumentError
from drumline.compat.values.tensor import Tensor

Overlap = Callable[[int, int], float]


class CombinedBoxes(NamedTuple):
    """The boxes that `combined_non_max_suppression` keeps.

    Attributes:
        nmsed_boxes: ``(batch, boxes, 4)``.
        nmsed_scores: ``(batch, boxes)``, the highest first.
        nmsed_classes: ``(batch, boxes)``, as floats.
        valid_detections: ``(batch,)``: how many of the boxes there are; the rest is zeros.
    """

    nmsed_boxes: Any
    nmsed_scores: Any
    nmsed_classes: Any
    valid_detections: Any


CombinedBoxes.__name__ = CombinedBoxes.__qualname__ = "CombinedNonMaxSuppression"


def _overlaps(boxes: np.ndarray) -> Overlap:
    """The intersection of two boxes divided by their union."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = np.prod(high - low, 1)

    def overlap(one: int, other: int) -> float:
        if areas[one] <= 0 or areas[other] <= 0:
            return 0.0
        sides = np.minimum(high[one], high[other]) - np.maximum(low[one], low[other])
        shared = float(np.prod(np.maximum(sides, 0)))
        return shared / float(areas[one] + areas[other] - shared)

    return overlap


def _chosen(
    scores: np.ndarray, overlap: Overlap, count: int, most: float, least: float, sigma: float = 0.0
) -> tuple[list[int], list[float]]:
    """The boxes of the highest scores that overlap no better one, and their scores.

    With a `sigma` scores fall by overlaps instead (Bodla et al. 2017).
    """
    queue = [(-float(score), place, 0) for place, score in enumerate(scores) if score > least]
    heapq.heapify(queue)
    kept: list[int] = []
    values: list[float] = []
    while queue and len(kept) < count:
        negative, place, seen = heapq.heappop(queue)
        score, hidden = -negative, False
        for other in reversed(kept[seen:]):
            shared = overlap(place, other)
            if sigma > 0:
                score *= float(np.exp(-0.5 / sigma * shared * shared))
            elif shared > most:
                hidden = True
                break
            if score <= least:
                break
        if hidden:
            continue
        if score == -negative:
            kept.append(place)
            values.append(score)
        elif score > least:
            heapq.heappush(queue, (-score, place, len(kept)))
    return kept, values


def _check(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            None, None, f"boxes (n, 4) and scores (n,) are needed: {boxes.shape}, {scores.shape}"
        )
    if not 0 <= threshold <= 1:
        raise InvalidArgumentError(None, None, f"iou_threshold must be in [0, 1], not {threshold}")


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: Any = None,
) -> Tensor:
    """The numbers of the best boxes of which none overlaps a better one.

    Args:
        boxes: ``(n, 4)``: two opposite corners of each, y before x.
        scores: ``(n,)``.
        max_output_size: how many are kept at most.
        iou_threshold: the overlap up to which both are kept, as a share of their union.
        score_threshold: boxes of this score and less are passed over.
        name: accepted.

    Raises:
        InvalidArgumentError: the shapes do not fit, or the threshold is no share.
    """
    return non_max_suppression_with_scores(
        boxes, scores, max_output_size, iou_threshold, score_threshold
    )[0]


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: Any = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, with the scores, which fall by overlaps if there is a sigma."""
    found, values = static_array(boxes), static_array(scores)
    limit = float(static(iou_threshold))
    _check(found, values, limit)
    places, made = _chosen(
        values,
        _overlaps(found),
        int(static(max_output_size)),
        limit,
        float(static(score_threshold)),
        float(static(soft_nms_sigma)),
    )
    return Tensor(np.asarray(places, np.int32)), Tensor(np.asarray(made, values.dtype))


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: Any = None,
) -> Tensor:
    """As `non_max_suppression`, of overlaps ``(n, n)`` that are given.

    Raises:
        InvalidArgumentError: there is not an overlap for each two scores.
    """
    shared, values = static_array(overlaps), static_array(scores)
    if shared.shape != (len(values), len(values)):
        raise InvalidArgumentError(
            None, None, f"overlaps of shape {shared.shape} do not fit {len(values)} scores"
        )
    places, _ = _chosen(
        values,
        lambda one, other: float(shared[one, other]),
        int(static(max_output_size)),
        float(static(overlap_threshold)),
        float(static(score_threshold)),
    )
    return Tensor(np.asarray(places, np.int32))


def _on_host(function: Callable[..., Any], results: Any, *arrays: Any) -> Any:
    """A function of numpy's arrays; in compiled functions by a call of the host."""
    if any(map(is_traced, arrays)):
        return jax.pure_callback(
            lambda *given: function(*map(np.asarray, given)),
            results,
            *arrays,
            vmap_method="sequential",
        )
    return function(*(np.asarray(each) for each in arrays))


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: Any = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, of boxes ``(..., n, 4)``, and how many are kept of each batch.

    Args:
        boxes: see `non_max_suppression`.
        scores: ``(..., n)``.
        max_output_size: see `non_max_suppression`.
        iou_threshold: see `non_max_suppression`.
        score_threshold: see `non_max_suppression`.
        pad_to_max_output_size: whether zeros are added, which batches need.
        name: accepted.
        sorted_input: accepted: that the scores fall already.
        canonicalized_coordinates: accepted: that the first corner is the smaller one.
        tile_size: accepted: it says how TensorFlow computes it.
    """
    found, values = convert(boxes), convert(scores)
    count, limit = int(static(max_output_size)), float(static(iou_threshold))
    least = float(static(score_threshold))
    if not pad_to_max_output_size:
        if len(found.shape) > 2:
            raise ValueError("'pad_to_max_output_size' must be True for batched input")
        kept = non_max_suppression(found, values, count, limit, least)
        return kept, Tensor(np.asarray(len(kept), np.int32))
    leading = tuple(found.shape[:-2])

    def computed(boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.zeros((*leading, count), np.int32)
        sizes = np.zeros(leading, np.int32)
        for batch in np.ndindex(*leading):
            _check(boxes[batch], scores[batch], limit)
            kept, _ = _chosen(scores[batch], _overlaps(boxes[batch]), count, limit, least)
            places[batch][: len(kept)] = kept
            sizes[batch] = len(kept)
        return places, sizes

    results = [jax.ShapeDtypeStruct((*leading, count), np.int32)]
    results += [jax.ShapeDtypeStruct(leading, np.int32)]
    places, sizes = _on_host(computed, tuple(results), found, values)
    return Tensor(places), Tensor(sizes)


def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: Any = None,
) -> CombinedBoxes:
    """The best boxes of each class, of which none overlaps a better one of its class.

    Args:
        boxes: ``(batch, n, classes, 4)``, or ``(batch, n, 1, 4)`` for all classes.
        scores: ``(batch, n, classes)``.
        max_output_size_per_class: how many boxes of a class are kept at most.
        max_total_size: how many of all.
        iou_threshold: see `non_max_suppression`.
        score_threshold: see `non_max_suppression`.
        pad_per_class: whether as many boxes are given as all classes could have, if these are
            fewer than `max_total_size`.
        clip_boxes: whether the boxes are cut to 0 ... 1.
        name: accepted.
    """
    found, values = convert(boxes), convert(scores)
    each, total = int(static(max_output_size_per_class)), int(static(max_total_size))
    limit, least = float(static(iou_threshold)), float(static(score_threshold))
    batches, _, classes = values.shape
    size = min(total, each * classes) if pad_per_class else total

    def computed(boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, ...]:
        made = [np.zeros((batches, size, *rest), np.float32) for rest in ((4,), (), ())]
        valid = np.zeros(batches, np.int32)
        for batch in range(batches):
            kept: list[tuple[float, int, int]] = []
            for number in range(classes):
                of_class = boxes[batch, :, number if boxes.shape[2] > 1 else 0]
                row = scores[batch, :, number]
                _check(of_class, row, limit)
                places, _ = _chosen(row, _overlaps(of_class), each, limit, least)
                kept += [(-float(row[place]), number, place) for place in places]
            kept.sort(key=lambda one: one[0])
            valid[batch] = min(len(kept), size)
            for row_, (score, number, place) in enumerate(kept[:size]):
                box = boxes[batch, place, number if boxes.shape[2] > 1 else 0]
                made[0][batch, row_] = np.clip(box, 0, 1) if clip_boxes else box
                made[1][batch, row_], made[2][batch, row_] = -score, number
        return (*made, valid)

    shapes = [(batches, size, 4), (batches, size), (batches, size)]
    results: list[Any] = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    results.append(jax.ShapeDtypeStruct((batches,), np.int32))
    return CombinedBoxes(*map(Tensor, _on_host(computed, tuple(results), found, values)))


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: Any = None,
) -> Tensor:
    """Parts of images, all in one size, float32.

    Args:
        image: ``(batch, height, width, channels)``.
        boxes: ``(n, 4)``: y1, x1, y2, x2, as shares of the height and width; what lies outside of
            an image is filled, and a box whose y1 is greater than its y2 is turned over.
        box_indices: ``(n,)``: the number of each box's image.
        crop_size: the height and width of the parts.
        method: ``"bilinear"`` or ``"nearest"``.
        extrapolation_value: of places outside.
        name: accepted.

    Raises:
        InvalidArgumentError: the method is unknown.
        OutOfRangeError: there is no image with a number.
    """
    if method not in ("bilinear", "nearest"):
        raise InvalidArgumentError(None, None, f"method {method!r}: bilinear or nearest")
    rows, columns = (int(size) for size in static(crop_size))
    images, corners, numbers = convert(image), convert(boxes), convert(box_indices)
    if not is_traced(numbers) and np.size(numbers):
        most = np.asarray(numbers)
        if most.min() < 0 or most.max() >= images.shape[0]:
            raise EndOfSequenceError(
                None, None, f"box_index has values outside [0, {images.shape[0]})"
            )

    def computed(images: Any, corners: Any, numbers: Any) -> Any:
        images = jnp.asarray(images, jnp.float32)
        height, width = images.shape[1:3]

        def along(low: Any, high: Any, size: int, count: int) -> Any:
            if count == 1:
                return 0.5 * (low + high)[:, None] * (size - 1)
            step = (high - low) * (size - 1) / (count - 1)
            return low[:, None] * (size - 1) + jnp.arange(count)[None] * step[:, None]

        y = along(corners[:, 0], corners[:, 2], height, rows)
        x = along(corners[:, 1], corners[:, 3], width, columns)
        inside_y, inside_x = (y >= 0) & (y <= height - 1), (x >= 0) & (x <= width - 1)
        inside = inside_y[:, :, None, None] & inside_x[:, None, :, None]

        def at(row: Any, column: Any) -> Any:
            row = jnp.clip(row, 0, height - 1).astype(jnp.int32)
            column = jnp.clip(column, 0, width - 1).astype(jnp.int32)
            return images[jnp.asarray(numbers)[:, None, None], row[:, :, None], column[:, None]]

        if method == "nearest":
            # Halves away from zero, as C rounds.
            found = at(jnp.floor(y + 0.5), jnp.floor(x + 0.5))
        else:
            top, left = jnp.floor(y), jnp.floor(x)
            down, across = (y - top)[:, :, None, None], (x - left)[:, None, :, None]
            bottom, right = jnp.ceil(y), jnp.ceil(x)
            upper = at(top, left) + (at(top, right) - at(top, left)) * across
            lower = at(bottom, left) + (at(bottom, right) - at(bottom, left)) * across
            found = upper + (lower - upper) * down
        return jnp.where(inside, found, jnp.float32(extrapolation_value))

    return Tensor(compute(computed, images, corners, numbers))


_COLORS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)


def draw_bounding_boxes(images: Any, boxes: Any, colors: Any, name: Any = None) -> Tensor:
    """Images with the edges of boxes drawn into them.

    Args:
        images: ``(batch, height, width, 1, 3 or 4)``, floats.
        boxes: ``(batch, n, 4)``: y1, x1, y2, x2, as shares of the height and width.
        colors: ``(m, channels)``, which the boxes have in turn; ten colors by default.
        name: accepted.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    values, corners = convert(images), convert(boxes)
    if len(values.shape) != 4 or corners.shape[:1] != values.shape[:1] or corners.shape[-1] != 4:
        raise InvalidArgumentError(
            None, None, f"boxes of shape {corners.shape} do not fit images of {values.shape}"
        )
    palette = _COLORS if colors is None else static_array(colors)
    palette = palette if len(palette) else _COLORS
    channels = values.shape[-1]
    if channels == 1:
        palette = np.ones((len(palette), 1), np.float32)
    palette = palette[:, :channels]

    def computed(images: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        made = images.copy()
        height, width = images.shape[1:3]
        for batch in range(len(images)):
            for number, box in enumerate(boxes[batch]):
                color = palette[number % len(palette)].astype(images.dtype)
                y1, y2 = (int(float(each) * (height - 1)) for each in (box[0], box[2]))
                x1, x2 = (int(float(each) * (width - 1)) for each in (box[1], box[3]))
                if y1 > y2 or x1 > x2 or y1 >= height or y2 < 0 or x1 >= width or x2 < 0:
                    continue
                rows = slice(max(y1, 0), min(y2, height - 1) + 1)
                columns = slice(max(x1, 0), min(x2, width - 1) + 1)
                for row in (y1, y2):
                    if 0 <= row < height:
                        made[batch, row, columns] = color
                for column in (x1, x2):
                    if 0 <= column < width:
                        made[batch, rows, column] = color
        return made

    shape = jax.ShapeDtypeStruct(values.shape, values.dtype)
    return Tensor(_on_host(computed, shape, values, corners))
