"""How long a thread waited for a processor."""

from __future__ import annotations

import os
import threading

_PATH = "/proc/thread-self/schedstat"


class _Count:
    """The kernel's count for the thread that makes it; closed when the thread is gone."""

    def __init__(self) -> None:
        self._fd = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        return int(os.pread(self._fd, 64, 0).split()[1]) * 1e-9

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


class _Counts(threading.local):
    def __init__(self) -> None:
        self.own = _Count() if os.path.exists(_PATH) else None


_counts = _Counts()


def run_delay() -> float:
    """Seconds that this thread could have run but waited for a processor; 0 if nobody counts them.

    Where others keep the processors busy this is most of what a computation waits for, and says
    nothing of how many threads would help.
    """
    own = _counts.own
    return 0.0 if own is None else own.seconds()
