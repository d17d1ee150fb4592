"""Random numbers by position."""

from __future__ import annotations

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def bits(key: int, positions: np.ndarray) -> np.ndarray:
    """64 random bits for each position of the stream that ``key`` names.

    The stream is splitmix64 (Steele, Lea and Flood, 2014) from the state ``key``, of which the
    n-th number can be had without the others.

    Returns:
        uint64, of the shape of ``positions``.
    """
    state = positions.astype(np.uint64)
    state += np.uint64(1)
    state *= _GAMMA
    state += np.uint64(key)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        state ^= state >> np.uint64(shift)
        state *= factor
    state ^= state >> np.uint64(31)
    return state


def uniform(key: int, start: int, count: int) -> np.ndarray:
    """The numbers at the positions ``start`` to ``start + count`` of a stream in [0, 1).

    Returns:
        float64 (count,).
    """
    positions = np.arange(start, start + count, dtype=np.uint64)
    return (bits(key, positions) >> np.uint64(11)) * 2.0**-53
