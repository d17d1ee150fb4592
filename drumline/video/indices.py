"""Which frames of a sequence to take. Where it is too short it begins again."""

from __future__ import annotations

from typing import Any

import numpy as np


def strided(length: int, num_steps: int, stride: int, fraction: float) -> np.ndarray:
    """``num_steps`` frames, each ``stride`` after the one before: int64 (num_steps,).

    Args:
        length: of the sequence, at least 1.
        num_steps: how many frames.
        stride: from one to the next.
        fraction: in [0, 1): where the first one is, among the places from which all frames lie
            within the sequence, or among all if there is none.
    """
    start = first_place(length, num_steps, stride, fraction, np)
    return (int(start) + np.arange(num_steps) * stride) % length


def linspace(length: int, num_windows: int, num_steps: int, stride: int) -> np.ndarray:
    """The frames of windows at equal distances: int64 (num_windows * num_steps,)."""
    last = max(0, length - num_steps * stride)
    starts = np.linspace(0.0, last, num_windows, dtype=np.float32).astype(np.int64)
    return ((starts[:, None] + np.arange(num_steps) * stride) % length).reshape(-1)


def first_place(length: int, num_steps: int, stride: int, fraction: Any, numbers: Any) -> Any:
    """The first frame for a fraction, computed by numpy or ``jax.numpy`` (``numbers``)."""
    span = (num_steps - 1) * stride
    places = length - span if length > span else length
    place = numbers.floor(numbers.asarray(fraction, np.float32) * np.float32(places))
    return numbers.minimum(place, places - 1).astype(np.int32)
