"""A small process that cleans up after a launcher which was killed."""

from __future__ import annotations

import contextlib
import os
import signal

from drumline.jobs.launch.descendants import kill_marked

_ALL_IS_WELL = b"."


class Guardian:
    """Waits for the launcher's end, then kills whatever still carries the job's mark.

    The kernel kills a killed launcher's own children; this finds theirs. It must be made before
    the launcher opens anything the guardian should not hold, in a process with one thread.

    Args:
        mark: the job's `drumline.jobs.launch.descendants.MARK`.

    Attributes:
        pid: its process number.
    """

    def __init__(self, mark: str) -> None:
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._writing)
                _watch(reading, mark)
            finally:
                os._exit(0)
        os.close(reading)

    def dismiss(self) -> None:
        """Let it end: there is nothing left to clean up."""
        with contextlib.suppress(BrokenPipeError, ChildProcessError):  # somebody killed it
            os.write(self._writing, _ALL_IS_WELL)
            os.waitpid(self.pid, 0)
        os.close(self._writing)


def _watch(pipe: int, mark: str) -> None:
    os.setsid()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # whoever reads the launcher's output must not wait for this
        os.dup2(nowhere, standard)
    if os.read(pipe, 1) != _ALL_IS_WELL:
        kill_marked(mark)
