"""How many closures a worker is given at a time."""

from __future__ import annotations

import time

FEWEST = 3
PIPELINED = 5
"""One whose gradients are on their way, one that computes, one that has its rows, one that asks for
them in the message with those gradients, and one between the chief and the worker."""

MOST = 512
_ON_HAND_SECONDS = 0.01
_PIPELINED_SECONDS = 0.1
_WEIGHT = 0.2


class Pace:
    """Keeps a worker busy for about 10 ms: few closures of long steps, many of short ones.

    Steps that are not long get as many as it takes to ask for rows without a message for that
    alone, if they are done within 100 ms. A worker that is slow is given few, so that the others
    run the rest.
    """

    def __init__(self) -> None:
        self._seconds = _ON_HAND_SECONDS
        self._last = time.monotonic()

    @property
    def on_hand(self) -> int:
        """How many closures the worker is to have."""
        seconds = max(self._seconds, 1e-7)
        pipelined = min(PIPELINED, int(_PIPELINED_SECONDS / seconds))
        return max(FEWEST, pipelined, min(MOST, int(_ON_HAND_SECONDS / seconds)))

    @property
    def at_once(self) -> int:
        """How many closures to give in one message.

        It is answered as a whole: several smaller ones keep the worker busy, very small ones cost.
        """
        return max(1, self.on_hand // 3)

    def started(self) -> None:
        """The worker gets closures after it had none."""
        self._last = time.monotonic()

    def finished(self, closures: int) -> None:
        """The worker has run so many more."""
        now = time.monotonic()
        each = (now - self._last) / closures
        self._last = now
        self._seconds += _WEIGHT * (each - self._seconds)
