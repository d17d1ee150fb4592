"""Memory that two processes share, of any size and without a name.

It is a memfd: it vanishes with the processes that hold it, however they end.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

_ALIGNMENT = 64
_HEADER = 64
_SMALLEST = 1 << 16

Placed = tuple[str, tuple[int, ...], int]
"""An array in the memory: dtype, shape and offset in bytes."""


class SharedBuffer:
    """One process writes arrays into it, the other reads them; they take turns.

    Args:
        fd: of the memory; a new one is made by default.
    """

    def __init__(self, fd: int | None = None):
        self.fd = os.memfd_create("drumline-map") if fd is None else fd
        if os.fstat(self.fd).st_size == 0:
            os.ftruncate(self.fd, _SMALLEST)
        self._memory = self._mapped()

    def _mapped(self) -> np.ndarray:
        size = os.fstat(self.fd).st_size
        # The array keeps the mapping for as long as anything refers to it.
        return np.frombuffer(mmap.mmap(self.fd, size), np.uint8)

    @property
    def progress(self) -> int:
        """A number that either process may set at any time."""
        return int(self._memory[:8].view(np.int64)[0])

    @progress.setter
    def progress(self, value: int) -> None:
        self._memory[:8].view(np.int64)[0] = value

    def write(self, columns: Sequence[Any]) -> tuple[list[Placed | None], list[Any]]:
        """Copies numeric arrays in. Returns where they are, ``None`` for the others, and those."""
        offsets, end = [], _HEADER
        for column in columns:
            offsets.append(end)
            if _plain(column):
                end += -(-column.nbytes // _ALIGNMENT) * _ALIGNMENT
        if end > len(self._memory):
            os.ftruncate(self.fd, max(end, 2 * len(self._memory)))
            self._memory = self._mapped()
        placed: list[Placed | None] = []
        others = []
        for column, offset in zip(columns, offsets, strict=True):
            if _plain(column):
                place = (column.dtype.str, column.shape, offset)
                self._view(place, column.dtype)[...] = column
                placed.append(place)
            else:
                placed.append(None)
                others.append(column)
        return placed, others

    def read(
        self, placed: Sequence[Placed | None], others: Sequence[Any], dtypes: Sequence[np.dtype]
    ) -> list[Any]:
        """Copies out what the other process wrote; ``dtypes`` are its arrays'."""
        rest = iter(others)
        columns = []
        for place, dtype in zip(placed, dtypes, strict=True):
            if place is None:
                columns.append(next(rest))
            else:
                columns.append(self._view(place, dtype).copy())
        return columns

    def _view(self, place: Placed, dtype: np.dtype) -> np.ndarray:
        _, shape, offset = place
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if offset + nbytes > len(self._memory):
            self._memory = self._mapped()
        return self._memory[offset : offset + nbytes].view(dtype).reshape(shape)

    def close(self) -> None:
        """Gives the memory back once nobody refers to it."""
        os.close(self.fd)


def _plain(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype != object
