"""How many elements to ask for at once."""

from __future__ import annotations

import time

TARGET_BYTES = 2 << 20
"""What a block may hold. Handing one over wakes a thread, which takes as long as copying some
hundred kilobytes."""

MAX_ELEMENTS = 16_384
_FAST = 0.002
_SLOW = 0.008


class Ramp:
    """Starts with one element, which so arrives at once, and doubles while blocks are quick.

    It decides only how elements travel together, never what they are.
    """

    def __init__(self, row_nbytes: int):
        self._limit = 1
        self._most = max(1, min(MAX_ELEMENTS, TARGET_BYTES // max(1, row_nbytes)))
        self._started = 0.0

    def learn(self, row_nbytes: float) -> None:
        """Asks for fewer elements at once, since they are larger than was known."""
        self._most = max(1, min(self._most, int(TARGET_BYTES // row_nbytes)))

    def start(self, granule: int) -> int:
        """Notes the time and returns the number of elements to ask a stage of ``granule`` for."""
        self._started = time.perf_counter()
        limit = min(self._limit, max(self._most, granule))
        return limit - limit % granule if limit > granule else limit

    def stop(self) -> None:
        """Adapts to how long the block took since ``start``."""
        elapsed = time.perf_counter() - self._started
        if elapsed < _FAST:
            self._limit = min(self._limit * 2, MAX_ELEMENTS)
        elif elapsed > _SLOW:
            self._limit = max(1, self._limit // 2)
