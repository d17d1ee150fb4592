"""Threads that compute for stages, in a number that may change, and how they end.

Python waits for the threads that are not daemons, calls what ``atexit`` knows, and takes the
interpreter down. All threads of datasets are daemons, so that a thread of the user's that Python
waits for finds them at work, and are ended here. `ReadLimiter` bounds how many datasets are read at
once by the threads that read ahead.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from queue import SimpleQueue
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from drumline._changes import in_forked_child, note
from drumline._forks import tell_in_child
from drumline.data.elements.block import Block
from drumline.data.runtime.meter import Meter

T = TypeVar("T")


class Promise(Generic[T]):
    """The future result of a task of a stage's workers.

    Unlike ``concurrent.futures.Future`` it has no callbacks and no list of waiters: creating these
    takes longer, and holds the GIL for longer, than many a task.
    """

    __slots__ = ("_error", "_under_way", "_value")

    _value: T

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._under_way = threading.Lock()
        self._under_way.acquire()

    def fulfil(self, value: T) -> None:
        """Set the result; this or ``fail`` is called once."""
        self._value = value
        self._under_way.release()

    def fail(self, error: BaseException) -> None:
        """Set the exception that the task raised, or why the task will not run."""
        self._error = error
        self._under_way.release()

    @property
    def done(self) -> bool:
        """Whether there is a result; may be false while ``result`` runs."""
        return not self._under_way.locked()

    def result(self) -> T:
        """Wait for the task, and return its result.

        Raises:
            BaseException: what the task raised, or why it was never started.
        """
        with self._under_way:
            if self._error is None:
                return self._value
        try:
            raise self._error
        finally:
            # The error's traceback has this frame, which would keep the error.
            del self


GRACE_SECONDS = 2.0
"""How long to wait for the user's code to return, which may also block forever."""

_STEP_SECONDS = 0.05
_SHORT_STEP_SECONDS = 0.002
_NATIVE = ("drumline", "jax", "jaxlib", "numpy")


class Stoppable(Protocol):
    """An object that starts tasks on threads."""

    def request_stop(self) -> None:
        """Stop starting tasks. Never blocks; idempotent."""


class Joinable(Protocol):
    """An object that owns threads."""

    def join(self) -> None:
        """Wait for the threads, for at most as long as an exit of the interpreter requires.

        Called after ``request_stop`` of everything that is registered.
        """


def stop_at_exit(thing: Stoppable) -> None:
    """Register ``thing`` to be stopped at interpreter exit, at once if that has begun.

    Only a weak reference is held.
    """
    _register_exit()
    _stoppables[id(thing)] = thing
    # In this order, as the exit may begin in between.
    if _exiting.is_set():
        thing.request_stop()


def join_at_exit(thing: Joinable) -> None:
    """Register ``thing``, by a weak reference, to be joined at interpreter exit."""
    _register_exit()
    _joinables[id(thing)] = thing


def interpreter_exiting() -> SystemExit:
    """Return what is raised instead of a further element; threads end on it without a message."""
    return SystemExit("the program ends: its datasets make no further elements")


_exiting = threading.Event()
# Unlike a WeakSet, one of these may be read while other threads add to it.
_stoppables: weakref.WeakValueDictionary[int, Stoppable] = weakref.WeakValueDictionary()
_joinables: weakref.WeakValueDictionary[int, Joinable] = weakref.WeakValueDictionary()


@functools.cache
def _register_exit() -> None:
    # With the first thread: the later it is registered, the sooner it is called.
    atexit.register(_stop_all)
    note("process", "atexit: _stop_all", "it ends the threads of datasets", "no setting")


def _stop_all() -> None:
    _exiting.set()
    for stoppable in _stoppables.valuerefs():
        if (thing := stoppable()) is not None:
            thing.request_stop()
    for joinable in _joinables.valuerefs():
        if (threads := joinable()) is not None:
            threads.join()
    _wait_for_consumers()


