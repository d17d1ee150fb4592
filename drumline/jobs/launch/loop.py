"""One thread that waits for everything: signals, processes that end, messages of other hosts."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType

from drumline._rendezvous import EventLoop
from drumline.jobs.launch.errors import Interrupted

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Loop(EventLoop):
    """Also queues the signals that end a job, and then waits for nothing more.

    Signals that were ignored when the launcher began (``nohup``, background jobs of a shell
    script) stay ignored. Leaving the context restores the handlers.

    Attributes:
        signals: the numbers of those that came and were not taken yet, oldest first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.signals: list[int] = []
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
        self.close()
        os.close(self._waking)
        os.close(self._woken)

    def check(self) -> None:
        """Take the first signal.

        Raises:
            Interrupted: if there is one.
        """
        if self.signals:
            raise Interrupted(self.signals.pop(0))

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signals.append(signum)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._waking, 4096)
