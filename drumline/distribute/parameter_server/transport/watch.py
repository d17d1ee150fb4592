"""One thread that notices peers which have fallen silent."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

_log = logging.getLogger("drumline")

TICK_SECONDS = 0.5
_SUSPENDED_SECONDS = 1.0


class Watched(Protocol):
    """Something that hears of a peer now and then."""

    def check(self, now: float) -> None:
        """Act if nothing was heard for too long. `now` is of `Clock.now`."""


class Watch:
    """Checks what was added, twice a second, in a thread that lives while there is anything.

    Its clock stands still while this process is suspended, so that nobody is taken for silent by
    one who was not there to hear.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._members: set[Watched] = set()
        self._thread: threading.Thread | None = None
        self._lost = 0.0

    def now(self) -> float:
        """Seconds of this process's life, without those in which it was suspended."""
        return time.monotonic() - self._lost

    def add(self, member: Watched) -> None:
        """Check `member` from now on."""
        with self._changed:
            self._members.add(member)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="drumline-watch", daemon=True
                )
                self._thread.start()

    def remove(self, member: Watched) -> None:
        """Check `member` no more; nothing if it is not checked."""
        with self._changed:
            self._members.discard(member)
            self._changed.notify_all()

    def _run(self) -> None:
        before = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._members, TICK_SECONDS)
                if not self._members:
                    self._thread = None
                    return
                members = list(self._members)
            now = time.monotonic()
            if now - before > _SUSPENDED_SECONDS:
                self._lost += now - before
            before = now
            for member in members:
                try:
                    member.check(self.now())
                except Exception:  # whatever one has, the others are to be watched
                    _log.exception("A connection could not be checked")


watch = Watch()
"""This process's."""
