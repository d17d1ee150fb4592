"""The list of jobs: SQLite, where each change of a state is one transaction with its event.

The supervisor, and each command, opens it for itself; nothing is kept in memory between two
transactions. What a run has come to is in the attempt's own folder (`engines/`), not here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumline.jobs.file.model import Job

OPEN = ("queued", "starting", "running", "stopping", "lost")
ENDED = ("succeeded", "failed", "cancelled")
ACTIVE = ("starting", "running", "stopping", "lost")

STOPS = ("cancel", "preempt", "timeout")
"""Why a job is being stopped. An earlier one in this list overrules a later."""

# Each takes the database from version n to n + 1; a new change is appended, and none is edited.
_MIGRATIONS = (
    """
    create table jobs(
      id integer primary key autoincrement, name text not null, spec text not null,
      state text not null, reason text not null default '', priority integer not null,
      submitted real not null, ended real, restarts integer not null default 0, stop text);
    create table attempts(
      job integer not null references jobs(id), number integer not null, handle text not null,
      started real not null, ended real, code integer, reason text not null default '',
      primary key(job, number)) without rowid;
    create table events(
      number integer primary key autoincrement, job integer not null references jobs(id),
      time real not null, kind text not null, text text not null);
    create index jobs_by_state on jobs(state, priority desc, id);
    create index events_by_job on events(job, number);
    """,
)


class StoreError(Exception):
    """The list of jobs cannot be used; the message says why."""


@dataclasses.dataclass(frozen=True)
class JobRow:
    """A job and its state.

    Attributes:
        id: its number, from 1.
        job: what was submitted.
        state: one of `OPEN` or `ENDED`.
        reason: why it waits, failed or was stopped, in a sentence; may be empty.
        submitted: when, in seconds since the epoch.
        ended: when it ended, or None.
        restarts: how many of its restarts are used up.
        stop: why it is being stopped (one of `STOPS`), or None.
    """

    id: int
    job: Job
    state: str
    reason: str
    submitted: float
    ended: float | None
    restarts: int
    stop: str | None


@dataclasses.dataclass(frozen=True)
class AttemptRow:
    """One start of a job.

    Attributes:
        number: from 1.
        handle: what the engine finds it by.
        started: when it was written down, before anything was started.
        ended: when it ended, or None.
        code: its exit code, if it is known.
        reason: why it ended.
    """

    number: int
    handle: str
    started: float
    ended: float | None
    code: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job, at a time."""

    number: int
    time: float
    kind: str
    text: str