def _wait_for_consumers() -> None:
    """Wait until the user's threads that waited for an element have returned.

    The interpreter would end them while they return, which compiled code that called them does
    not survive.
    """
    deadline = time.monotonic() + GRACE_SECONDS
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.current_thread():
            while _is_waiting(thread) and time.monotonic() < deadline:
                time.sleep(_SHORT_STEP_SECONDS)


def _forget() -> None:
    """Drop what was registered: the child of a fork has none of the threads, only their locks."""
    _stoppables.clear()
    _joinables.clear()


in_forked_child(_forget, "a child has none of these threads, and their locks may be locked")


def wait_for(thread: threading.Thread) -> None:
    """Join a thread that was asked to stop; one in a user's function gets ``GRACE_SECONDS``.

    There is no limit for a thread inside XLA: before Python 3.14 an interpreter that is shutting
    down ends threads that return to it, and XLA's code does not survive that.
    """
    thread.join(GRACE_SECONDS)
    while thread.is_alive() and _is_computing(thread):
        thread.join(_STEP_SECONDS)


def _is_computing(thread: threading.Thread) -> bool:
    """Return whether a thread is in a numerical library, from which it will return."""
    return _module(_frame(thread)).split(".")[0] in _NATIVE


def _is_waiting(thread: threading.Thread) -> bool:
    """Return whether a thread is in drumline's own code, not in a function called by it."""
    frame = _frame(thread)
    while frame is not None and _module(frame) == "threading":
        frame = frame.f_back
    return _module(frame).startswith("drumline.data.")


def _frame(thread: threading.Thread) -> FrameType | None:
    """Return the innermost frame of a thread, ``None`` if it has ended."""
    return None if thread.ident is None else sys._current_frames().get(thread.ident)


def _module(frame: FrameType | None) -> str:
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


MOST_WORKERS = 64
"""The most threads that autotuning may choose; many, as some functions only wait."""


MOST_THREADS = 256
"""The most threads of a stage, whatever number was requested."""


class Threads(Protocol):
    """Where tasks run: ``PooledThreads``, or ``DaemonThreads``."""

    def submit(self, fn: Callable[[], None], /) -> Any:
        """Call ``fn()`` in a thread."""

    def shutdown(self) -> None:
        """Stop the threads, without joining them."""


class DaemonThreads:
    """A daemon thread for each task, which is not joined at interpreter exit.

    For tasks that only wait for other processes: a computation that is interrupted by the exit of
    the interpreter would crash.
    """

    def submit(self, fn: Callable[[], None], /) -> None:
        threading.Thread(target=fn, name="drumline-process", daemon=True).start()

    def shutdown(self) -> None:
        """Do nothing: each thread ends with its task."""


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
        """Return how many there are, for ``explain()``."""


class Workers(Generic[T]):
    """Runs at most ``width`` tasks of a stage at once, started in the order of submission.

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
        # Reentrant: garbage collection inside may run the stage's finalizer, which closes this.
        self._lock = threading.RLock()
        self._refusal: Callable[[], BaseException] | None = None
        stop_at_exit(self)

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
        """How many tasks wait or run; one that has just finished may still count."""
        return self._running + len(self._pending)

    def describe(self) -> str:
        """Return how many there are, for ``explain()``."""
        automatic = " (AUTOTUNE: at present)" if self.automatic else ""
        return f"{self._width} threads{automatic}, in order"

    def submit(self, work: Callable[[], T], first: bool = False) -> Promise[T]:
        """Submit a task, ahead of all that wait if it is to be the ``first``.

        Raises:
            RuntimeError: the system could not start a thread, for this task or an earlier one. The
                elements of that task are missing, so no later ones may be delivered.
            CancelledError: after ``close``.
            SystemExit: at interpreter exit.
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
            # The task's arrays must not stay alive until the next task.
            del task, promise, work

    def _next(self) -> tuple[Promise[T], Callable[[], T]] | None:
        with self._lock:
            if self._running > self._width or not self._pending:
                self._running -= 1
                return None
            return self._pending.popleft()

    def close(self) -> None:
        """Start no more tasks; those that run complete."""
        self._stop(CancelledError)
        if self._owned:
            self._threads.shutdown()

    def request_stop(self) -> None:
        """Start no more tasks, at interpreter exit."""
        self._stop(interpreter_exiting)

    def _stop(self, reason: Callable[[], BaseException]) -> None:
        none: deque[tuple[Promise[T], Callable[[], T]]] = deque()
        with self._lock:
            self._refusal = reason
            pending, self._pending = self._pending, none
        for promise, _ in pending:
            promise.fail(reason())


