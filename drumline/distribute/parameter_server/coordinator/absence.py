"""Telling the user of a worker that does not come."""

from __future__ import annotations

import logging
import time

_log = logging.getLogger("drumline")


class Absence:
    """How long a worker was not reached; a warning names it, once.

    Args:
        worker: its name.
        seconds: after which to warn.
    """

    def __init__(self, worker: str, seconds: float) -> None:
        self._worker = worker
        self._seconds = seconds
        self._since: float | None = None
        self._told = False

    def note(self, reason: str) -> None:
        """It was not reached just now."""
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= self._seconds and not self._told:
            self._told = True
            _log.warning(
                "%s was not reached for %.0f s (%s). It is tried again and again; meanwhile the "
                "others run all closures, if there are any.",
                self._worker,
                now - self._since,
                reason,
            )

    def over(self) -> None:
        """It was reached."""
        self._since, self._told = None, False
