"""Threads that are kept for the next task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from drumline._forks import tell_in_child
from drumline.data.execute.leaving import waited_for


class PooledThreads:
    """At most ``most`` threads, each begun when there is a task and none that is idle.

    A ``ThreadPoolExecutor`` would do, but that Python ends it before a program can tell its tasks
    to end: it would do all that wait, and refuse those of threads that the program waits for.

    Args:
        most: how many threads.
        name: theirs, before a number.
    """

    def __init__(self, most: int, name: str):
        self._most = most
        self._name = name
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._waiting = 0
        self._ended = False
        self._lock = threading.Lock()
        waited_for(self)
        tell_in_child(self)

    def forked(self) -> None:
        """Lets a child begin threads of its own; what waits here is done by its parent's."""
        self._tasks = SimpleQueue()
        self._threads = []
        self._idle = self._waiting = 0
        self._lock = threading.Lock()

    def submit(self, fn: Callable[[], None], /) -> None:
        """Has ``fn()`` called by a thread; it must not raise.

        Raises:
            RuntimeError: after ``shutdown``, or if the system allows no thread at all.
        """
        with self._lock:
            if self._ended:
                raise RuntimeError("the threads of this dataset's stages have been ended")
            if self._idle:
                self._idle -= 1
            elif len(self._threads) == self._most or not self._begin():
                self._waiting += 1
            self._tasks.put(fn)

    def shutdown(self) -> None:
        """Ends the threads once nothing waits; may be called wherever garbage is collected."""
        self._ended = True
        self._tasks.put(None)

    def join(self) -> None:
        """``shutdown``, and waits for the threads; however long the calls that run may take."""
        self.shutdown()
        for thread in self._threads:
            thread.join()

    def _begin(self) -> bool:
        """Begins a thread; false if there may be no further one."""
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # Too many, or it is the end of the program: those that there are do the work.
            if not self._threads:
                raise
            return False
        self._threads.append(thread)
        return True

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            # What it refers to must not live until the next task comes.
            del task
            with self._lock:
                if self._waiting:
                    self._waiting -= 1
                else:
                    self._idle += 1
        # For the next thread.
        self._tasks.put(None)
