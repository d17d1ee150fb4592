"""Checksums of what a pipeline delivered, of its order and of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)


def order_digest(batches: Iterable[Any]) -> str:
    """A digest of batches of integers, in order and with the boundaries between batches."""
    digest = hashlib.sha256()
    for batch in batches:
        array = np.ascontiguousarray(np.asarray(batch), dtype="<i8")
        digest.update(len(array).to_bytes(8, "little"))
        digest.update(array.tobytes())
    return digest.hexdigest()


def batch_evidence(batches: Iterable[Any]) -> dict[str, Any]:
    """The digest of one epoch's batches in order, and the dtypes that occurred."""
    arrays = [np.array(batch) for batch in batches]
    return {"order": order_digest(arrays), "dtypes": _dtypes(arrays)}


def shaped_batch_evidence(batches: Iterable[Any]) -> dict[str, Any]:
    """The digest of one epoch's batches and their shapes in order, and the dtypes that occurred."""
    arrays = [np.array(batch) for batch in batches]
    parts = [part for array in arrays for part in (np.array(array.shape), array.reshape(-1))]
    return {"order": order_digest(parts), "dtypes": _dtypes(arrays)}


def _dtypes(arrays: Iterable[NDArray[Any]]) -> list[str]:
    return sorted({str(array.dtype) for array in arrays})


def image_evidence(batches: Iterable[tuple[Any, Any]], levels_per_unit: float) -> dict[str, Any]:
    """What one epoch of (images, labels) delivered, where label i marks source element i.

    Pixels stand for whole numbers from 0 to 255; frameworks may round a division
    differently in the last bit, so the whole numbers are digested and the greatest distance
    from them is reported beside the digest.

    Args:
        batches: pairs of images (n, height, width, 1), float32, and labels (n,), int64.
        levels_per_unit: 1 for pixels from 0 to 255, 255 for pixels from 0 to 1.

    Returns:
        ``content``: a digest of the (image, label) pairs that does not depend on their order;
        ``max_error``: the greatest distance of a pixel from its whole number; ``dtypes``;
        ``order``: the digest of the order; ``once``: whether every element came exactly once;
        ``displacement``: the mean distance between an element's place and its place in the
        source, as a share of the length (1/3 for a full shuffle); ``batch_sizes``: the sizes
        that occurred, in order of first occurrence.
    """
    total = 0
    max_error = 0.0
    dtypes: set[str] = set()
    places: list[NDArray[np.int64]] = []
    for images, labels in batches:
        pixels, ids = np.asarray(images), np.array(labels)
        dtypes.add(f"{pixels.dtype}, {ids.dtype}")
        levels = np.rint(pixels.astype(np.float64) * levels_per_unit)
        error = np.abs(pixels.astype(np.float64) - levels / levels_per_unit)
        max_error = max(max_error, float(error.max(initial=0.0)))
        total = (total + _sum_of_rows(levels.astype(np.uint8), ids)) % 2**64
        places.append(ids)
    order = np.concatenate(places)
    source = np.arange(len(order))
    return {
        "content": f"{total:016x}",
        "max_error": max_error,
        "dtypes": sorted(dtypes),
        "order": order_digest(places),
        "once": bool(np.array_equal(np.sort(order), source)),
        "displacement": float(np.abs(order - source).mean() / len(order)),
        "batch_sizes": list(dict.fromkeys(len(ids) for ids in places)),
    }


def _sum_of_rows(levels: NDArray[np.uint8], ids: NDArray[np.int64]) -> int:
    rows = np.ascontiguousarray(levels).reshape(len(levels), -1)
    words = rows.view("<u8") if rows.shape[1] % 8 == 0 else rows.astype(np.uint64)
    weights = _mix(np.arange(1, words.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    hashes = _mix((words * weights).sum(axis=1, dtype=np.uint64) ^ _mix(ids.astype(np.uint64)))
    return int(hashes.sum(dtype=np.uint64))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = values * _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_A
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_B
    return mixed ^ (mixed >> np.uint64(31))


def weights_digest(weights: Iterable[Any]) -> str:
    """A digest of a model's weights, in order, as 32-bit floats."""
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(np.ascontiguousarray(weight, dtype="<f4").tobytes())
    return digest.hexdigest()
