"""All that is asked of a workspace in a folder: by the command line, Python, servers and pages."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.jobs.engines.registry import (
    LOCAL,
    EngineError,
    EngineRecord,
    Engines,
    engine_names,
    read_record,
    remove_record,
    write_record,
)
from drumline.jobs.file.model import Job
from drumline.jobs.file.reading import make_job, read_job_file
from drumline.jobs.file.values import JobFileError
from drumline.jobs.logs.reading import LogBytes, LogPart
from drumline.jobs.logs.searching import LogSearch
from drumline.jobs.metrics.checkpoints import checkpoints
from drumline.jobs.metrics.usage import PROCESSES, usage_files
from drumline.jobs.service import documents, requests
from drumline.jobs.service.following import LineFollower, pause
from drumline.jobs.service.submission import ANYTHING, Allowance, resubmit, submit
from drumline.jobs.sources.saved import SavedKind, remove_saved, save, saved
from drumline.jobs.sources.secrets import Masking, remove_secret, secret_names, write_secret
from drumline.jobs.store.database import (
    ENDED,
    OPEN,
    JobRow,
    Store,
    StoreUnavailable,
    SubmittedBeforeError,
)
from drumline.jobs.supervisor.loop import ensure_supervisor

if TYPE_CHECKING:
    from drumline.jobs.metrics.series import MetricReader, MetricSeries

MOST_POINTS = 1000
"""Of each metric, unless more are asked for."""

_MOST_READERS = 64
_SUBMISSION_SECONDS = 20.0
_TAIL = 64 << 10
_MOST_LISTED = 1000


class NoSuchJobError(LookupError):
    """There is no such job in a workspace, or no such log of it."""


class WorkspaceService:
    """The jobs, code, data, secrets and engines of a workspace. Threads may share it.

    Methods that return a `dict` return what the routes of a server answer, as JSON
    (docs/jobs/server.md); values of secrets are masked in it.

    Args:
        home: the folder of the workspace.

    Raises:
        StoreError: its list of jobs cannot be used.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.place = str(home)
        self.store = Store(home)
        self._engines = Engines(home)
        self._readers: OrderedDict[int, tuple[threading.Lock, MetricReader]] = OrderedDict()
        self._lock = threading.Lock()
        self._submitting: dict[str, threading.Lock] = {}

    def close(self) -> None:
        """Close its list of jobs."""
        self.store.close()

    # What there is.

    def jobs(
        self, state: str = "", search: str = "", before: int | None = None, limit: int = 100
    ) -> dict[str, Any]:
        """A part of the list, newest first; see `Store.page`."""
        rows, more = self.store.page(state, search, before, max(1, min(limit, _MOST_LISTED)))
        mask = Masking(self.home)
        listed = [documents.listed_job(row, mask) for row in rows]
        return {"jobs": listed, "more": more, "counts": self.store.counts()}

    def row(self, job: int | str) -> JobRow:
        """A job, by its number or its name; of a name the latest.

        Raises:
            NoSuchJobError: there is none.
        """
        text = str(job)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
        row = self.store.latest(text) if number is None else self.store.job(number)
        if row is None or row.state == "submitting":
            raise NoSuchJobError(f"there is no job {job}; `drumline jobs` lists those there are")
        return row

    def rows(self, limit: int) -> list[JobRow]:
        """The latest jobs, newest first."""
        return self.store.jobs(limit)

    def job(self, job: int | str) -> dict[str, Any]:
        """All about one job.

        Raises:
            NoSuchJobError: there is none.
        """
        row = self.row(job)
        folder = str(self.folder(row.id))
        attempts = self.store.attempts(row.id)
        return documents.whole_job(row, attempts, self._processes(row), folder, Masking(self.home))

    def reason(self, number: int) -> str:
        """Why a job waits or has failed, or the empty string."""
        return Masking(self.home)(self.row(number).reason)

    def folder(self, number: int) -> Path:
        """Where a job's code, its working copy and its logs are."""
        return self.home / "jobs" / str(number)

    def checkpoints(self, number: int) -> dict[str, Any]:
        """The checkpoints below a job's working folder; see `checkpoints`."""
        row = self.row(number)
        attempts = self.store.attempts(row.id)
        if not attempts or row.job.engine not in self._engines:
            return {"checkpoints": []}
        work, _ = self._engines[row.job.engine].metrics(attempts[-1].handle)
        return {"checkpoints": checkpoints(work)}

    def events(self, number: int, after: int = 0) -> dict[str, Any]:
        """What has happened to a job, from the event after a number."""
        mask = Masking(self.home)
        found = self.store.events(self.row(number).id, after)
        return {"events": [documents.event(each, mask) for each in found]}

    def log_files(self, number: int) -> dict[str, Path]:
        """The first parts of a job's logs, by their names.

        They are the engine's, as ``worker:0``, ``job`` and ``worker:0.restart-1``; those of a
        second start of the job have ``.start-2`` after the process.
        """
        row = self.row(number)
        if row.job.engine not in self._engines:
            return {}
        engine, found = self._engines[row.job.engine], {}
        for attempt in self.store.attempts(row.id):
            again = f".start-{attempt.number}" if attempt.number > 1 else ""
            for name, path in engine.logs(attempt.handle).items():
                process, dot, rest = name.partition(".")
                found[f"{process}{again}{dot}{rest}"] = path
        return found

    def logs(self, number: int) -> dict[str, Any]:
        """The names and sizes of a job's logs."""
        files = self.log_files(number).items()
        return {"logs": [{"name": name, "size": LogBytes(path).size()} for name, path in files]}

    def log(self, number: int, name: str, start: int = 0, limit: int = 1 << 20) -> LogPart:
        """Some bytes of a log; see `LogBytes.read`.

        Each byte of a secret's value is a star. Of a job that has not ended, bytes that may be the
        beginning of a value are held back.

        Raises:
            NoSuchJobError: there is no such job, or it has no such log.
        """
        return self.log_part(self._log_file(number, name), start, limit, self._has_ended(number))

    def log_search(self, number: int, name: str, text: str) -> LogSearch:
        """What looks for a text in a log.

        Values of secrets are stars there, too, so that they are not found.

        Raises:
            NoSuchJobError: there is no such job, or it has no such log.
            ValueError: such a text cannot be looked for.
        """
        path, ended = self._log_file(number, name), self._has_ended(number)
        return LogSearch(text, lambda start, limit: self.log_part(path, start, limit, ended))

    def _has_ended(self, number: int) -> bool:
        return self.row(number).state in ENDED

    def _log_file(self, number: int, name: str) -> Path:
        files = self.log_files(number)
        if name not in files:
            raise NoSuchJobError(f"job {number} has no log {name!r}; it has: {_list(files)}")
        return files[name]

    def log_part(self, path: Path, start: int, limit: int, ended: bool) -> LogPart:
        """See `log`; `path` is the first part of the log, `ended` says whether its job has."""
        log, mask = LogBytes(path), Masking(self.home)
        part = log.read(start, limit)
        if not mask.margin or not part.data:
            return part
        # A value may begin before what is asked for, or end behind it.
        first = max(0, part.start - mask.margin)
        before = log.read(first, part.start - first)
        lead = before.data if before.start + len(before.data) == part.start else b""
        end = part.start + len(part.data)
        after = log.read(end, mask.margin)
        rest = after.data if after.start == end else b""
        whole = mask.same_size(lead + part.data + rest)
        shown = whole[len(lead) : len(lead) + len(part.data)]
        if not ended and end + len(rest) >= part.size:
            held = mask.undecided(lead + part.data + rest) - len(rest)
            shown = shown[: len(shown) - max(0, held)]
        return LogPart(shown, part.start, part.size)

    def lines(self, number: int, process: str | None, follow: bool) -> Iterator[str]:
        """See `JobHandle.logs`."""
        return LineFollower(self, number).lines(process, follow)

    def series(self, number: int) -> dict[str, MetricSeries]:
        """See `JobHandle.metrics`."""
        from drumline.jobs.metrics.series import MetricReader

        row = self.row(number)
        if row.job.engine not in self._engines:
            return {}
        engine = self._engines[row.job.engine]
        places = [engine.metrics(each.handle) for each in self.store.attempts(row.id)]
        if not places:
            return {}
        with self._lock:
            if number not in self._readers:
                self._readers[number] = threading.Lock(), MetricReader(places[0][0])
            self._readers.move_to_end(number)
            while len(self._readers) > _MOST_READERS:
                self._readers.popitem(last=False)
            lock, reader = self._readers[number]
        with lock:
            found = reader.read([folder for _, folder in places])
        mask = Masking(self.home)
        return {mask(name): found[name] for name in found}

    def metrics(self, number: int, points: int = MOST_POINTS) -> dict[str, Any]:
        """A job's metrics; of each at most so many points, or with 0 all."""
        from drumline.jobs.metrics import documents as metric_documents

        return metric_documents.metrics(self.series(number), points)

    # What changes something.

    def check(self, text: str, allowance: Allowance = ANYTHING) -> dict[str, Any]:
        """What is wrong with the text of a job file, without submitting it; see `submit`."""
        try:
            job = self._read_request({"yaml": text}, self.home / "jobs", uploaded=True)
            if problems := allowance.problems(job, opened=0):
                raise JobFileError(problems)
        except JobFileError as error:
            return {"problems": documents.problems(error), "job": None}
        fields = dataclasses.asdict(job)
        del fields["places"]
        return {"problems": [], "job": fields}

    def submit(
        self,
        asked: Mapping[str, Any],
        by: str = "",
        request: str | None = None,
        upload: Path | None = None,
        allowance: Allowance = ANYTHING,
    ) -> int:
        """Submit a job that was asked for by ``{"yaml": text}`` or ``{"job": fields}``.

        Args:
            asked: the file's text, or its keys with their values.
            by: the member who asks.
            request: names the request: a second one with this name submits nothing.
            upload: a folder with the job's code, which is taken over if it is submitted.
            allowance: what the member's jobs may ask for.

        Returns:
            The job's number; of a repeated request that of the first.

        Raises:
            JobFileError: with a line for each mistake.
        """
        if request is not None and (earlier := self.submitted(request)) is not None:
            return earlier
        base = self.home / "jobs" if upload is None else upload.resolve()
        job = self._read_request(asked, base, uploaded=upload is not None)
        # A folder of the upload is taken over; one that is saved is copied, as ever.
        folder = Path(job.code.folder) if job.code.folder and upload is not None else None
        taken = folder if folder is not None and folder.is_relative_to(base) else None
        return self._submit(job, by, request, taken, allowance)

    def submit_job(self, job: Job) -> int:
        """Submit a checked job; see `submit`."""
        return self._submit(job, "", None, None, ANYTHING)

    def submitted(self, request: str) -> int | None:
        """The number of the job that a request has submitted, once it is in the queue, or None."""
        number = self.store.by_request(request)
        return None if number is None else self._settled(number)

    def _settled(self, number: int) -> int | None:
        """The number of a job that another thread may be submitting, once it has; or None."""
        until = time.monotonic() + _SUBMISSION_SECONDS
        while (row := self.store.job(number)) is not None:
            if row.state != "submitting":
                return number
            if time.monotonic() > until:
                text = f"job {number} is still being submitted; ask again"
                raise StoreUnavailable(text, text)
            time.sleep(0.05)
        return None

    def run_file(self, path: Path) -> int:
        """Submit the job of a file of this machine; see `submit`."""
        return self.submit_job(read_job_file(path, engine_names(self.home), saved(self.home)))

    def run_fields(self, fields: Mapping[str, Any], base: Path, where: str) -> int:
        """Submit a job by its keys; see `submit` and `make_job`."""
        names = engine_names(self.home)
        return self.submit_job(make_job(fields, base, where, names, saved(self.home)))

    def cancel(self, number: int) -> None:
        """Ask a job to end.

        Raises:
            NoSuchJobError: there is none.
            RuntimeError: it has ended already.
        """
        row = self.row(number)
        with self.store.change():
            asked = self.store.set_stop(row.id, "cancel")
        if not asked and self.row(number).state in ENDED:
            raise RuntimeError(f"job {number} has ended already ({self.row(number).state})")
        self.wake()

    def rerun(
        self,
        number: int,
        by: str = "",
        request: str | None = None,
        allowance: Allowance = ANYTHING,
    ) -> int:
        """Submit a job again, with the same code; returns the number of the new one.

        The other arguments are those of `submit`.
        """
        if request is not None and (earlier := self.submitted(request)) is not None:
            return earlier
        row = self.row(number)
        engine = self._engines.named(row.job.engine)
        return self._allowed(
            row.job, by, allowance, lambda: resubmit(self.store, engine, row.id, by, request)
        )

    def wake(self) -> None:
        """Start a supervisor if none runs."""
        ensure_supervisor(self.home)

    def wake_if_open(self) -> None:
        """Start a supervisor if none runs and there is something to do for it."""
        if self.store.open_jobs():
            self.wake()

    def pause(self, began: float) -> None:
        """Wait before a state is asked for again, less in the first seconds since `began`."""
        time.sleep(pause(began))

    # What jobs name.

    def saved(self, kind: SavedKind) -> dict[str, Any]:
        """The code or the data that are saved."""
        named = saved(self.home)[kind]
        return {kind: [{"name": name, **fields} for name, fields in named.items()]}

    def save(self, kind: SavedKind, name: str, fields: Mapping[str, Any], base: Path) -> None:
        """Save code or data; see `drumline.jobs.sources.saved.save`."""
        save(self.home, kind, name, dict(fields), base)

    def remove_saved(self, kind: SavedKind, name: str) -> None:
        """Forget code or data."""
        remove_saved(self.home, kind, name)

    def secrets(self) -> dict[str, Any]:
        """The names of the secrets; there is no way to ask for a value."""
        return {"secrets": secret_names(self.home)}

    def set_secret(self, name: str, value: str) -> None:
        """Store a secret."""
        write_secret(self.home, name, value)

    def remove_secret(self, name: str) -> None:
        """Remove a secret."""
        remove_secret(self.home, name)

    def engines(self) -> dict[str, Any]:
        """The engines: what this machine has, and the settings of those that were added."""
        found: list[dict[str, Any]] = []
        for name in engine_names(self.home):
            record = read_record(self.home, name)
            kind, settings = (record.kind, dict(record.settings)) if record else (LOCAL, {})
            found.append({"name": name, "kind": kind, "settings": settings})
            if record is None:
                found[-1]["capacity"] = dict(self._engines[name].capacity())
        return {"engines": found}

    def add_engine(self, record: EngineRecord) -> None:
        """Add an engine; see `write_record`."""
        write_record(self.home, record)

    def remove_engine(self, name: str) -> None:
        """Remove an engine.

        Raises:
            EngineError: a job is open on it, or there is none.
        """
        of_it = [row.id for row in self.store.open_jobs() if row.job.engine == name]
        if of_it:
            raise EngineError(
                f"job {of_it[0]} is open on {name}: cancel it, or wait for its end, before."
            )
        remove_record(self.home, name)

    def _submit(
        self, job: Job, by: str, request: str | None, upload: Path | None, allowance: Allowance
    ) -> int:
        engine = self._engines.named(job.engine)
        return self._allowed(
            job, by, allowance, lambda: submit(self.store, engine, job, by, request, upload)
        )

    def _allowed(
        self, job: Job, by: str, allowance: Allowance, submission: Callable[[], int]
    ) -> int:
        """Submit if the member may. Those whose jobs are counted submit one at a time."""
        with self._lock:
            lock = self._submitting.setdefault(by, threading.Lock())
        with contextlib.ExitStack() as stack:
            opened = 0
            if allowance.jobs is not None:
                stack.enter_context(lock)
                counts = self.store.counts(by=by)
                opened = sum(count for state, count in counts.items() if state in OPEN)
            if problems := allowance.problems(job, opened):
                raise JobFileError(problems)
            try:
                number = submission()
            except SubmittedBeforeError as error:
                earlier = self._settled(error.number)
                if earlier is None:
                    text = "the same request has just failed; ask again"
                    raise StoreUnavailable(text, text) from None
                return earlier
        self.wake()
        return number

    def _read_request(self, asked: Mapping[str, Any], base: Path, uploaded: bool) -> Job:
        return requests.read(
            asked, base, uploaded, engine_names(self.home), saved(self.home), documents.JOB_FILE
        )

    def _processes(self, row: JobRow) -> list[dict[str, Any]]:
        """The processes of the latest start: their state, and what they used when last sampled."""
        attempts = self.store.attempts(row.id)
        if not attempts or row.job.engine not in self._engines:
            return []
        start = self._engines[row.job.engine].metrics(attempts[-1].handle)[1]
        pids = _json(start / "logs" / PROCESSES)
        samples = {n: use for path in usage_files(start) for n, use in _last_samples(path).items()}
        over = attempts[-1].ended is not None
        found = []
        for kind, role in row.job.roles.items():
            for index in range(role.count):
                name = f"{kind.removesuffix('s') if kind == 'workers' else kind}:{index}"
                used = samples.get(name, [None] * 4)
                use = dict(zip(("cpu", "memory", "gpu", "gpu_memory"), used, strict=False))
                state = row.state if over or name in pids or not pids else "starting"
                pid = pids.get(name, {}).get("pid")
                found.append({"name": name, "state": state, "pid": pid, **use})
        return found


def _list(names: Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none yet"


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):  # not there yet, or of an engine that has none
        return {}
    return found if isinstance(found, dict) else {}


def _last_samples(path: Path) -> dict[str, list[float | None]]:
    """What each process used when it was sampled last."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:  # torn, at either end
            continue
        if "t" in found:
            return {name: values for name, values in found.items() if isinstance(values, list)}
    return {}
