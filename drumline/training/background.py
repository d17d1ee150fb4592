"""The thread that writes what steps and loops record, which wait neither for device nor disk.

Entries are written in the order in which they came, a few at a time. An array among them may still
be being computed: the thread waits for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from drumline._forks import at_exit, tell_in_child

_MOST_BYTES = 256 << 20
"""How many bytes of arrays wait at most."""

_PAUSE = 0.05
"""Seconds for which summaries are gathered: a thread that wakes for each costs the loop more."""


class QueuedWrite(Protocol):
    """Something to be written."""

    nbytes: int

    def write(self) -> None:
        """Write it; keeps its error for who asks."""


class Background:
    """A queue of entries, and the thread that writes them, which begins with the first."""

    def __init__(self) -> None:
        self._report: Callable[[], None] | None = None
        self._ends_with_process = False
        self.forked()
        tell_in_child(self)

    def before_exit(self, report: Callable[[], None]) -> None:
        """Have `report` called when the process ends and all has been written."""
        self._report = report

    def forked(self) -> None:
        """See `Forked`: the parent writes what waits."""
        self._waiting: deque[QueuedWrite] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._put = self._written = self._asked = 0
        self._nbytes = 0
        self._ends = False

    def put(self, entry: QueuedWrite, *, may_wait: bool = True) -> None:
        """Have `entry` written.

        Args:
            entry: what is written.
            may_wait: whether to wait while too much waits already. What a device's callback brings
                must not: an entry before it may wait for that device.
        """
        with self._changed:
            while may_wait and self._nbytes > _MOST_BYTES:
                self._asked = self._put
                self._changed.notify_all()
                self._changed.wait()
            self._waiting.append(entry)
            self._nbytes += entry.nbytes
            self._put += 1
            if self._thread is None:
                self._start()
            elif len(self._waiting) == 1:
                self._changed.notify_all()

    def drain(self) -> None:
        """Return when all that was put before has been written, or has failed."""
        with self._changed:
            upto = self._asked = self._put
            self._changed.notify_all()
            while self._written < upto:
                self._changed.wait()

    def _start(self) -> None:
        if not self._ends_with_process:
            self._ends_with_process = True
            at_exit(self._end)
        self._thread = threading.Thread(target=self._work, name="drumline summaries", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        """Let the thread end: one that frees arrays while Python ends would crash the process."""
        self.drain()
        with self._changed:
            thread, self._thread = self._thread, None
            self._ends = True
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        self._ends = False
        if self._report is not None:
            self._report()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._ends:
                        return
                    self._changed.wait()
                if self._asked <= self._written:
                    self._changed.wait(_PAUSE)
                entries, self._waiting = self._waiting, deque()
            count, nbytes = len(entries), sum(entry.nbytes for entry in entries)
            while entries:
                entries.popleft().write()
            with self._changed:
                self._written += count
                self._nbytes -= nbytes
                self._changed.notify_all()


background = Background()