def _same(error: BaseException) -> BaseException:
    return error


class PooledThreads:
    """At most ``most`` threads, each started when there is a task and no idle thread.

    At interpreter exit Python shuts a ``ThreadPoolExecutor`` down before its tasks can be stopped:
    it would run all that wait, and refuse those of threads which are still to be joined.

    Args:
        most: how many threads.
        name: prefix of the names of the threads.
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
        join_at_exit(self)
        tell_in_child(self)

    def forked(self) -> None:
        """Reset in a forked child; the waiting tasks are run by the parent."""
        self._tasks = SimpleQueue()
        self._threads = []
        self._idle = self._waiting = 0
        self._lock = threading.Lock()

    def submit(self, fn: Callable[[], None], /) -> None:
        """Call ``fn()``, which must not raise, in a thread.

        Raises:
            RuntimeError: after ``shutdown``, or if the system cannot start any thread.
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
        """Stop the threads once no task waits; may be called by a finalizer."""
        self._ended = True
        self._tasks.put(None)

    def join(self) -> None:
        """Call ``shutdown`` and join the threads, without a time limit."""
        self.shutdown()
        for thread in self._threads:
            thread.join()

    def _begin(self) -> bool:
        """Start a thread; return false if the system allows no further one."""
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # Too many, or the interpreter is exiting: the existing threads do the work.
            if not self._threads:
                raise
            return False
        self._threads.append(thread)
        return True

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            # What it refers to must not stay alive until the next task.
            del task
            with self._lock:
                if self._waiting:
                    self._waiting -= 1
                else:
                    self._idle += 1
        # For the next thread.
        self._tasks.put(None)


def available_cores() -> int:
    """Return how many cores this process may use, given its CPU affinity."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


LARGEST_NBYTES = 4 << 20
"""How many bytes of one dataset are read ahead at most."""


class ReadLimiter:
    """A semaphore: at most ``width`` of the threads that share it read at once.

    Args:
        width: how many may read at once.
        automatic: whether the width is left to drumline.
        most: what width it may choose.
        nbytes: how much each thread may read ahead.
    """

    def __init__(
        self, width: int, automatic: bool = False, most: int = 1, nbytes: int = LARGEST_NBYTES
    ):
        self.automatic = automatic
        self.most = most
        self.meter: Callable[[], Meter | None] = _unmeasured
        self.nbytes = nbytes
        self._width = width
        self._busy = 0
        self._threads = 0
        self._closed = False
        self._changed = threading.Condition()
        stop_at_exit(self)

    @property
    def width(self) -> int:
        """How many may read at once; may be set at any time."""
        return self._width

    @width.setter
    def width(self, width: int) -> None:
        with self._changed:
            self._width = width
            self._changed.notify_all()

    def describe(self) -> str:
        """Return how many may read, for ``explain()``."""
        return f"{self._width} read at once{' (AUTOTUNE: at present)' if self.automatic else ''}"

    def admit(self) -> bool:
        """Return whether one more thread may be started; it has to call ``ends``."""
        with self._changed:
            admitted = self._threads < MOST_THREADS
            self._threads += admitted
        return admitted

    def ends(self) -> None:
        """Count an admitted thread as ended."""
        with self._changed:
            self._threads -= 1

    def read(self, pull: Callable[[int], Block | None], limit: int) -> Block | None:
        """Wait until reading is allowed; return ``pull(limit)``, or ``None`` once closed."""
        with self._changed:
            while self._busy >= self._width and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            self._busy += 1
        try:
            meter = self.meter()
            return pull(limit) if meter is None else meter.task(pull, limit)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def close(self) -> None:
        """Prevent all further reads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def request_stop(self) -> None:
        """Call ``close``, at interpreter exit."""
        self.close()


def _unmeasured() -> None:
    return None
