"""Random numbers by position."""

from __future__ import annotations

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def uniform(key: int, start: int, count: int) -> np.ndarray:
    """The numbers at the positions ``start`` to ``start + count`` of a stream in [0, 1).

    The stream is splitmix64 (Steele, Lea and Flood, 2014) from the state ``key``, of which the
    n-th number can be had without the others.

    Returns:
        float64 (count,).
    """
    state = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    state *= _GAMMA
    state += np.uint64(key)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        state ^= state >> np.uint64(shift)
        state *= factor
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)) * 2.0**-53
