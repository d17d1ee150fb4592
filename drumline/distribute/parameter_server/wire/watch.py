"""One thread that notices peers which have fallen silent."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from drumline._changes import in_forked_child

_log = logging.getLogger("drumline")

_LONGEST_INTERVAL = 0.5
_SHORTEST_INTERVAL = 0.05
_SUSPENDED_SECONDS = 1.0


class Watched(Protocol):
    """Something that a peer shows now and then that it lives.

    Attributes:
        interval: seconds from one check to the next, at most.
    """

    interval: float

    def check(self, now: float) -> None:
        """Act if nothing was heard for too long. `now` is of `Clock.now`."""


class Watch:
    """Checks what was added, twice a second or more often, in a thread that lives while there is
    anything.

    Its clock stands still while this process is suspended, so that no peer is taken for silent
    while it was this process that did not listen.
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
            self._changed.notify_all()
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

    def forget(self) -> None:
        """Check nothing more, in a forked child: its parent's connections are not its own.

        It has no thread, and its lock may be held for good.
        """
        self._changed = threading.Condition()
        self._members = set()
        self._thread = None

    def _run(self) -> None:
        before = time.monotonic()
        while True:
            with self._changed:
                interval = min((m.interval for m in self._members), default=0.0)
                if self._members:
                    self._changed.wait(interval)
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


def beat_interval(silence_seconds: float, theirs: object) -> float:
    """How often two sides tell each other that they live, in seconds.

    Args:
        silence_seconds: after which this side gives the other one up.
        theirs: the same of the other side, as it says.
    """
    if isinstance(theirs, int | float) and theirs > 0:
        silence_seconds = min(silence_seconds, theirs)
    return max(_SHORTEST_INTERVAL, min(_LONGEST_INTERVAL, silence_seconds / 5))


watch = Watch()
"""This process's."""

# A forked child has neither its parent's connections nor the thread.
in_forked_child(watch.forget, "a child has not this thread")
