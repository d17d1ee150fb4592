"""A part as it is at one moment, read while updates go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

PIECE_BYTES = 16 << 20
"""How much of a table is copied at a time, which updates of it wait for."""

Piece = tuple[str, np.ndarray]


class ArraysSnapshot:
    """Arrays that nobody writes any more.

    Args:
        arrays: by name.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays

    def pieces(self) -> Iterator[Piece]:
        """All bytes of the arrays, by name, each array's in order."""
        for name, array in self._arrays.items():
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for start in range(0, len(content), PIECE_BYTES):
                yield name, content[start : start + PIECE_BYTES]


class RowsSnapshot:
    """The rows of arrays as they are now. `preserve` is called before some of them change.

    Rows that change before they were read are kept aside, each once.

    Args:
        lock: held by those who change rows, and now.
        arrays: rows of bytes by name, as many in each.
    """

    def __init__(self, lock: threading.Lock, arrays: Mapping[str, np.ndarray]) -> None:
        self._lock = lock
        self._arrays = dict(arrays)
        self._rows = len(next(iter(self._arrays.values())))
        self._read = 0
        self._is_kept = np.zeros(self._rows, np.bool_)
        self._kept: list[tuple[np.ndarray, list[np.ndarray]]] = []

    def preserve(self, ids: np.ndarray) -> None:
        """Keep rows that are about to change; the lock is held."""
        new = ids[(ids >= self._read) & ~self._is_kept[ids]]
        if len(new):
            self._is_kept[new] = True
            self._kept.append((new, [array[new] for array in self._arrays.values()]))

    def pieces(self) -> Iterator[Piece]:
        """All bytes of the arrays, by name, each array's in order. The lock is not held."""
        width = sum(array.shape[1] for array in self._arrays.values())
        count = max(PIECE_BYTES // max(width, 1), 1)
        for start in range(0, self._rows, count):
            stop = min(start + count, self._rows)
            with self._lock:
                copies = [array[start:stop].copy() for array in self._arrays.values()]
                kept = list(self._kept)
                self._read = stop
            _put_back(copies, kept, start, stop)
            yield from zip(self._arrays, copies, strict=True)


def _put_back(
    copies: Sequence[np.ndarray],
    kept: Sequence[tuple[np.ndarray, list[np.ndarray]]],
    start: int,
    stop: int,
) -> None:
    for ids, rows in kept:
        here = (ids >= start) & (ids < stop)
        if here.any():
            for copy, old in zip(copies, rows, strict=True):
                copy[ids[here] - start] = old[here]


Snapshot = ArraysSnapshot | RowsSnapshot
