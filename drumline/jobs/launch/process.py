"""One process of the job, started so that neither it nor what it starts outlives the launcher.

A `Child` is killed by the kernel when the launcher is. Processes that children start carry the
job's mark in their environment and are found by it; if the launcher is killed, the `Guardian`, a
small process, finds them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.tasks import LaunchedTask
from drumline.jobs.logs.writing import DEFAULT_LIMIT, LogWriter

_PR_SET_PDEATHSIG = 1
_LAUNCHER_GONE = 113

_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A started process. It must be made in the launcher's main thread.

    It leads a session of its own, so that a signal from the terminal reaches it only through the
    launcher, and its process group can be signalled as one. The kernel kills it when the thread
    that started it ends. Its output is a pipe, from which the launcher writes the log: so that has
    a limit, and a full disk is no error of the process.

    Args:
        task: what it is in the cluster.
        command: program and arguments.
        env: its whole environment.
        log: the file for its stdout and stderr, emptied first.
        address: where it is to listen, as ``"host:port"``; empty if others do not connect to it.
        log_limit: bytes of its log.

    Attributes:
        task: as given.
        address: as given.
        log: as given.
        output: what it writes.
        pid: its process number, and that of its process group.
        pidfd: becomes readable when it ends.
        returncode: None while it runs; then as `subprocess.Popen.returncode`.
        ended_at: when it ended, in seconds since the epoch.
        asked_to_stop: whether the launcher asked it to end, so that its exit says nothing.
        kill_at: when it is to be killed, in `time.monotonic` seconds; infinite until asked to stop.
        seen_stopped: whether it was found stopped (SIGSTOP) when the job failed.
        hung: what was seen of it when the job was found to hang, or empty.
        stacks_written: whether the stacks of its threads are in its log.

    Raises:
        LaunchError: if the program cannot be run or the log cannot be written.
    """

    def __init__(
        self,
        task: LaunchedTask,
        command: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        address: str = "",
        log_limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.task = task
        self.log = log
        self.address = address
        self.returncode: int | None = None
        self.ended_at: float | None = None
        self.asked_to_stop = False
        self.kill_at = math.inf
        self.seen_stopped = False
        self.suspended_for: float | None = None
        self.hung = ""
        self.stacks_written = False
        self._process, self.output = _start(command, env, log, log_limit)
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
        return bool(self.returncode) and not self.asked_to_stop

    @property
    def preempted(self) -> bool:
        """Whether it has saved and ended to be started again, which is no merit if it hung."""
        return self.returncode == RESTART_STATUS and not self.hung

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return time.monotonic() - self._began if self._lasted is None else self._lasted

    def collect(self) -> bool:
        """Note its end if it has ended. Returns whether it has."""
        if self.returncode is None and self._process.poll() is not None:
            self.returncode = self._process.returncode
            self.output.take_rest()
            self.ended_at = time.time()
            self._lasted = time.monotonic() - self._began
            os.close(self.pidfd)
        return self.returncode is not None

    def is_stopped(self, by: str = "Tt") -> bool:
        """Whether it is suspended, by SIGSTOP or a debugger.

        Args:
            by: the kernel's letters for that: ``T`` by a signal, ``t`` by a debugger.
        """
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return self.running and stat.rpartition(")")[2].split()[0] in by

    def stop(self, signum: int, grace_seconds: float) -> None:
        """Ask the whole process group to end, and set `kill_at`."""
        if self.running and not self.asked_to_stop:
            self.asked_to_stop = True
            self.kill_at = time.monotonic() + grace_seconds
            self._signal(signum)
            self._signal(signal.SIGCONT)  # a suspended process sees other signals only then

    def give_up(self, suspended_for: float) -> None:
        """Kill the whole process group, as one that has failed by being suspended.

        Args:
            suspended_for: seconds.
        """
        self.suspended_for = suspended_for
        self._signal(signal.SIGKILL)

    def excuse(self) -> None:
        """Its end says nothing any more, whatever it is."""
        self.asked_to_stop = True

    def kill_group(self) -> None:
        """Kill what it has left behind in its process group."""
        self._signal(signal.SIGKILL)

    def abort(self, wait_seconds: float) -> None:
        """Have it write its stacks by SIGABRT in the place of SIGKILL, which follows."""
        self.stacks_written = True
        self.kill_at = time.monotonic() + wait_seconds
        self._signal(signal.SIGABRT)

    def kill(self) -> None:
        """Kill the whole process group, if the process still runs."""
        if self.running:
            self.asked_to_stop = True
            self.kill_at = math.inf
            self._signal(signal.SIGKILL)

    def _signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)


