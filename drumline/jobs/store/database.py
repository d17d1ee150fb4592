"""The list of jobs: each change of a state is one transaction with its event.

It is a file of SQLite in the workspace, or a schema of PostgreSQL that the workspace names.

The supervisor, and each command, opens it for itself; nothing is kept in memory between two
transactions. What a run has come to is in the attempt's own folder (`engines/`), not here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from drumline.jobs.file.model import Job
from drumline.jobs.store.connection import (
    StoreError,
    StoreLostError,
    StoreUnavailable,
    open_database,
    repeated,
    storable,
)
from drumline.jobs.store.rows import (
    ENDED,
    OPEN,
    STOPS,
    AttemptRow,
    JobEvent,
    JobRow,
    attempt_row,
    job_row,
)
from drumline.jobs.store.tables import JOBS, page_query, searched

__all__ = ["ENDED", "OPEN", "STOPS", "AttemptRow", "JobEvent", "JobRow", "Store", "StoreError",
           "StoreLostError", "StoreUnavailable", "SubmittedBeforeError"]  # fmt: skip

_T = TypeVar("_T")
_LARGEST = 2**63 - 1
_OPEN_MARKS = ", ".join("?" * len(OPEN))


class SubmittedBeforeError(StoreError):
    """A request to submit a job has been made before.

    Attributes:
        number: the job that came of it.
    """

    def __init__(self, number: int) -> None:
        text = f"this was submitted before, as job {number}."
        super().__init__(text, text)
        self.number = number


class Store:
    """The jobs of a workspace. Threads may share it: a change of one keeps the others waiting.

    Args:
        home: the folder of the workspace.

    Attributes:
        place: where it is, in words for errors.

    Raises:
        StoreUnavailable: the server that has it is away.
        StoreError: it was written by a newer version, is damaged or cannot be written.
        WorkspaceError: the file that names its server cannot be read.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._db = open_database(home, JOBS)
        self.place = self._db.place
        self._revision: int | None = None  # Within a change: the number of the latest.

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def lead(self) -> None:
        """Be the supervisor's: then each change is made as the only supervisor, or not at all.

        Raises:
            StoreUnavailable: another supervisor has the list of jobs.
        """
        self._db.lead()

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """A transaction that holds the write lock from its beginning.

        Raises:
            StoreUnavailable: nothing of it was written, unless it says that this is not known.
        """
        with self._db.change():
            before = self._revision = self.revision()
            try:
                yield
                if self._revision != before:
                    self._db.execute("update revision set number=?", (self._revision,))
            finally:
                self._revision = None

    def _next(self) -> int:
        """The number of a change to a job: larger than any before, in the order of commits."""
        with self._db.lock:
            if self._revision is None:
                raise RuntimeError("a job is changed within Store.change() alone")
            self._revision += 1
            return self._revision

    def _whole(self, change: Callable[[], _T]) -> _T:
        return repeated(self.change, change)

    def submit(self, job: Job, by: str = "", request: str | None = None) -> int:
        """Write a job down that is being submitted, and return its number.

        It is not in the queue before `queue` is called, when its code is in place.

        Args:
            job: what is submitted.
            by: the member who submits it; empty without a server.
            request: a name of this request alone; a second one of the same name is refused.

        Raises:
            SubmittedBeforeError: there is a job of this request.
        """

        def change() -> int:
            if request is not None and (earlier := self.by_request(request)) is not None:
                raise SubmittedBeforeError(earlier)
            row = {"name": job.name, "spec": job.to_json(), "state": "submitting"}
            times = {"priority": job.priority, "submitted": time.time()}
            asked = {"member": by, "request": request, "changed": self._next()}
            words = {"words": searched(job.name, by)}
            return self._db.insert("jobs", {**row, **times, **asked, **words})

        return self._whole(change)

    def by_request(self, request: str) -> int | None:
        """The number of the job that came of a request, if one did."""
        rows = self._db.execute("select id from jobs where request=?", (request,))
        return rows[0]["id"] if rows else None

    def queue(self, number: int, job: Job) -> None:
        """Put a job that is being submitted into the queue, as `job`."""

        def change() -> None:
            self._db.execute("update jobs set spec=? where id=?", (job.to_json(), number))
            self.set_state(number, "queued", "", "submitted", ", ".join(job.sizes()))

        self._whole(change)

    def drop(self, number: int) -> None:
        """Forget a job whose submission has failed."""
        statement = "delete from jobs where id=? and state='submitting'"
        self._whole(lambda: self._db.execute(statement, (number,)))

    def sweep(self) -> list[int]:
        """Forget what members were submitting when the server ended, and return their numbers."""
        left = "state='submitting' and member != ''"

        def change() -> list[int]:
            rows = self._db.execute(f"select id from jobs where {left} order by id")
            self._db.execute(f"delete from jobs where {left}")
            return [row["id"] for row in rows]

        return self._whole(change)

    def set_state(
        self, number: int, state: str, reason: str = "", kind: str = "", text: str = ""
    ) -> None:
        """Set a job's state, with its event. Belongs into a `change`."""
        self._db.execute(
            "update jobs set state=?, reason=?, ended=?, changed=? where id=?",
            (
                state,
                storable(reason),
                time.time() if state in ENDED else None,
                self._next(),
                number,
            ),
        )
        self._insert_event(number, kind or state, text or reason)

    def set_reason(self, number: int, reason: str) -> None:
        """Set why a job waits, which is no event. Belongs into a `change`."""
        self._db.execute(
            "update jobs set reason=?, changed=? where id=?",
            (storable(reason), self._next(), number),
        )

    def set_stop(self, number: int, stop: str) -> bool:
        """Ask for a job to be stopped; False if it has ended, or is stopped for more already.

        Belongs into a `change`.
        """
        rows = self._db.execute("select state, stop from jobs where id=?", (number,))
        if not rows or rows[0]["state"] not in OPEN:
            return False
        before = rows[0]["stop"]
        if before is not None and STOPS.index(before) <= STOPS.index(stop):
            return False
        self._db.execute(
            "update jobs set stop=?, changed=? where id=?", (stop, self._next(), number)
        )
        return True

    def add_event(self, number: int, kind: str, text: str) -> None:
        """Write down what has happened. Belongs into a `change`."""
        self._insert_event(number, kind, text)
        self._db.execute("update jobs set changed=? where id=?", (self._next(), number))

    def _insert_event(self, number: int, kind: str, text: str) -> None:
        row = {"job": number, "time": time.time(), "kind": kind, "text": storable(text)}
        self._db.insert("events", row, "number")

    def add_attempt(self, number: int, attempt: int, handle: str) -> None:
        """Write down an attempt that is about to be started. Belongs into a `change`."""
        now = time.time()
        self._db.execute(
            "insert into attempts(job, number, handle, started) values(?, ?, ?, ?)",
            (number, attempt, storable(handle), now),
        )
        self._db.execute(
            "update jobs set started=coalesce(started, ?), changed=? where id=?",
            (now, self._next(), number),
        )

    def drop_attempt(self, number: int, attempt: int) -> None:
        """Forget an attempt that has started nothing. Belongs into a `change`."""
        self._db.execute("delete from attempts where job=? and number=?", (number, attempt))
        first = "(select min(started) from attempts where job=?)"
        self._db.execute(
            f"update jobs set started={first}, changed=? where id=?",
            (number, self._next(), number),
        )

    def end_attempt(self, number: int, attempt: int, code: int | None, reason: str) -> None:
        """Write down how an attempt has ended. Belongs into a `change`."""
        self._db.execute(
            "update attempts set ended=?, code=?, reason=? where job=? and number=?",
            (time.time(), code, storable(reason), number, attempt),
        )
        self._db.execute("update jobs set changed=? where id=?", (self._next(), number))

    def requeue(self, number: int, kind: str, text: str, restarts: int) -> None:
        """Put a job back into the queue, with so many restarts used. Belongs into a `change`."""
        self._db.execute("update jobs set restarts=?, stop=null where id=?", (restarts, number))
        self.set_state(number, "queued", "", kind, text)

    def open_jobs(self) -> list[JobRow]:
        """Jobs that have not ended, the first of the queue first."""
        rows = self._db.execute(
            f"select * from jobs where state in ({_OPEN_MARKS}) order by priority desc, id", OPEN
        )
        return [job_row(row) for row in rows]

    def jobs(self, limit: int = 50) -> list[JobRow]:
        """The latest jobs, newest first."""
        return self.page(limit=limit)[0]

    def page(
        self,
        state: str = "",
        search: str = "",
        before: int | None = None,
        limit: int = 100,
        by: str = "",
    ) -> tuple[list[JobRow], bool]:
        """A part of the list of jobs, newest first.

        Args:
            state: of one state; ``"open"`` and ``"ended"`` stand for all of `OPEN` and of `ENDED`.
            search: words. Each is a number, the beginning of a state, or a part of the job's name
                or of its member's; upper and lower case are alike.
            before: of a smaller number than this: the last of the part before.
            limit: at most so many.
            by: of this member alone.

        Returns:
            The jobs, and whether there are more.

        Raises:
            ValueError: there is no such state, or the limit is no number of jobs.
        """
        query = page_query(state, search, before, limit, by)
        if query is None:
            return [], False
        rows = self._db.execute(*query)
        return [job_row(row) for row in rows[:limit]], len(rows) > limit

    def counts(self, by: str = "") -> dict[str, int]:
        """How many jobs there are in each state in which there are any.

        Args:
            by: of this member alone.
        """
        of_member = "where member=?" if by else ""
        rows = self._db.execute(
            f"select state, count(*) as number from jobs {of_member} group by state",
            (by,) if by else (),
        )
        found = {row["state"]: row["number"] for row in rows}
        return {state: found[state] for state in (*OPEN, *ENDED) if state in found}

    def changed(self, since: int, limit: int = 1000) -> list[JobRow]:
        """The jobs that have changed since, in the order of their latest changes.

        Args:
            since: the `JobRow.changed` of the last one seen, or an earlier `revision`.
            limit: at most so many; the others follow when it is asked again.
        """
        rows = self._db.execute(
            "select * from jobs where changed > ? and state != 'submitting' "
            "order by changed limit ?",
            (min(since, _LARGEST), limit),
        )
        return [job_row(row) for row in rows]

    def revision(self) -> int:
        """The number of the latest change to any job."""
        return int(self._db.execute("select number from revision")[0]["number"])

    def job(self, number: int) -> JobRow | None:
        """One job, if there is one of that number."""
        if number > _LARGEST:
            return None
        rows = self._db.execute("select * from jobs where id=?", (number,))
        return job_row(rows[0]) if rows else None

    def latest(self, name: str) -> JobRow | None:
        """The newest job of a name."""
        rows = self._db.execute(
            "select * from jobs where name=? and state != 'submitting' order by id desc limit 1",
            (storable(name),),
        )
        return job_row(rows[0]) if rows else None

    def attempts(self, number: int) -> list[AttemptRow]:
        """The attempts of a job, oldest first."""
        rows = self._db.execute("select * from attempts where job=? order by number", (number,))
        return [attempt_row(row) for row in rows]

    def open_attempts(self) -> dict[int, AttemptRow]:
        """The attempts that have not ended, by the numbers of their jobs."""
        rows = self._db.execute(
            "select * from attempts where ended is null and "
            f"job in (select id from jobs where state in ({_OPEN_MARKS})) order by number",
            OPEN,
        )
        return {row["job"]: attempt_row(row) for row in rows}

    def events(self, number: int, after: int = 0, limit: int | None = None) -> list[JobEvent]:
        """The events of a job, oldest first.

        Args:
            number: the job's.
            after: those with a larger `JobEvent.number` than this.
            limit: at most so many.
        """
        rows = self._db.execute(
            "select number, time, kind, text from events where job=? and number > ? "
            "order by number limit ?",
            (number, min(after, _LARGEST), _LARGEST if limit is None else limit),
        )
        return [JobEvent(**row) for row in rows]

    def version(self) -> tuple[int, int]:
        """Something that changes whenever the jobs do, by this connection or another."""
        return self._db.version()
