"""How a supervisor that sleeps learns at once that there is something to do.

It is a byte in a FIFO of the workspace, and a hint only: nothing is said by it that is not written
down in files, and a supervisor that gets none looks by itself a little later.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import time
from pathlib import Path

_FIFO = "wake"
_SOME = 4096


class Sleep:
    """The sleep of the supervisor of a workspace, of which there is one.

    Args:
        home: the folder of the workspace. Where no FIFO can be made in it, nothing ends a sleep
            before its time.
    """

    def __init__(self, home: Path) -> None:
        self._fifo: int | None = None
        path = home / _FIFO
        with contextlib.suppress(OSError):  # as of a file system that knows no FIFOs
            with contextlib.suppress(FileExistsError):
                os.mkfifo(path, 0o600)
            # For writing, too: otherwise it would be at its end whenever no one has it open.
            fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            if stat.S_ISFIFO(os.fstat(fifo).st_mode):
                self._fifo = fifo
            else:
                os.close(fifo)

    def wait(self, seconds: float) -> None:
        """Sleep for so long, or until `wake` is called, or was since the last sleep."""
        if self._fifo is None:
            time.sleep(seconds)
        elif select.select([self._fifo], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while len(os.read(self._fifo, _SOME)) == _SOME:
                    continue

    def close(self) -> None:
        """End it. What wakes finds none who sleeps then."""
        if self._fifo is not None:
            os.close(self._fifo)
            self._fifo = None


def wake(home: Path) -> None:
    """End the sleep of the supervisor of a workspace, if there is one. It never waits."""
    # None sleeps, so many have woken it that no more fit, or there is no FIFO.
    with contextlib.suppress(OSError):
        fifo = os.open(home / _FIFO, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if stat.S_ISFIFO(os.fstat(fifo).st_mode):
                os.write(fifo, b".")
        finally:
            os.close(fifo)