_PIPE_BYTES = 1 << 20


class ProcessOutput:
    """What a process writes, on its way to the log.

    Args:
        reading: the end of the pipe.
        writer: of the log.

    Attributes:
        descriptor: becomes readable when there is more.
        written_at: when it wrote something last, by ``time.monotonic``.
    """

    def __init__(self, reading: int, writer: LogWriter) -> None:
        self.descriptor = reading
        self.written_at = time.monotonic()
        self._writer = writer

    @property
    def tail(self) -> bytes:
        """Its last 32 KiB."""
        return self._writer.tail

    def take(self) -> bool:
        """Write some of what waits to the log. Returns False once there will be no more."""
        return self._take(_PIPE_BYTES) is not None

    def take_rest(self) -> None:
        """Write what waits; those it has started may still write more."""
        self._take(_PIPE_BYTES)
        self._take(_PIPE_BYTES)

    def note(self, text: str) -> None:
        """Add a text of the launcher's own to the log."""
        self._writer.write(text.encode(errors="replace"))

    def close(self) -> None:
        """Write what waits, and take no more."""
        if self.descriptor >= 0:
            self.take_rest()
            os.close(self.descriptor)
            self.descriptor = -1
            self._writer.close()

    def _take(self, most: int) -> int | None:
        """How many bytes there were; None if there will be no more."""
        if self.descriptor < 0:
            return None
        try:
            data = os.read(self.descriptor, most)
        except BlockingIOError:
            return 0
        if data:
            self.written_at = time.monotonic()
            self._writer.write(data)
        return len(data) or None


def _start(
    command: Sequence[str], env: Mapping[str, str], log: Path, log_limit: int
) -> tuple[subprocess.Popen[bytes], ProcessOutput]:
    try:
        writer = LogWriter(log, log_limit)
    except OSError as error:
        raise LaunchError(f"the log {log} cannot be written: {error.strerror}.") from None
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with contextlib.suppress(OSError):  # More than the user's share: it stays as it is.
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    output = ProcessOutput(reading, writer)
    try:
        process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=functools.partial(_die_with, os.getpid()),
        )
    except OSError as error:
        os.close(reading)
        writer.close()
        raise LaunchError(f"{command[0]!r} cannot be run: {error.strerror}.") from None
    finally:
        os.close(writing)
    return process, output


def _die_with(launcher: int) -> None:
    """Between fork and exec: end when the launcher ends, even if it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(_LAUNCHER_GONE)


MARK = "DRUMLINE_LAUNCH_ID"
"""The environment variable by which a process, however detached, is known to belong to a job."""

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 5.0


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends, so that none is lost."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants(spared: Collection[int]) -> None:
    """Kill all descendants of this process but `spared`, and wait for those it has adopted."""

    def left() -> list[int]:
        return [pid for pid in _descendants(os.getpid()) if pid not in spared]

    _kill_until_none(left)


def reap_adopted(own: Collection[int]) -> None:
    """Forget adopted processes that have ended; those in `own` are left to their owners."""
    with contextlib.suppress(ChildProcessError):
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while (ended := os.waitid(os.P_ALL, 0, flags)) and ended.si_pid not in own:
            os.waitpid(ended.si_pid, 0)


def kill_marked(mark: str) -> None:
    """Kill every process of this user's whose environment has `mark` as its `MARK`."""
    wanted = f"{MARK}={mark}".encode()

    def left() -> list[int]:
        return [pid for pid in _pids() if pid != os.getpid() and wanted in _environment(pid)]

    _kill_until_none(left)


def _kill_until_none(find: Callable[[], list[int]]) -> None:
    """Kill what `find` finds, again and again: a process may have forked before it died."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (pids := find()) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):  # another's child, or reaped already
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in _pids():
        with contextlib.suppress(OSError, IndexError):  # it ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    frontier = [root]
    while frontier:
        frontier = [child for parent in frontier for child in children.get(parent, [])]
        found += frontier
    return found


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it ended, or is another user's
        return []


_ALL_IS_WELL = b"."


class Guardian:
    """Waits for the launcher's end, then kills whatever still carries the job's mark.

    The kernel kills a killed launcher's own children; this finds theirs. It must be made before
    the launcher opens anything the guardian should not hold, in a process with one thread.

    Args:
        mark: the job's `drumline.jobs.launch.process.MARK`.

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
        with contextlib.suppress(BrokenPipeError, ChildProcessError):  # it was killed
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
