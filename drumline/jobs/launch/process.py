"""One process of the job: started so that it cannot outlive the launcher."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.tasks import Task

_PR_SET_PDEATHSIG = 1
_LAUNCHER_GONE = 113

_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A started process. It must be made in the launcher's main thread.

    It leads a session of its own, so that a signal from the terminal reaches it only through the
    launcher, and its process group can be signalled as one. The kernel kills it when the thread
    that started it ends. Its output goes to the log file directly.

    Args:
        task: what it is in the cluster.
        command: program and arguments.
        env: its whole environment.
        log: the file for its stdout and stderr, emptied first.

    Attributes:
        task: as given.
        log: as given.
        pid: its process number, and that of its process group.
        pidfd: becomes readable when it ends.
        returncode: None while it runs; then as `subprocess.Popen.returncode`.
        ended_at: when it ended, in seconds since the epoch.
        told_to_stop: whether the launcher asked it to end, so that its exit says nothing.
        kill_at: when it is to be killed, in `time.monotonic` seconds; infinite until told to stop.
        seen_stopped: whether it was found stopped (SIGSTOP) when the job failed.

    Raises:
        LaunchError: if the program cannot be run or the log cannot be written.
    """

    def __init__(
        self, task: Task, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> None:
        self.task = task
        self.log = log
        self.returncode: int | None = None
        self.ended_at: float | None = None
        self.told_to_stop = False
        self.kill_at = math.inf
        self.seen_stopped = False
        self._process = _start(command, env, log)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self._began = time.monotonic()
        self._lasted: float | None = None

    @property
    def running(self) -> bool:
        """Whether it has not been seen to end."""
        return self.returncode is None

    @property
    def failed(self) -> bool:
        """Whether it ended badly and by itself."""
        return bool(self.returncode) and not self.told_to_stop

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return time.monotonic() - self._began if self._lasted is None else self._lasted

    def collect(self) -> bool:
        """Note its end if it has ended. Returns whether it has."""
        if self.returncode is None and self._process.poll() is not None:
            self.returncode = self._process.returncode
            self.ended_at = time.time()
            self._lasted = time.monotonic() - self._began
            os.close(self.pidfd)
        return self.returncode is not None

    def is_stopped(self) -> bool:
        """Whether it is suspended, by SIGSTOP or a debugger."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return self.running and stat.rpartition(")")[2].split()[0] in ("T", "t")

    def stop(self, signum: int, grace_seconds: float) -> None:
        """Ask the whole process group to end, and set `kill_at`."""
        if self.running and not self.told_to_stop:
            self.told_to_stop = True
            self.kill_at = time.monotonic() + grace_seconds
            self._signal(signum)
            self._signal(signal.SIGCONT)  # a suspended process sees other signals only then

    def excuse(self) -> None:
        """Its end says nothing any more, whatever it is."""
        self.told_to_stop = True

    def kill_group(self) -> None:
        """Kill what it has left behind in its process group."""
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """Kill the whole process group, if the process still runs."""
        if self.running:
            self.told_to_stop = True
            self.kill_at = math.inf
            self._signal(signal.SIGKILL)

    def _signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)


def _start(command: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    try:
        with log.open("wb") as output:
            return subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=functools.partial(_die_with, os.getpid()),
            )
    except OSError as error:
        if error.filename == str(log):
            raise LaunchError(f"the log {log} cannot be written: {error.strerror}.") from None
        raise LaunchError(f"{command[0]!r} cannot be run: {error.strerror}.") from None


def _die_with(launcher: int) -> None:
    """Between fork and exec: end when the launcher ends, even if it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(_LAUNCHER_GONE)
