"""One thread that waits for everything: signals, processes that end, messages of other hosts."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from types import FrameType

from drumline.jobs.launch.errors import Interrupted

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Loop:
    """Calls back when a file descriptor is readable, and queues the signals that end a job.

    Signals that were ignored when the launcher began (``nohup``, background jobs of a shell
    script) stay ignored. Leaving the context restores the handlers.

    Attributes:
        signals: the numbers of those that came and were not taken yet, oldest first.
    """

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._selector = selectors.DefaultSelector()
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Loop:
        self._waking, self._woken = os.pipe()
        os.set_blocking(self._waking, False)
        os.set_blocking(self._woken, False)
        self._old_wakeup = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for signum in STOPPING:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._handlers[signum] = signal.signal(signum, self._note)
        self.watch(self._waking, self._drain)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._handlers.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._old_wakeup)
        self._selector.close()
        os.close(self._waking)
        os.close(self._woken)

    def watch(self, descriptor: int, callback: Callable[[], object]) -> None:
        """Call `callback` whenever `descriptor` is readable, until `forget`."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def forget(self, descriptor: int) -> None:
        """Watch `descriptor` no more."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def step(self, seconds: float) -> None:
        """Wait up to `seconds` for something to happen, and deal with what did."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            key.data()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signals.append(signum)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._waking, 4096)


_STEP_SECONDS = 0.25


def wait_until(
    loop: Loop,
    ready: Callable[[], object],
    tick: Callable[[], None],
    deadline: float | None = None,
) -> bool:
    """Run `loop` until `ready`, or the `time.monotonic` `deadline`. Returns whether it was.

    Raises:
        Interrupted: at the first signal that ends a job.
    """
    while not ready():
        if loop.signals:
            raise Interrupted(loop.signals.pop(0))
        if deadline is not None and time.monotonic() >= deadline:
            return False
        loop.step(_STEP_SECONDS)
        tick()
    return True
