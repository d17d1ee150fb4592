"""Threads that compute for a stage, in a number that may change while they run."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, Generic, Protocol, TypeVar

from drumline.data.execute.leaving import the_end, told_to_leave
from drumline.data.execute.promise import Promise

T = TypeVar("T")

MOST_WORKERS = 64
"""The most threads that a number left to drumline may become; what waits needs many."""


MOST_THREADS = 256
"""The most threads of a stage, however many were asked for."""


class Threads(Protocol):
    """Where tasks run: ``PooledThreads``, or ``DaemonThreads``."""

    def submit(self, fn: Callable[[], None], /) -> Any:
        """Has ``fn()`` called by a thread."""

    def shutdown(self) -> None:
        """Ends the threads, without waiting for them."""


class DaemonThreads:
    """A thread for each task, which the end of the program does not wait for.

    For threads that only wait for other processes: a computation that is torn down with the
    interpreter would crash it.
    """

    def submit(self, fn: Callable[[], None], /) -> None:
        threading.Thread(target=fn, name="drumline-process", daemon=True).start()

    def shutdown(self) -> None:
        """There is nothing to end: each thread ends with its task."""


class Resizable(Protocol):
    """Workers whose number the autotuner may change.

    Attributes:
        width: how many work at once.
        automatic: whether the width is left to drumline.
        most: what width it may choose.
    """

    width: int
    automatic: bool
    most: int

    def describe(self) -> str:
        """How many there are, for ``explain()``."""


class Workers(Generic[T]):
    """At most ``width`` tasks of a stage at once, in the order in which they were given.

    Args:
        threads: where tasks run; other stages may use them too.
        width: how many tasks may run at once.
        automatic: whether the width is left to drumline.
        most: what width it may choose.
        owned: whether to end the threads in ``close``.
    """

    def __init__(
        self,
        threads: Threads,
        width: int,
        automatic: bool = False,
        owned: bool = True,
        most: int = MOST_WORKERS,
    ):
        self.most = most
        self.automatic = automatic
        self._threads = threads
        self._owned = owned
        self._width = width
        self._running = 0
        self._pending: deque[tuple[Promise[T], Callable[[], T]]] = deque()
        self._lock = threading.Lock()
        self._refusal: Callable[[], BaseException] | None = None
        told_to_leave(self)

    @property
    def width(self) -> int:
        """How many tasks may run at once; may be set at any time."""
        return self._width

    @width.setter
    def width(self, width: int) -> None:
        with self._lock:
            self._width = width
            self._start()

    @property
    def unfinished(self) -> int:
        """How many tasks wait or run; one that has just ended may still count."""
        return self._running + len(self._pending)

    def describe(self) -> str:
        """How many there are, for ``explain()``."""
        automatic = " (AUTOTUNE: at present)" if self.automatic else ""
        return f"{self._width} threads{automatic}, in order"

    def submit(self, work: Callable[[], T], first: bool = False) -> Promise[T]:
        """Has ``work`` done, before all other waiting tasks if it is to be the ``first``.

        Raises:
            RuntimeError: the system has no thread, now or when it was asked before: the task for
                which it was asked is not done, and what follows must not seem to go on.
            CancelledError: after ``close``.
            SystemExit: at the end of the program.
        """
        promise: Promise[T] = Promise()
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            if first:
                self._pending.appendleft((promise, work))
            else:
                self._pending.append((promise, work))
            self._start()
        return promise

    def _start(self) -> None:
        idle = min(self._width - self._running, len(self._pending))
        for _ in range(idle):
            self._running += 1
            try:
                self._threads.submit(self._work)
            except RuntimeError as error:
                self._refusal = functools.partial(_same, error)
                raise

    def _work(self) -> None:
        while (task := self._next()) is not None:
            promise, work = task
            try:
                promise.fulfil(work())
            except BaseException as error:
                promise.fail(error)
            # The task's arrays must not live until the next task comes.
            del task, promise, work

    def _next(self) -> tuple[Promise[T], Callable[[], T]] | None:
        with self._lock:
            if self._running > self._width or not self._pending:
                self._running -= 1
                return None
            return self._pending.popleft()

    def close(self) -> None:
        """Starts nothing more; what runs ends by itself."""
        self._stop(CancelledError)
        if self._owned:
            self._threads.shutdown()

    def leave(self) -> None:
        """Starts nothing more, as the program ends."""
        self._stop(the_end)

    def _stop(self, reason: Callable[[], BaseException]) -> None:
        with self._lock:
            self._refusal = reason
            pending = list(self._pending)
            self._pending.clear()
        for promise, _ in pending:
            promise.fail(reason())


def _same(error: BaseException) -> BaseException:
    return error
