"""Copies of many rows, divided among as many threads as is allowed."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from drumline._core import gather_rows

PIECE = 1 << 19
"""Bytes; copies from 1 << 20 on would be divided among all cores."""


def gather(source: np.ndarray, index: np.ndarray, out: np.ndarray, threads: int | None) -> None:
    """Copies the rows of ``source`` (n, width) at ``index`` (k,) to ``out`` (k, width), bytes.

    Args:
        source: uint8, contiguous.
        index: int64.
        out: uint8, contiguous.
        threads: the most that may copy at once; ``None`` for all cores.
    """
    if threads is None or out.nbytes < 2 * PIECE:
        gather_rows(source, index, out)
        return
    rows = max(1, PIECE // source.shape[1])
    starts = range(0, len(index), rows)
    if threads == 1:
        _copy(source, index, out, rows, starts)
        return
    shares = [starts[i::threads] for i in range(threads)]
    list(_threads(threads).map(lambda share: _copy(source, index, out, rows, share), shares))


def _copy(
    source: np.ndarray, index: np.ndarray, out: np.ndarray, rows: int, starts: Sequence[int]
) -> None:
    for start in starts:
        gather_rows(source, index[start : start + rows], out[start : start + rows])


@functools.cache
def _threads(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "drumline-copy")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of these threads