class Store:
    """The jobs of a workspace.

    Args:
        home: the folder of the workspace.

    Raises:
        StoreError: it was written by a newer version, is damaged or cannot be written.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        path = home / "jobs.sqlite"
        try:
            self._db = sqlite3.connect(
                path, isolation_level=None, timeout=60, check_same_thread=False
            )
            path.chmod(0o600)
            self._db.row_factory = sqlite3.Row
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=normal")
            self._db.execute("pragma foreign_keys=on")
            self._migrate()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"the list of jobs {path} cannot be used: {error}.") from error

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _migrate(self) -> None:
        newest = len(_MIGRATIONS)
        if self._version() == newest:
            return
        with self.change():
            version = self._version()
            if version > newest:
                raise StoreError(
                    f"{self.home / 'jobs.sqlite'} was written by a newer drumline (its version is "
                    f"{version}, known are up to {newest}); update this one."
                )
            for script in _MIGRATIONS[version:]:
                for statement in filter(str.strip, script.split(";")):
                    self._db.execute(statement)
            self._db.execute(f"pragma user_version={newest}")

    def _version(self) -> int:
        return int(self._db.execute("pragma user_version").fetchone()[0])

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """A transaction that holds the write lock from its beginning."""
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def submit(self, job: Job) -> int:
        """Write a job down that is being submitted, and return its number.

        It is not in the queue before `queue` is called, when its code is in place.
        """
        with self.change():
            added = self._db.execute(
                "insert into jobs(name, spec, state, priority, submitted) values(?, ?, ?, ?, ?)",
                (job.name, job.to_json(), "submitting", job.priority, time.time()),
            )
        assert added.lastrowid is not None
        return added.lastrowid

    def queue(self, number: int, job: Job) -> None:
        """Put a job that is being submitted into the queue, as `job`."""
        with self.change():
            self._db.execute("update jobs set spec=? where id=?", (job.to_json(), number))
            self.set_state(number, "queued", "", "submitted", ", ".join(job.sizes()))

    def drop(self, number: int) -> None:
        """Forget a job whose submission has failed."""
        with self.change():
            self._db.execute("delete from jobs where id=? and state='submitting'", (number,))

    def set_state(
        self, number: int, state: str, reason: str = "", kind: str = "", text: str = ""
    ) -> None:
        """Set a job's state, with its event. Belongs into a `change`."""
        ended = time.time() if state in ENDED else None
        self._db.execute(
            "update jobs set state=?, reason=?, ended=? where id=?", (state, reason, ended, number)
        )
        self.add_event(number, kind or state, text or reason)

    def set_reason(self, number: int, reason: str) -> None:
        """Set why a job waits, which is no event."""
        self._db.execute("update jobs set reason=? where id=?", (reason, number))

    def set_stop(self, number: int, stop: str) -> bool:
        """Ask for a job to be stopped; False if it has ended, or is stopped for more already.

        Belongs into a `change`.
        """
        row = self._db.execute("select state, stop from jobs where id=?", (number,)).fetchone()
        if row is None or row["state"] not in OPEN:
            return False
        if row["stop"] is not None and STOPS.index(row["stop"]) <= STOPS.index(stop):
            return False
        self._db.execute("update jobs set stop=? where id=?", (stop, number))
        return True

    def add_event(self, number: int, kind: str, text: str) -> None:
        """Write down what has happened. Belongs into a `change`."""
        self._db.execute(
            "insert into events(job, time, kind, text) values(?, ?, ?, ?)",
            (number, time.time(), kind, text),
        )

    def add_attempt(self, number: int, attempt: int, handle: str) -> None:
        """Write down an attempt that is about to be started. Belongs into a `change`."""
        self._db.execute(
            "insert into attempts(job, number, handle, started) values(?, ?, ?, ?)",
            (number, attempt, handle, time.time()),
        )

    def drop_attempt(self, number: int, attempt: int) -> None:
        """Forget an attempt that has started nothing. Belongs into a `change`."""
        self._db.execute("delete from attempts where job=? and number=?", (number, attempt))

    def end_attempt(self, number: int, attempt: int, code: int | None, reason: str) -> None:
        """Write down how an attempt has ended. Belongs into a `change`."""
        self._db.execute(
            "update attempts set ended=?, code=?, reason=? where job=? and number=?",
            (time.time(), code, reason, number, attempt),
        )

    def requeue(self, number: int, kind: str, text: str, restarts: int) -> None:
        """Put a job back into the queue, with so many restarts used. Belongs into a `change`."""
        self._db.execute("update jobs set restarts=?, stop=null where id=?", (restarts, number))
        self.set_state(number, "queued", "", kind, text)

    def open_jobs(self) -> list[JobRow]:
        """Jobs that have not ended, the first of the queue first."""
        marks = ", ".join("?" * len(OPEN))
        rows = self._db.execute(
            f"select * from jobs where state in ({marks}) order by priority desc, id", OPEN
        )
        return [_job_row(row) for row in rows]

    def jobs(self, limit: int = 50) -> list[JobRow]:
        """The latest jobs, newest first."""
        rows = self._db.execute(
            "select * from jobs where state != 'submitting' order by id desc limit ?", (limit,)
        )
        return [_job_row(row) for row in rows]

    def job(self, number: int) -> JobRow | None:
        """One job, if there is one of that number."""
        row = self._db.execute("select * from jobs where id=?", (number,)).fetchone()
        return None if row is None else _job_row(row)

    def latest(self, name: str) -> JobRow | None:
        """The newest job of a name."""
        row = self._db.execute(
            "select * from jobs where name=? and state != 'submitting' order by id desc limit 1",
            (name,),
        ).fetchone()
        return None if row is None else _job_row(row)

    def attempts(self, number: int) -> list[AttemptRow]:
        """The attempts of a job, oldest first."""
        rows = self._db.execute("select * from attempts where job=? order by number", (number,))
        return [AttemptRow(**_without(dict(row), "job")) for row in rows]

    def events(self, number: int) -> list[JobEvent]:
        """The events of a job, oldest first."""
        rows = self._db.execute(
            "select number, time, kind, text from events where job=? order by number", (number,)
        )
        return [JobEvent(**dict(row)) for row in rows]

    def version(self) -> tuple[int, int]:
        """Something that changes whenever the jobs do, by this connection or another."""
        others = int(self._db.execute("pragma data_version").fetchone()[0])
        return others, self._db.total_changes


def _without(fields: dict[str, Any], key: str) -> dict[str, Any]:
    del fields[key]
    return fields


def _job_row(row: sqlite3.Row) -> JobRow:
    return JobRow(
        id=row["id"],
        job=Job.from_json(row["spec"]),
        state=row["state"],
        reason=row["reason"],
        submitted=row["submitted"],
        ended=row["ended"],
        restarts=row["restarts"],
        stop=row["stop"],
    )
