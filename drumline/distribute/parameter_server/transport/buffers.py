"""Memory for received arrays: aligned, and used again once nobody can see it."""

from __future__ import annotations

import math

import numpy as np

from drumline.data.runtime.buffers import ALIGNMENT, BufferPool

_KEPT = 64 << 20
_BYTES = np.dtype(np.uint8)


class Buffers:
    """Hands out byte arrays at 64-byte aligned addresses.

    Those of 16 kB to 64 MB come from a pool, in eight sizes for each power of two, so that arrays
    of slightly different lengths share buffers.
    """

    def __init__(self) -> None:
        self._pool = BufferPool(max_buffers=8)

    def take(self, nbytes: int) -> np.ndarray:
        """`nbytes` bytes, uninitialised.

        Raises:
            MemoryError: if there are not as many.
        """
        if 16 * 1024 <= nbytes <= _KEPT:
            return self._pool.empty((rounded(nbytes),), _BYTES)[:nbytes]
        return aligned(nbytes)


def aligned(nbytes: int) -> np.ndarray:
    """`nbytes` fresh bytes at an aligned address."""
    base = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address_of(base) % ALIGNMENT
    return base[start : start + nbytes]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A fresh array at an aligned address."""
    return aligned(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def padded(nbytes: int) -> int:
    """What lies behind so many bytes, and is aligned."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def address_of(array: np.ndarray) -> int:
    """Where its data begins. Quicker than ``array.ctypes``."""
    return int(array.__array_interface__["data"][0])


def rounded(nbytes: int) -> int:
    """The next of eight sizes for each power of two."""
    step = max(64, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step
