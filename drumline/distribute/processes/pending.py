"""Steps that have been started and whose results nobody may be waiting for yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Pending = Callable[[], "tuple[float, int] | None"]
"""Gives the oldest step that has not ended: when it started (`time.monotonic`), and its number."""

_LOOKS = 8
"""How often to look within the time that a step may take."""


class PendingSteps:
    """Looks whether steps end in time, wherever the program is meanwhile.

    Args:
        bark: called with a step's number and its time when it took longer.
    """

    def __init__(self, bark: Callable[[int, float], object]) -> None:
        self._bark = bark
        self._sources: list[Pending] = []

    def any(self) -> bool:
        """Whether a step is under way."""
        return any(source() is not None for source in self._sources)

    def add(self, source: Pending, timeout_seconds: float | None) -> None:
        """Watch the steps of `source`; without a limit they only count as under way."""
        self._sources.append(source)
        if timeout_seconds is not None:
            threading.Thread(
                target=self._watch,
                args=(source, timeout_seconds),
                name="drumline-steps",
                daemon=True,
            ).start()

    def _watch(self, source: Pending, seconds: float) -> None:
        while True:
            time.sleep(seconds / _LOOKS)
            oldest = source()
            if oldest is not None and time.monotonic() - oldest[0] > seconds:
                self._bark(oldest[1], seconds)
