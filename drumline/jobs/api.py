"""Jobs in Python: ``dl.jobs.run``, and a handle on each job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumline.jobs.engines.local.engine import LocalEngine
from drumline.jobs.file.model import Job
from drumline.jobs.file.reading import make_job, read_job_file
from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.secrets import Masking
from drumline.jobs.store.database import ENDED, JobRow, Store
from drumline.jobs.store.workspace import current
from drumline.jobs.submission import resubmit, submit
from drumline.jobs.supervisor.loop import ensure_supervisor

_PERIOD_SECONDS = 0.1


class JobHandle:
    """A job of the current workspace.

    Args:
        store: the workspace's jobs.
        number: the job's.

    Attributes:
        id: its number.
    """

    def __init__(self, store: Store, number: int) -> None:
        self.id = number
        self._store = store

    def __repr__(self) -> str:
        return f"<job {self.id} {self.name!r}: {self.state}>"

    @property
    def row(self) -> JobRow:
        """All that is known of it, as it is now."""
        row = self._store.job(self.id)
        if row is None:
            raise LookupError(f"there is no job {self.id} any more")
        return row

    @property
    def folder(self) -> Path:
        """Where its code, its working copy and its logs are."""
        return self._store.home / "jobs" / str(self.id)

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.job.name

    @property
    def state(self) -> str:
        """Queued, starting, running, stopping, succeeded, failed, cancelled or lost; lower case."""
        return self.row.state

    @property
    def reason(self) -> str:
        """Why it waits (in numbers), who failed first and why, or the empty string."""
        return Masking(self._store.home)(self.row.reason)

    @property
    def events(self) -> list[tuple[float, str, str]]:
        """What has happened to it: when, what, and details."""
        mask = Masking(self._store.home)
        return [(each.time, each.kind, mask(each.text)) for each in self._store.events(self.id)]

    def cancel(self) -> None:
        """Ask it to end. It is given time to save; `wait` waits for its end.

        Raises:
            RuntimeError: it has ended already.
        """
        with self._store.change():
            asked = self._store.set_stop(self.id, "cancel")
        if not asked and self.state in ENDED:
            raise RuntimeError(f"job {self.id} has ended already: it is {self.state}")
        ensure_supervisor(self._store.home)

    def wait(self, timeout: float | None = None) -> str:
        """Wait for its end, and return its last state.

        Args:
            timeout: seconds to wait at most.

        Raises:
            TimeoutError: it has not ended by then.
        """
        until = None if timeout is None else time.monotonic() + timeout
        checked = time.monotonic()
        while (state := self.state) not in ENDED:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {self.id} is {state} after {timeout:g} s: {self.reason}")
            if time.monotonic() - checked > 2:  # The supervisor may have been killed.
                ensure_supervisor(self._store.home)
                checked = time.monotonic()
            time.sleep(_PERIOD_SECONDS)
        return state

    def logs(self, process: str | None = None, follow: bool = False) -> Iterator[str]:
        """Lines of its logs, without their ends; values of secrets are masked.

        Args:
            process: as ``"worker:1"``, or ``"job"`` for what the launcher says; None for all
                processes, where each line begins with its process if there are several.
            follow: also wait for further lines until the job ends.

        Raises:
            ValueError: it has no such process.
        """
        mask = Masking(self._store.home)
        for name, line in self._lines(process, follow):
            yield mask(f"{name} | {line}" if name else line)

    def _lines(self, process: str | None, follow: bool) -> Iterator[tuple[str, str]]:
        engine = LocalEngine(self._store.home)
        several = sum(role.count for role in self.row.job.roles.values()) > 1
        tails: dict[Path, _Tail] = {}
        checked = time.monotonic()
        while True:
            # Asked before the logs are read: what it has written at its end is read, too.
            ended = self.state in ENDED
            for attempt in self._store.attempts(self.id):
                for name, path in engine.logs(attempt.handle).items():
                    if name.partition(".")[0] == process or (process is None and name != "job"):
                        tail = tails.setdefault(path, _Tail(path))
                        prefix = name if several and process is None else ""
                        yield from ((prefix, line) for line in tail.lines(ended or not follow))
            if ended or not follow:
                break
            if time.monotonic() - checked > 2:
                ensure_supervisor(self._store.home)
                checked = time.monotonic()
            time.sleep(_PERIOD_SECONDS)
        if process is not None and not tails:
            known = {
                name.partition(".")[0]
                for attempt in self._store.attempts(self.id)
                for name in engine.logs(attempt.handle)
            }
            listed = ", ".join(sorted(known)) or "none yet"
            raise ValueError(f"job {self.id} has no process {process!r}; it has: {listed}")

    def rerun(self) -> JobHandle:
        """Submit it again as a new job, with the same code."""
        number = resubmit(self._store, LocalEngine(self._store.home), self.id)
        ensure_supervisor(self._store.home)
        return JobHandle(self._store, number)


class _Tail:
    """Reads a growing file line by line."""

    _LONGEST = 64 << 10

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self, complete: bool) -> Iterator[str]:
        """Lines since the last call; with `complete`, also a last one without an end."""
        with open(self._path, "rb") as file:
            if file.seek(0, 2) < self._offset:  # It was cut.
                self._offset, self._rest = 0, b""
            file.seek(self._offset)
            while part := file.read(1 << 20):
                self._offset += len(part)
                *lines, self._rest = (self._rest + part).split(b"\n")
                if len(self._rest) > self._LONGEST:
                    lines.append(self._rest)
                    self._rest = b""
                yield from (line.decode(errors="replace") for line in lines)
        if complete and self._rest:
            yield self._rest.decode(errors="replace")
            self._rest = b""


def run(file: str | Path | None = None, **fields: Any) -> JobHandle:
    """Submit a job to the current workspace, and start its supervisor if none runs.

    Args:
        file: a job file; or instead of it
        **fields: the keys of one, as ``command="python train.py", workers=2``.

    Raises:
        JobFileError: with a line for each mistake.
        OSError: the file cannot be read.

    Example:
        >>> job = dl.jobs.run(command="python train.py", workers={"count": 2, "cpus": 0.5})
        ... # doctest: +SKIP
        >>> job.wait()  # doctest: +SKIP
        'succeeded'
    """
    if (file is None) == (not fields):
        raise JobFileError(["give a job file, or the fields of a job: command=..., workers=..."])
    if file is not None:
        job = read_job_file(Path(file))
    else:
        job = make_job(fields, Path.cwd(), "dl.jobs.run")
    return submit_job(job)


def submit_job(job: Job) -> JobHandle:
    """Submit a checked job to the current workspace.

    Raises:
        JobFileError: its code, a secret or a size cannot be had.
    """
    store = Store(current())
    number = submit(store, LocalEngine(store.home), job)
    ensure_supervisor(store.home)
    return JobHandle(store, number)


def find(job: int | str) -> JobHandle:
    """A job of the current workspace, by its number or its name; of a name the latest.

    Raises:
        LookupError: there is none.
    """
    store = Store(current())
    number = int(job) if str(job).isdecimal() and len(str(job)) < 19 else None
    row = store.latest(str(job)) if number is None else store.job(number)
    if row is None:
        raise LookupError(f"there is no job {job}; `drumline jobs` lists those of {store.home}")
    return JobHandle(store, row.id)


def latest(limit: int = 50) -> list[JobHandle]:
    """The latest jobs of the current workspace, the newest first."""
    store = Store(current())
    return [JobHandle(store, row.id) for row in store.jobs(limit)]


def wake() -> None:
    """Start the supervisor of the current workspace if jobs wait for one."""
    store = Store(current())
    if store.open_jobs():
        ensure_supervisor(store.home)
