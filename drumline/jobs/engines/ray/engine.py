"""Jobs on a Ray cluster: all processes of one on one of its nodes, under one launcher.

What the supervisor knows of a start is in a folder of the workspace: `submitted.json` before the
cluster is asked, `accepted.json` once it has the job, `exit.json` when it has ended and its logs
are here. Ray knows a job by a name made of the start's, and refuses a second one of that name.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
import shlex
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.engine import SettingError, Start, StartError, Status
from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.ray.api import RayApi, RayError, checked_address
from drumline.jobs.engines.ray.in_job import FILE, RESULT
from drumline.jobs.engines.starting import start_environment
from drumline.jobs.file.model import RESOURCES, Job, amount
from drumline.jobs.sources.data import data_kind
from drumline.jobs.store.workspace import identity

_SUBMITTED, _ACCEPTED, _STOPPING = "submitted.json", "accepted.json", "stopping.json"
_QUIET_SECONDS = 15.0
_PERIOD_SECONDS = 1.0
_STOP_SECONDS = 5.0
_LINE = re.compile(r"(job|note|(?:chief|worker|ps|evaluator):\d+[\w.-]*) \| (.*)")
_SENT = ("JAX_", "XLA_", "KERAS_", "OMP_", "LC_")


@dataclasses.dataclass(frozen=True)
class RaySettings:
    """A Ray cluster, as it was added.

    Attributes:
        address: of its dashboard, as ``http://head:8265``.
        python: the nodes' Python that has drumline.
    """

    address: str
    python: str = "python"

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RaySettings:
        """The settings that `dataclasses.asdict` has written, or another than us has sent.

        Raises:
            SettingError: naming what cannot be.
        """
        for key, value in fields.items():
            if not isinstance(value, str):
                raise SettingError(f"{key} must be text, not {json.dumps(value, default=str)}")
        return read_ray_settings([f"{key}={value}" for key, value in fields.items()])


def read_ray_settings(given: Sequence[str]) -> RaySettings:
    """The settings in words as ``address=http://head:8265``.

    Raises:
        SettingError: naming what cannot be.
    """
    fields: dict[str, str] = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or not value or key not in ("address", "python") or key in fields:
            raise SettingError(
                f"{word!r} is not understood; known are address and python, each once"
            )
        fields[key] = value
    if "address" not in fields:
        raise SettingError("the address is missing: --set address=http://head:8265")
    fields["address"] = checked_address(fields["address"])
    return RaySettings(**fields)


class RayEngine:
    """Runs jobs on a Ray cluster. It is an `Engine`.

    Args:
        home: the workspace.
        settings: of the cluster.
    """

    queues = True
    remote = True

    def __init__(self, home: Path, settings: RaySettings) -> None:
        self._jobs = home / "jobs"
        self._settings = settings
        self._api = RayApi(settings.address)
        self._identity = identity(home)
        self._pool = concurrent.futures.ThreadPoolExecutor(8, "ray")
        self._asking: dict[str, concurrent.futures.Future[Status]] = {}
        self._polled: dict[str, tuple[float, Status]] = {}
        self._heard: dict[str, float] = {}
        self._stopped: dict[str, float] = {}

    def capacity(self) -> Mapping[str, float]:
        """See `Engine`. Whether a job fits is said by `check`."""
        return dict.fromkeys(RESOURCES, float("inf"))

    def problem(self) -> str:
        """Why it cannot be used at all; empty if it can."""
        try:
            version = self._api.request("GET", "/api/version")
            if not isinstance(version, dict) or "ray_version" not in version:
                return f"{self._settings.address} is no dashboard of Ray's"
        except RayError as error:
            return str(error)
        return ""

    def check(self, job: Job) -> list[str]:
        """See `Engine`. The cluster is asked for its nodes."""
        problems = [
            job.problem(name, "image: is not used by this engine; leave it out")
            for name, role in job.roles.items()
            if role.image
        ]
        if job.secrets:
            problems.append(
                job.problem(
                    "secrets[0]", "Ray shows the variables of jobs to all who reach its dashboard; "
                    "give the nodes their credentials by other means"
                )
            )  # fmt: skip
        for i, each in enumerate(job.data):
            if data_kind(each.source) == "pvc":
                problems.append(job.problem(f"data[{i}].from", "is a claim of Kubernetes"))
        try:
            nodes = self._nodes()
        except RayError as error:
            return [*problems, f"the cluster cannot be asked whether it takes the job: {error}"]
        if not any(all(job.needs[r] <= node[r] for r in RESOURCES) for node in nodes):
            listed = "; ".join(
                ", ".join(amount(node[r], r) for r in RESOURCES if node[r]) for node in nodes
            )
            needs = ", ".join(amount(job.needs[r], r) for r in RESOURCES if job.needs[r])
            problems.append(
                f"the job needs {needs} on one node, where all its processes run, and the nodes "
                f"have {listed or 'nothing'}"
            )
        return problems

    def _nodes(self) -> list[dict[str, float]]:
        """What each node has, by the names in `RESOURCES`."""
        answer = self._api.request("GET", "/api/v0/nodes?detail=1&limit=10000")
        try:
            rows = answer["data"]["result"]["result"]
            held = [row["resources_total"] for row in rows if row["state"] == "ALIVE"]
        except (KeyError, TypeError):
            raise RayError("it does not say which nodes it has") from None
        kinds = {"cpus": "CPU", "memory": "memory", "gpus": "GPU"}
        return [{r: float(each.get(kind, 0)) for r, kind in kinds.items()} for each in held]

    def handle(self, number: int, attempt: int) -> str:
        """See `Engine`."""
        return f"{number}/attempt-{attempt}"

    def folder(self, handle: str) -> Path:
        """The folder of an attempt in the workspace."""
        return self._jobs / handle

    def submission(self, handle: str) -> str:
        """By what Ray knows a start."""
        return f"drumline-{handle.replace('/attempt-', '-')}-{self._identity}"

    def start(self, start: Start) -> None:
        """See `Engine`."""
        own = self.folder(start.handle)
        try:
            own.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not (own / _SUBMITTED).exists():
                described = {
                    "job": start.job.to_json(), "number": start.number, "attempt": start.attempt
                }  # fmt: skip
                attempt.write(own / _SUBMITTED, described)
        except OSError as error:
            raise StartError(f"it cannot be started: {error}") from error

    def poll(self, handle: str) -> Status:
        """See `Engine`. The cluster is asked in the background."""
        own = self.folder(handle)
        if ended := attempt.read(own / attempt.EXIT):
            for known in (self._asking, self._polled, self._heard, self._stopped):
                known.pop(handle, None)
            return Status(**{**ended, "notes": tuple(ended["notes"])})
        if not (own / _SUBMITTED).exists():
            return Status("absent")
        if (future := self._asking.get(handle)) is not None and future.done():
            del self._asking[handle]
            self._polled[handle] = (time.monotonic(), future.result())
        at, status = self._polled.get(handle, (-1e9, Status("starting", None, "Ray is asked")))
        if handle not in self._asking and time.monotonic() - at > _PERIOD_SECONDS:
            self._asking[handle] = self._pool.submit(self._ask, handle)
        return status

    def _ask(self, handle: str) -> Status:
        heard = self._heard.setdefault(handle, time.monotonic())
        try:
            status = self._asked(handle)
            self._heard[handle] = time.monotonic()
            return status
        except RayError as error:
            if time.monotonic() - heard > _QUIET_SECONDS:
                return Status("lost", None, str(error))
            return self._polled.get(handle, (0.0, Status("starting", None, str(error))))[1]
        except OSError as error:
            return self._end(handle, Status("ended", None, f"it cannot be submitted: {error}"))

    def _asked(self, handle: str) -> Status:
        own, submission = self.folder(handle), self.submission(handle)
        found = self._api.job(submission)
        accepted = (own / _ACCEPTED).exists()
        if found is None:
            if accepted:
                forgotten = "the Ray cluster was restarted, and does not know the job any more"
                return self._end(handle, Status("gone", None, forgotten))
            if (own / _STOPPING).exists():
                return self._end(handle, Status("ended", None, "cancelled before it had started"))
            return self._submit(handle)
        if not accepted:
            attempt.write(own / _ACCEPTED, {"time": time.time()})
        said = str(found.get("message") or "")
        if found["status"] == "PENDING":
            return Status("queued", None, f"Ray: {said}" if said else "Ray has not started it yet")
        notes, result = self._fetch_logs(handle)
        if found["status"] == "RUNNING":
            return Status("running", notes=notes)
        if result is not None:
            hung = bool(result["hung"])
            code, reason = int(result["code"]), str(result["reason"])
            return self._end(handle, Status("ended", code, reason, False, notes, hung))
        if found["status"] == "STOPPED":
            return self._end(handle, Status("ended", None, "Ray has stopped it", False, notes))
        ended = found.get("driver_exit_code")
        return self._end(handle, Status("ended", ended, f"Ray: {said}", False, notes))

    def _end(self, handle: str, status: Status) -> Status:
        attempt.write(self.folder(handle) / attempt.EXIT, dataclasses.asdict(status))
        return status

    def _submit(self, handle: str) -> Status:
        described = attempt.read(self.folder(handle) / _SUBMITTED)
        assert described is not None
        job = Job.from_json(described["job"])
        folder = self.folder(handle).parent
        start = Start(job, described["number"], described["attempt"], handle, folder / "source", {})
        given = attempt.read(folder / "environment.json") or {}
        sent = {name: value for name, value in given.items() if name.startswith(_SENT)}
        package = _package(folder / "source", job, start_environment(start, sent))
        name = f"_ray_pkg_{hashlib.sha256(package).hexdigest()[:32]}.zip"
        self._api.request("PUT", f"/api/packages/gcs/{name}", package)
        command = f"{shlex.quote(self._settings.python)} -P -m drumline_command.job_process ray-job"
        wait = {"RAY_JOB_STOP_WAIT_TIME_S": f"{KILL_SECONDS:.0f}"}
        body = {
            "entrypoint": command,
            "submission_id": self.submission(handle),
            "runtime_env": {"working_dir": f"gcs://{name}", "env_vars": wait},
            "entrypoint_num_cpus": job.needs["cpus"],
            "entrypoint_num_gpus": job.needs["gpus"],
            "entrypoint_memory": int(job.needs["memory"]),
        }
        try:
            self._api.request("POST", "/api/jobs/", body)
        except RayError as error:
            # It says the same of a job that it has, and of one that it does not take.
            if error.status and self._api.job(self.submission(handle)) is None:
                refused = f"Ray has refused it: {error}"
                return self._end(handle, Status("ended", None, refused, final=True))
            raise
        attempt.write(self.folder(handle) / _ACCEPTED, {"time": time.time()})
        return Status("queued", None, "Ray has not started it yet")

    def _fetch_logs(self, handle: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:
        """Write down what a job has printed so far; its notes, and how it has ended."""
        said = self._api.request("GET", f"/api/jobs/{self.submission(handle)}/logs")["logs"] or ""
        logs: dict[str, list[str]] = {"job": []}
        notes: list[str] = []
        result = None
        for line in said.split("\n"):
            if line.startswith(RESULT):
                with contextlib.suppress(ValueError):
                    result = json.loads(line.removeprefix(RESULT))
            elif found := _LINE.fullmatch(line):
                if found[1] == "note":
                    notes.append(found[2])
                else:
                    logs.setdefault(found[1], []).append(found[2])
            elif line:
                logs["job"].append(line)
        folder = self.folder(handle) / attempt.LOGS
        folder.mkdir(exist_ok=True, mode=0o700)
        for name, lines in logs.items():
            text = "".join(f"{line}\n" for line in lines).encode()
            _append(folder / f"{name.replace(':', '-')}.log", text)
        return tuple(notes), result

    def cancel(self, handle: str) -> None:
        """See `Engine`. Ray sends SIGTERM, and kills after the time that it was given."""
        own = self.folder(handle)
        if not (own / _SUBMITTED).exists() or (own / attempt.EXIT).exists():
            return
        if not (own / _STOPPING).exists():
            attempt.write(own / _STOPPING, {"time": time.time()})
        if time.monotonic() - self._stopped.get(handle, -1e9) > _STOP_SECONDS:
            self._stopped[handle] = time.monotonic()
            self._pool.submit(self._stop, handle)

    def _stop(self, handle: str) -> None:
        with contextlib.suppress(RayError):  # It is asked again.
            self._api.request("POST", f"/api/jobs/{self.submission(handle)}/stop", b"")

    def logs(self, handle: str) -> dict[str, Path]:
        """See `Engine`."""
        found: dict[str, Path] = {}
        for path in sorted((self.folder(handle) / attempt.LOGS).glob("*.log")):
            task, dot, again = path.stem.partition(".")
            kind, dash, index = task.rpartition("-")
            found[f"{kind}:{index}{dot}{again}" if dash else task] = path
        return found

    def metrics(self, handle: str) -> tuple[Path, Path]:
        """See `Engine`; what is on the nodes is not fetched, so that both lack it."""
        own = self.folder(handle)
        return own.parent / "work", own

    def claims(self) -> Iterator[tuple[str, str]]:
        """See `Engine`; there are none."""
        return iter(())


def _package(source: Path, job: Job, env: Mapping[str, str]) -> bytes:
    """An archive of a job's code as Ray takes it, the same for the same job."""
    described = json.dumps({"job": job.to_json(), "env": dict(env)})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as files:
        for where, folders, names in os.walk(source):
            folders.sort()
            for name in sorted(names):
                path = Path(where, name)
                if path.is_file():
                    entry = zipfile.ZipInfo(str(path.relative_to(source)))
                    entry.external_attr = path.stat().st_mode << 16
                    files.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        files.writestr(zipfile.ZipInfo(FILE), described)
    return packed.getvalue()


def _append(path: Path, text: bytes) -> None:
    """Make a log what it is now; who reads it sees it grow."""
    size = path.stat().st_size if path.exists() else 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, text[size:], size)
    finally:
        os.close(file)
