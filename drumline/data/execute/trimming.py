"""Memory that ``malloc`` keeps after it was freed, given back to the system between epochs.

``malloc`` has memory for each thread. What one thread takes and another one frees leaves holes in
it, which get more from epoch to epoch.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_GROWTH = 1.01
_SHARE = 500
"""Looking and trimming may take one part in so many of the time."""


class Trimmer:
    """Trims once the process is larger than it was at the end of an earlier epoch.

    Args:
        resident: gives the size of the process, in bytes.
        trim: gives free memory back to the system.
        clock: seconds.
    """

    def __init__(
        self,
        resident: Callable[[], int],
        trim: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._resident = resident
        self._trim = trim
        self._clock = clock
        self._usual: int | None = None
        self._not_before = 0.0
        self._lock = threading.Lock()

    def epoch_ended(self) -> None:
        """Hears that an epoch of some dataset has ended."""
        started = self._clock()
        if started < self._not_before or not self._lock.acquire(blocking=False):
            return
        try:
            self._look()
        finally:
            self._not_before = started + _SHARE * (self._clock() - started)
            self._lock.release()

    def _look(self) -> None:
        size = self._resident()
        if self._usual is None:
            self._usual = size
        elif size > _GROWTH * self._usual:
            self._trim()
            # What is left is in use.
            self._usual = max(self._usual, self._resident())


def _nothing() -> None:
    """Where memory cannot be given back, nothing is looked at either."""


def _at_epochs_end() -> Callable[[], None]:
    if not sys.platform.startswith("linux"):
        return _nothing
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return _nothing
    statm, page = Path("/proc/self/statm"), os.sysconf("SC_PAGE_SIZE")
    if not statm.exists():
        return _nothing
    trimmer = Trimmer(lambda: int(statm.read_text().split()[1]) * page, lambda: trim(0))
    return trimmer.epoch_ended


epoch_ended = _at_epochs_end()
"""Hears that an epoch of some dataset has ended."""
