"""The supervisor of a workspace: starts what the queue says, and sees each job through to its end.

It keeps nothing in memory that it could not read again, so it may be killed at any step: its
successor finds the same jobs in the store and the same attempts in their engine, and continues.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.engines.engine import Engine, Start, StartError, Status
from drumline.jobs.engines.registry import Engines
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.store.database import AttemptRow, JobRow, Store, StoreUnavailable
from drumline.jobs.store.waking import Sleep, wake
from drumline.jobs.store.workspace import supervisor_lock
from drumline.jobs.supervisor.limits import MemberLimits, limits_version, read_limits
from drumline.jobs.supervisor.queue import Held, Queued, decide
from drumline.jobs.supervisor.uploads import Uploads

IDLE_SECONDS = 60.0
"""How long a supervisor waits for another job before it ends."""

_PERIOD_SECONDS = 0.1
_BUSY_SECONDS = 0.005
_YOUNG_SECONDS = 10.0
_FULL_SECONDS = 2.0
_LARGEST_LOG = 1 << 20
_SHORTEST_SECONDS = 5.0  # One that saves and asks to be started again sooner has failed.
_MOST_SUBMITTED = 8  # How many starts are handed to an engine with a queue at the same time.
_DATA = "data"
_PROGRAM = (sys.executable, "-P", "-m", "drumline_command.job_process", "supervisor")


class Supervisor:
    """The only one of a workspace.

    Args:
        store: the jobs.
        engines: where they run, by name.
        reached: is called with the name of each step that is done; tests kill it there.

    Attributes:
        pause: seconds until the next step: short after a change, since what has ended makes room,
            and while a job is young, which may end as soon as it has begun.
    """

    def __init__(
        self,
        store: Store,
        engines: Mapping[str, Engine],
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._store = store
        self._engines = engines
        self._reached = reached
        self._seen: tuple[object, int] | None = None
        self._read: tuple[int, int] | None = None
        self._open = 0
        self._held: list[tuple[JobRow, AttemptRow]] = []
        self.pause = _PERIOD_SECONDS
        self._noted: dict[int, int] = {}

    def step(self) -> int:
        """Do what there is to do now, and return how many jobs have not ended."""
        began = self._store.version()
        if began != self._read:
            # Also of a thousand jobs that wait, nothing is read while nothing changes.
            rows = self._store.open_jobs()
            attempts = self._store.open_attempts()
            self._open = len(rows)
            self._held = [(row, attempts[row.id]) for row in rows if row.id in attempts]
            self._read = began
        for row, attempt in self._held:
            self._watch(row, attempt)
        version = self._version()
        if version != self._seen:
            self._seen = None
            self._schedule()
            # What was changed by this itself has it look once more.
            self._seen = version
        youngest = max((attempt.started for _, attempt in self._held), default=0.0)
        if self._store.version() != began:
            self.pause = _BUSY_SECONDS
        elif time.time() - youngest < _YOUNG_SECONDS:
            self.pause = _PERIOD_SECONDS / 5
        else:
            self.pause = _PERIOD_SECONDS
        return self._open

    def _version(self) -> tuple[object, int]:
        return self._store.version(), limits_version(self._store.home)

    def _schedule(self) -> None:
        rows = {row.id: row for row in self._store.open_jobs()}
        attempts = self._store.open_attempts()
        for row in list(rows.values()):
            if row.state == "queued" and row.id not in attempts and row.stop == "cancel":
                self._end(row, "cancelled", "cancelled before it had started")
                del rows[row.id]
        waiting = {n: row for n, row in rows.items() if row.id not in attempts}
        held = {n: row for n, row in rows.items() if row.id in attempts}
        holding = ((row.by, row.job.needs) for row in held.values())
        limits = MemberLimits(read_limits(self._store.home), holding)
        news: dict[int, str] = {}
        for name in sorted({row.job.engine for row in waiting.values()}):
            mine = {n: row for n, row in waiting.items() if row.job.engine == name}
            running = {n: row for n, row in held.items() if row.job.engine == name}
            news |= self._schedule_on(name, mine, running, limits)
        news = {number: reason for number, reason in news.items() if rows[number].reason != reason}
        if news:
            with self._store.change():
                for number, reason in news.items():
                    self._store.set_reason(number, reason)

    def _schedule_on(
        self,
        name: str,
        waiting: Mapping[int, JobRow],
        held: Mapping[int, JobRow],
        limits: MemberLimits,
    ) -> dict[int, str]:
        """Begin what one engine may run now, and return why the others wait."""
        engine = self._engines.get(name)
        if engine is None:
            return dict.fromkeys(waiting, f"waits for the engine {name}, which was removed")
        if engine.queues:
            submitting = sum(row.state == "starting" for row in held.values())
            reasons = {}
            for row in _by_priority(waiting.values()):
                if over := limits.reason(row.by, row.job.needs):
                    reasons[row.id] = over
                elif submitting >= _MOST_SUBMITTED:
                    reasons[row.id] = f"waits to be handed to {name}"
                else:
                    submitting += 1
                    limits.add(row.by, row.job.needs)
                    self._begin(row, engine)
            return reasons
        made = decide(
            [Queued(row.id, row.job.priority, row.job.needs, row.by) for row in waiting.values()],
            [Held(row.id, row.job.priority, row.job.needs, row.stop is not None)
             for row in held.values()],
            engine.capacity(),
            limits,
        )  # fmt: skip
        for number, reason in made.impossible.items():
            self._end(waiting[number], "failed", reason)
        for number, other in made.preempt.items():
            with self._store.change():
                if self._store.set_stop(number, "preempt"):
                    self._store.add_event(number, "preempted", f"gives way to job {other}")
        for number in made.start:
            self._begin(waiting[number], engine)
        return made.reasons

    def _begin(self, row: JobRow, engine: Engine) -> None:
        number = len(self._store.attempts(row.id)) + 1
        handle = engine.handle(row.id, number)
        # Written down before it is started: whoever is next finds it by the handle.
        with self._store.change():
            self._store.add_attempt(row.id, number, handle)
            self._store.set_state(row.id, "starting", "", "starting", f"attempt {number}")
        self._noted.pop(row.id, None)
        self._reached("noted")
        self._start(row, self._store.attempts(row.id)[-1], engine)

    def _start(self, row: JobRow, attempt: AttemptRow, engine: Engine) -> None:
        try:
            secrets = {name: read_secret(self._store.home, name) for name in row.job.secrets}
            source = self._store.home / "jobs" / str(row.id) / "source"
            start = Start(row.job, row.id, attempt.number, attempt.handle, source, secrets)
            engine.start(start)
        except (StartError, SecretError) as error:
            self._finish(row, attempt, Status("ended", None, str(error), final=True))
        self._reached("started")

    def _watch(self, row: JobRow, attempt: AttemptRow) -> None:
        engine = self._engines.get(row.job.engine)
        if engine is None:
            status = Status("lost", None, f"the engine {row.job.engine} was removed")
        else:
            status = engine.poll(attempt.handle)
            self._add_notes(row, status.notes)
        if status.state in ("ended", "gone"):
            self._finish(row, attempt, status)
            return
        timeout = None if engine is None or engine.queues else row.job.timeout
        if timeout is not None and row.stop is None and time.time() - attempt.started > timeout:
            with self._store.change():
                self._store.set_stop(row.id, "timeout")
            row = self._store.job(row.id) or row
        if status.state == "absent" and engine is not None:
            if row.stop is None:
                self._start(row, attempt, engine)
            else:
                self._finish(row, attempt, status)
            return
        self._note(row, status)
        if row.stop is not None and engine is not None:
            self._reached("stopping")
            engine.cancel(attempt.handle)

    def _note(self, row: JobRow, status: Status) -> None:
        """Write down that its state, or why it waits, is another one than before."""
        state = "stopping" if row.stop and status.state != "lost" else status.state
        if state == "starting" and row.state in ("running", "queued"):
            return
        reason = _WHY.get(row.stop or "", "") if state == "stopping" else status.reason
        if state != row.state:
            with self._store.change():
                self._store.set_state(row.id, state, reason)
        elif reason != row.reason:
            with self._store.change():
                self._store.set_reason(row.id, reason)

    def _add_notes(self, row: JobRow, notes: Sequence[str]) -> None:
        """Make events of what an engine has done for the latest start, each once."""
        if len(notes) <= self._noted.get(row.id, 0):
            return
        with self._store.change():
            events = self._store.events(row.id)
            began = max((e.number for e in events if e.kind == "starting"), default=0)
            known = sum(each.kind == _DATA and each.number > began for each in events)
            for text in notes[known:]:
                self._store.add_event(row.id, _DATA, text)
        self._noted[row.id] = len(notes)

    def _finish(self, row: JobRow, attempt: AttemptRow, status: Status) -> None:
        """Write down how an attempt ended, and end the job or put it back into the queue."""
        self._reached("finishing")
        with self._store.change():
            row = self._store.job(row.id) or row  # It may have been cancelled since.
            code, reason = status.code, status.reason
            self._store.end_attempt(row.id, attempt.number, code, reason)
            lasted = time.time() - attempt.started
            if status.hung:
                self._store.add_event(row.id, "hung", reason)
            if code == 0:
                self._store.set_state(row.id, "succeeded")
            elif row.stop == "cancel":
                self._store.set_state(row.id, "cancelled", "cancelled")
            elif status.final:
                self._store.set_state(row.id, "failed", reason)
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
            elif row.restarts < row.job.restarts:
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


def _by_priority(rows: Iterable[JobRow]) -> Iterator[JobRow]:
    yield from sorted(rows, key=lambda row: (-row.job.priority, row.id))


def supervise(home: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Supervise a workspace until there is nothing to do, if no other does.

    While the list of jobs cannot be used, as when its server is away, it waits; jobs continue.
    """
    while (lock := supervisor_lock(home)) is not None:
        store: Store | None = None
        waits = ""
        sleep = Sleep(home)
        try:
            idle_since = time.monotonic()
            while time.monotonic() - idle_since < idle_seconds:
                if os.fstat(lock).st_nlink == 0:  # The workspace was removed.
                    return
                pause = _FULL_SECONDS
                try:
                    if store is None:
                        store = _leading(home)
                        supervisor = Supervisor(store, Engines(home))
                        uploads = Uploads(store)
                    if supervisor.step() + uploads.step():
                        idle_since = time.monotonic()
                    pause = supervisor.pause
                    if waits:
                        _complain("continues")
                        waits = ""
                except StoreUnavailable as error:  # as of a disk that is full
                    idle_since = time.monotonic()
                    if str(error) != waits:
                        _complain(f"waits: {error}")
                    waits = str(error)
                sleep.wait(pause)
        finally:
            sleep.close()
            os.close(lock)
        # Who submitted a job while the lock was held relies on this supervisor.
        try:
            with contextlib.closing(store or Store(home)) as opened:
                if not opened.open_jobs():
                    return
        except StoreUnavailable:
            continue  # and wait for it


def _leading(home: Path) -> Store:
    store = Store(home)
    try:
        store.lead()
    except BaseException:
        store.close()
        raise
    return store


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # Its log may be on the same disk.
        print(f"{time.strftime('%m-%d %H:%M:%S')} {text}", file=sys.stderr, flush=True)


def ensure_supervisor(home: Path) -> bool:
    """Start a supervisor in the background, or wake the one there is; True if it was started."""
    lock = supervisor_lock(home)
    if lock is None:
        wake(home)
        return False
    os.close(lock)
    log = os.fspath(home / "supervisor.log")
    with contextlib.suppress(OSError):
        if os.path.getsize(log) > _LARGEST_LOG:
            os.replace(log, f"{log}.1")
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


def main(arguments: Sequence[str]) -> None:
    """The program of a supervisor: its workspace."""
    (home,) = arguments
    os.chdir("/")
    supervise(Path(home))
