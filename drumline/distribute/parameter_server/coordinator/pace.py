"""How many closures a worker is given at a time."""

from __future__ import annotations

import time

FEWEST = 3
MOST = 512
_ON_HAND_SECONDS = 0.01
_WEIGHT = 0.2


class Pace:
    """Keeps a worker busy for about 10 ms: few closures of long steps, many of short ones.

    A worker that is slow is given few, so that the others run the rest.
    """

    def __init__(self) -> None:
        self._seconds = _ON_HAND_SECONDS
        self._last = time.monotonic()

    @property
    def on_hand(self) -> int:
        """How many closures the worker is to have."""
        return max(FEWEST, min(MOST, int(_ON_HAND_SECONDS / max(self._seconds, 1e-7))))

    def started(self) -> None:
        """The worker gets closures after it had none."""
        self._last = time.monotonic()

    def finished(self, closures: int) -> None:
        """The worker has run so many more."""
        now = time.monotonic()
        each = (now - self._last) / closures
        self._last = now
        self._seconds += _WEIGHT * (each - self._seconds)
