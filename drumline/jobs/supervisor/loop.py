"""The supervisor of a workspace: starts what the queue says, and sees each job through to its end.

It keeps nothing in memory that it could not read again, so it may be killed at any step: its
successor finds the same jobs in the store and the same attempts in their engine, and continues.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.engines.engine import Engine, Start, StartError, Status
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.store.database import ACTIVE, AttemptRow, JobRow, Store
from drumline.jobs.supervisor.queue import Held, Queued, decide

IDLE_SECONDS = 60.0
"""How long a supervisor waits for another job before it ends."""

_PERIOD_SECONDS = 0.1
_SHORTEST_SECONDS = 5.0  # One that saves and asks to be started again sooner has failed.
_LOCK = "supervisor.lock"
_PROGRAM = (sys.executable, "-P", "-m", "drumline_command.job_process", "supervisor")


class Supervisor:
    """The only one of a workspace.

    Args:
        store: the jobs.
        engine: where they run.
        reached: is called with the name of each step that is done; tests kill it there.
    """

    def __init__(
        self, store: Store, engine: Engine, reached: Callable[[str], None] = lambda step: None
    ) -> None:
        self._store = store
        self._engine = engine
        self._reached = reached
        self._seen: tuple[int, int] | None = None

    def step(self) -> int:
        """Do what there is to do now, and return how many jobs have not ended."""
        rows = self._store.open_jobs()
        for row in rows:
            if row.state in ACTIVE:
                self._watch(row)
        version = self._store.version()
        if version != self._seen:
            # What is changed by this itself has it look once more.
            self._seen = version
            self._schedule()
        return len(rows)

    def _schedule(self) -> None:
        rows = {row.id: row for row in self._store.open_jobs()}
        for row in list(rows.values()):
            if row.state == "queued" and row.stop == "cancel":
                self._end(row, "cancelled", "cancelled before it had started")
                del rows[row.id]
        waiting = [
            Queued(row.id, row.job.priority, row.job.needs)
            for row in rows.values()
            if row.state == "queued"
        ]
        held = [
            Held(row.id, row.job.priority, row.job.needs, row.stop is not None)
            for row in rows.values()
            if row.state in ACTIVE
        ]
        made = decide(waiting, held, self._engine.capacity())
        for number, reason in made.impossible.items():
            self._end(rows[number], "failed", reason)
        for number, other in made.preempt.items():
            with self._store.change():
                if self._store.set_stop(number, "preempt"):
                    self._store.add_event(number, "preempted", f"gives way to job {other}")
        news = {n: r for n, r in made.reasons.items() if rows[n].reason != r}
        if news:
            with self._store.change():
                for number, reason in news.items():
                    self._store.set_reason(number, reason)
        for number in made.start:
            self._begin(rows[number])

    def _begin(self, row: JobRow) -> None:
        number = len(self._store.attempts(row.id)) + 1
        handle = self._engine.handle(row.id, number)
        # Written down before it is started: whoever is next finds it by the handle.
        with self._store.change():
            self._store.add_attempt(row.id, number, handle)
            self._store.set_state(row.id, "starting", "", "starting", f"attempt {number}")
        self._reached("noted")
        self._start(row, self._store.attempts(row.id)[-1])

    def _start(self, row: JobRow, attempt: AttemptRow) -> None:
        try:
            secrets = {name: read_secret(self._store.home, name) for name in row.job.secrets}
            source = self._store.home / "jobs" / str(row.id) / "source"
            start = Start(row.job, row.id, attempt.number, attempt.handle, source, secrets)
            self._engine.start(start)
        except (StartError, SecretError) as error:
            self._finish(row, attempt, Status("ended", None, str(error)), final=True)
        self._reached("started")

    def _watch(self, row: JobRow) -> None:
        attempt = self._store.attempts(row.id)[-1]
        status = self._engine.poll(attempt.handle)
        if status.state in ("ended", "gone"):
            self._finish(row, attempt, status)
            return
        timeout = row.job.timeout
        if timeout is not None and row.stop is None and time.time() - attempt.started > timeout:
            with self._store.change():
                self._store.set_stop(row.id, "timeout")
            row = self._store.job(row.id) or row
        if status.state == "absent":
            if row.stop is None:
                self._start(row, attempt)
            else:
                self._finish(row, attempt, status)
            return
        state = "stopping" if row.stop and status.state != "lost" else status.state
        if state != row.state and not (state == "starting" and row.state == "running"):
            text = {"stopping": _WHY.get(row.stop or "", "")}.get(state, status.reason)
            with self._store.change():
                self._store.set_state(row.id, state, text)
        if row.stop is not None:
            self._reached("stopping")
            self._engine.cancel(attempt.handle)

    def _finish(
        self, row: JobRow, attempt: AttemptRow, status: Status, final: bool = False
    ) -> None:
        """Write down how an attempt ended, and end the job or put it back into the queue."""
        self._reached("finishing")
        with self._store.change():
            row = self._store.job(row.id) or row  # It may have been cancelled since.
            code, reason = status.code, status.reason
            self._store.end_attempt(row.id, attempt.number, code, reason)
            lasted = time.time() - attempt.started
            if code == 0:
                self._store.set_state(row.id, "succeeded")
            elif row.stop == "cancel":
                self._store.set_state(row.id, "cancelled", "cancelled")
            elif row.stop == "timeout":
                limit = f"it ran longer than its timeout, {row.job.timeout:g} s"
                self._store.set_state(row.id, "failed", limit)
            elif row.stop == "preempt":
                self._store.requeue(row.id, "queued", "gave way, waits again", row.restarts)
            elif status.state == "gone":
                self._store.requeue(row.id, "queued", reason, row.restarts)
            elif code == RESTART_STATUS and lasted > _SHORTEST_SECONDS:
                saved = "has saved and asked to be started again"
                self._store.requeue(row.id, "queued", saved, row.restarts)
            elif row.restarts < row.job.restarts and not final:
                used = row.restarts + 1
                text = f"{used} of {row.job.restarts}: {reason}"
                self._store.requeue(row.id, "restart", text, used)
            else:
                self._store.set_state(row.id, "failed", reason)
        self._reached("finished")

    def _end(self, row: JobRow, state: str, reason: str) -> None:
        with self._store.change():
            self._store.set_state(row.id, state, reason)


_WHY = {
    "cancel": "asked to end: cancelled",
    "preempt": "asked to save and give way",
    "timeout": "asked to end: its time is over",
}


def supervise(home: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Supervise a workspace until there is nothing to do, if no other does."""
    from drumline.jobs.engines.local.engine import LocalEngine

    while (lock := _lock(home)) is not None:
        store = Store(home)
        try:
            supervisor = Supervisor(store, LocalEngine(home))
            idle_since = time.monotonic()
            while time.monotonic() - idle_since < idle_seconds:
                if os.fstat(lock).st_nlink == 0:  # The workspace was removed.
                    return
                if supervisor.step():
                    idle_since = time.monotonic()
                time.sleep(_PERIOD_SECONDS)
        finally:
            os.close(lock)
        # Who submitted a job while the lock was held relies on this supervisor.
        if not store.open_jobs():
            store.close()
            return
        store.close()


def ensure_supervisor(home: Path) -> bool:
    """Start a supervisor in the background unless there is one; True if it was started."""
    lock = _lock(home)
    if lock is None:
        return False
    os.close(lock)
    log = os.fspath(home / "supervisor.log")
    started = os.posix_spawn(
        sys.executable,
        [*_PROGRAM, os.fspath(home)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
    _started[:] = [each for each in (*_started, started) if not _collected(each)]
    return True


_started: list[int] = []
"""Supervisors that outlive this process, or are collected by it should they end before."""


def _collected(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def _lock(home: Path) -> int | None:
    """The descriptor of the supervisor's lock, or None if another holds it."""
    file = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def main(arguments: Sequence[str]) -> None:
    """The program of a supervisor: its workspace."""
    (home,) = arguments
    os.chdir("/")
    supervise(Path(home))
