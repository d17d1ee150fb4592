"""Jobs on a Kubernetes cluster, each start as objects of its own.

What the supervisor knows of a start is in a folder of the workspace. `submitted.json` is written
before the first object is created and names them all; `created.json` after the last one. A start
without the second, whose supervisor was killed, is looked at: where all objects are there it is as
if nothing had happened, otherwise they are removed before it is started. `exit.json` says how it
has ended; by then its logs are here, and its objects are gone. A cluster that does not answer says
nothing of a job: it is lost, until it answers.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.engine import Start, StartError, State, Status
from drumline.jobs.engines.images import image_file_problems
from drumline.jobs.engines.kubernetes.api import (
    ApiRefusal,
    KubernetesApi,
    KubernetesError,
    is_temporary,
)
from drumline.jobs.engines.kubernetes.closing import StartClosing, torn_notes
from drumline.jobs.engines.kubernetes.connection import ConnectionSettingsError, read_cluster
from drumline.jobs.engines.kubernetes.data import data_problems, listed_claims
from drumline.jobs.engines.kubernetes.ends import PodView, end_of, is_of_role, judge
from drumline.jobs.engines.kubernetes.logs import LAUNCHER, PodLog
from drumline.jobs.engines.kubernetes.objects import (
    JOB_SET,
    START,
    WORKSPACE,
    CodeTooLarge,
    PodRole,
    StartDescription,
    StartNames,
    code_parts,
    owned,
    pod_roles,
    start_objects,
    wants_set,
)
from drumline.jobs.engines.kubernetes.questions import (
    has_resource,
    missing_permissions,
    settings_problems,
    warning_of,
)
from drumline.jobs.engines.kubernetes.settings import KubernetesSettings
from drumline.jobs.engines.kubernetes.watching import ObjectWatch
from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import RESOURCES, Job
from drumline.jobs.sources.preparation import add_notes, read_notes
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.store.workspace import identity

_SUBMITTED, _CREATED, _STOPPING = "submitted.json", "created.json", "stopping.json"
_VERDICT = "verdict.json"

_QUIET_SECONDS = 15.0
"""How long nothing may be heard of a cluster before its jobs are lost."""

_UNSEEN_SECONDS = 15.0
"""When a Job that was created and is not seen is asked for by its name."""

_GONE_SECONDS = KILL_SECONDS + 60
_ASK_SECONDS = 5.0
_PERIOD_SECONDS = 0.1
_POLL_SECONDS = 0.3
_RETRY_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A question about a start."""

    what: tuple[str, str, str]
    answer: concurrent.futures.Future[str]
    last: str
    at: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def said(self) -> str:
        return self.answer.result() if self.answer.done() else self.last


class KubernetesEngine:
    """Runs jobs on a Kubernetes cluster. It is an `Engine`.

    Args:
        home: the workspace.
        settings: of the cluster.
        reached: is called with the name of each step of a start; tests kill the supervisor there.
    """

    queues = True
    remote = True

    def __init__(
        self,
        home: Path,
        settings: KubernetesSettings,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._reached = reached
        self._identity = identity(home)
        self._pool = concurrent.futures.ThreadPoolExecutor(8, "kubernetes")
        self._lock = threading.Lock()
        self._api: KubernetesApi | None = None
        self._watches: dict[str, ObjectWatch] = {}
        self._starting: dict[str, concurrent.futures.Future[None]] = {}
        self._closing: dict[str, concurrent.futures.Future[None]] = {}
        self._notes: dict[str, str] = {}
        self._absent: set[str] = set()
        self._logs: dict[str, dict[str, PodLog]] = {}
        self._waiting: dict[str, float] = {}
        self._unseen: dict[str, float] = {}
        self._polled: dict[str, tuple[float, Status]] = {}
        self._asked: dict[str, _Asked] = {}

    def capacity(self) -> Mapping[str, float]:
        """See `Engine`. Whether a job fits is said by `check`."""
        return dict.fromkeys(RESOURCES, float("inf"))

    def problem(self) -> str:
        """Why it cannot be used at all; empty if it can."""
        try:
            api = self._cluster()
            api.request("GET", api.place("Job"), {"limit": "1"})
            api.request("GET", api.place("Pod"), {"limit": "1"})
            problems = settings_problems(self._settings, api) or missing_permissions(api)
        except (KubernetesError, ConnectionSettingsError) as error:
            return str(error)
        return "; ".join(problems)

    def check(self, job: Job) -> list[str]:
        """See `Engine`. The cluster is asked whether it would take each of the job's objects."""
        if files := image_file_problems(job):
            return files
        try:
            api = self._cluster()
            names = StartNames(f"drumline-check-{secrets.token_hex(4)}-{self._identity}")
            secret = dict.fromkeys(job.secrets, "x")
            start = StartDescription(
                *(job, 0, 0, names, api.namespace, self._identity, secret, None, "x"), code=["eA=="]
            )
            problems = settings_problems(self._settings, api)
            if problems:
                return problems  # All else would be refused for the same reason.
            problems = missing_permissions(api, self._pool.map) + data_problems(job, api)
            for body in start_objects(start, self._settings, self._as_set(job)):
                try:
                    api.create(body, dry_run=True)
                except ApiRefusal as refusal:
                    if is_temporary(refusal):
                        raise
                    problems.append(f"the cluster does not take the job: {refusal}")
            return list(dict.fromkeys(problems))
        except (KubernetesError, ConnectionSettingsError) as error:
            return [f"the cluster cannot be asked whether it takes the job: {error}"]

    def _as_set(self, job: Job) -> bool:
        """Whether the Jobs of a job are made by a JobSet.

        Raises:
            KubernetesError: the cluster cannot be asked whether it has such.
        """
        wanted = wants_set(job, self._settings)
        return wanted and has_resource(self._cluster(), JOB_SET, "jobsets")

    def handle(self, number: int, attempt: int) -> str:
        """See `Engine`."""
        return f"{number}/attempt-{attempt}"

    def folder(self, handle: str) -> Path:
        """The folder of an attempt in the workspace."""
        return self._home / "jobs" / handle

    def names(self, handle: str) -> StartNames:
        """Of the objects of a start."""
        return StartNames.of(handle, self._identity)

    def start(self, start: Start) -> None:
        """See `Engine`."""
        own = self.folder(start.handle)
        try:
            own.mkdir(parents=True, exist_ok=True, mode=0o700)
            if (own / _SUBMITTED).exists() and start.handle not in self._absent:
                return
            self._absent.discard(start.handle)
            self._reached("made")
            roles = pod_roles(start.job, self.names(start.handle))
            described = {
                "roles": [dataclasses.asdict(role) for role in roles],
                "timeout": start.job.timeout,
                "log_limit": start.job.log_limit,
                "time": time.time(),
            }
            attempt.write(own / _SUBMITTED, described)
            self._reached("submitted")
        except OSError as error:
            raise StartError(f"it cannot be started: {error}") from error
        self._starting[start.handle] = self._pool.submit(self._create_all, start)

    def _create_all(self, start: Start) -> None:
        own = self.folder(start.handle)
        try:
            bodies = self._bodies(start)
        except (CodeTooLarge, SecretError, OSError) as error:
            self._refuse(start.handle, str(error))
            return
        if bodies is None:
            return
        self._reached("described")
        owner: dict[str, Any] | None = None
        for number, body in enumerate(bodies):
            try:
                made = self._created(start.handle, body, owner)
            except ApiRefusal as refusal:
                self._remove(start.handle, pod_roles(start.job, self.names(start.handle)))
                kind, name = body["kind"], body["metadata"]["name"]
                self._refuse(start.handle, f"Kubernetes has refused the {kind} {name}: {refusal}")
                return
            if made is None:  # It was asked to end meanwhile.
                return
            owner = owner or made
            self._reached(f"created-{number}")
        attempt.write(own / _CREATED, {"time": time.time()})
        self._notes.pop(start.handle, None)
        self._reached("created")

    def _bodies(self, start: Start) -> list[dict[str, Any]] | None:
        """The objects of a start; None if it is to be stopped."""
        while not (self.folder(start.handle) / _STOPPING).exists():
            try:
                as_set = self._as_set(start.job)
                return start_objects(self._described(start), self._settings, as_set)
            except (KubernetesError, ConnectionSettingsError) as error:
                self._notes[start.handle] = f"is tried again: {error}"
            time.sleep(_RETRY_SECONDS)
        return None

    def _created(
        self, handle: str, body: Mapping[str, Any], owner: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """Create an object, as often as it takes; None if the start is to be stopped."""
        body = body if owner is None else owned(body, owner)
        kind, name = str(body["kind"]), str(body["metadata"]["name"])
        version = str(body["apiVersion"])
        while not (self.folder(handle) / _STOPPING).exists():
            try:
                api = self._cluster()
                # One of that name was created by an earlier try, of which no answer was heard.
                made = api.create(body) or api.get(kind, name, version)
                if made is not None and _is_of(made, owner):
                    return made
                self._notes[handle] = f"waits until the last {kind} {name} is removed"
            except (KubernetesError, ConnectionSettingsError) as error:
                if isinstance(error, ApiRefusal) and not is_temporary(error):
                    raise
                self._notes[handle] = f"is tried again: {error}"
            time.sleep(_RETRY_SECONDS)
        return None

    def _described(self, start: Start) -> StartDescription:
        parts: list[str] = []
        password = None
        try:
            parts = code_parts(start.source)
        except CodeTooLarge:
            # A repository that others reach can be fetched by the pods themselves.
            code = start.job.code
            if code.git is None or not code.git.startswith(("http://", "https://")):
                raise
            password = read_secret(self._home, code.token) if code.token else None
        return StartDescription(
            job=start.job,
            number=start.number,
            attempt=start.attempt,
            names=self.names(start.handle),
            namespace=self._cluster().namespace,
            identity=self._identity,
            secrets=start.secrets,
            git_password=password,
            token=secrets.token_hex(32),
            code=parts,
        )

    def _refuse(self, handle: str, reason: str) -> None:
        self._end(handle, Status("ended", None, reason, final=True))

    def _end(self, handle: str, status: Status) -> None:
        fields = {**dataclasses.asdict(status), "time": time.time()}
        attempt.write(self.folder(handle) / attempt.EXIT, fields)

    def poll(self, handle: str) -> Status:
        """See `Engine`."""
        status = self._poll(handle)
        return dataclasses.replace(status, notes=read_notes(self.folder(handle)))

    def _poll(self, handle: str) -> Status:
        own = self.folder(handle)
        if ended := attempt.read(own / attempt.EXIT):
            self._forget(handle)
            return _status(ended)
        submitted = attempt.read(own / _SUBMITTED)
        if submitted is None or handle in self._absent:
            return Status("absent")
        if future := self._running(self._closing, handle):
            _raise_problem(future)
            return Status("running", None, self._fetched(handle))
        if self._running(self._starting, handle):
            why = self._notes.get(handle, "")
            return Status("lost" if why else "starting", None, why or "is handed to Kubernetes")
        if not (own / _CREATED).exists() and not (own / attempt.EXIT).exists():
            self._closing[handle] = self._pool.submit(self._look, handle, submitted)
            return Status("starting", None, "what a killed supervisor has left is looked at")
        if verdict := attempt.read(own / _VERDICT):
            # It was being removed when the supervisor was killed.
            self._close_later(handle, _roles(submitted), _status(verdict))
            return Status("running", None, self._fetched(handle))
        at, known = self._polled.get(handle, (-1e9, None))
        if known is None or time.monotonic() - at > _POLL_SECONDS:
            known = self._watched(handle, submitted)
            self._polled[handle] = (time.monotonic(), known)
        return known

    def _running(
        self, futures: dict[str, concurrent.futures.Future[None]], handle: str
    ) -> concurrent.futures.Future[None] | None:
        """What is being done for a start, unless it is done."""
        future = futures.get(handle)
        if future is None or not future.done():
            return future
        del futures[handle]
        _raise_problem(future)
        return None

    def _look(self, handle: str, submitted: Mapping[str, Any]) -> None:
        """Find out how far a start has come whose supervisor was killed; undo half of one."""
        own, names = self.folder(handle), self.names(handle)
        roles = _roles(submitted)
        while True:
            try:
                api = self._cluster()
                found = api.get("JobSet", names.base) if len(roles) > 1 else None
                last = api.get("Job", roles[-1].name) if found is None else None
                whole = api.get("Secret", names.base) is not None
                if found is not None:
                    template = found["spec"]["replicatedJobs"][0]["template"]
                    whole = whole and self._has_code(api, template)
                elif last is None:
                    whole = False
                elif len(roles) == 1:
                    # What its pods lack is created after the only Job.
                    whole = whole and self._has_code(api, last)
                if whole:
                    attempt.write(own / _CREATED, {"time": time.time()})
                    return
                self._remove(handle, roles)
                self._absent.add(handle)
                return
            except (KubernetesError, ConnectionSettingsError) as error:
                self._notes[handle] = str(error)
            time.sleep(_RETRY_SECONDS)

    def _has_code(self, api: KubernetesApi, job: Mapping[str, Any]) -> bool:
        """Whether the ConfigMaps are there that its pods mount."""
        for volume in job["spec"]["template"]["spec"]["volumes"]:
            for source in volume.get("projected", {}).get("sources") or []:
                if api.get("ConfigMap", source["configMap"]["name"]) is None:
                    return False
        return True

    def _remove(self, handle: str, roles: Sequence[PodRole]) -> None:
        """Remove what owns all else of a start, and wait until it is gone."""
        until = time.monotonic() + _GONE_SECONDS
        while time.monotonic() < until:
            try:
                if not self._delete_owner(handle, roles):
                    return
            except (KubernetesError, ConnectionSettingsError) as error:
                self._notes[handle] = str(error)
            time.sleep(_PERIOD_SECONDS * 3)

    def _delete_owner(self, handle: str, roles: Sequence[PodRole]) -> bool:
        """Delete the JobSet or the first Job of a start; False if there is none any more.

        In the foreground: it goes when its pods have had their time.
        """
        api, found = self._cluster(), False
        if len(roles) > 1 and self._settings.local_queue:
            try:
                found = api.delete("JobSet", self.names(handle).base, "Foreground")
            except ApiRefusal as refusal:
                # Where there are none, the user may not be allowed to name them.
                if is_temporary(refusal) or refusal.code != 403:
                    raise
        return api.delete("Job", roles[0].name, "Foreground") or found

    def _watched(self, handle: str, submitted: Mapping[str, Any]) -> Status:
        jobs, pods = self._watch("Job"), self._watch("Pod")
        for watch in (jobs, pods):
            if watch.problem and time.monotonic() - watch.problem_since > _QUIET_SECONDS:
                said = "refuses to say" if watch.refused else "does not answer"
                return Status("lost", None, f"the cluster {said}: {watch.problem}")
        if jobs.listed is None or pods.listed is None:
            return Status("starting", None, "the cluster is asked for it")
        roles = _roles(submitted)
        views = self._views(handle, roles)
        self._follow(handle, views, submitted)
        if any(not jobs.exists(role.name) for role in roles):
            since = self._unseen.setdefault(handle, time.monotonic())
            if time.monotonic() - since > _UNSEEN_SECONDS:
                self._close_later(handle, roles, None)
            return Status("running" if views else "starting")
        self._unseen.pop(handle, None)
        waiting = any(view.waits()[0] for view in views)
        if waiting:
            self._waiting.setdefault(handle, time.time())
        else:
            self._waiting.pop(handle, None)
        status = self._judged(handle, roles, submitted)
        if status.state in ("ended", "gone"):
            self._close_later(handle, roles, status)
            return Status("running", None, self._fetched(handle))
        if status.state == "starting" and not waiting:
            return self._why_not(handle, roles, views) or status
        return status

    def _views(self, handle: str, roles: Sequence[PodRole]) -> list[PodView]:
        return _latest(self._watch("Pod"), self.names(handle).base, roles)

    def _judged(
        self, handle: str, roles: Sequence[PodRole], submitted: Mapping[str, Any]
    ) -> Status:
        known = self._watch("Job").objects(START, self.names(handle).base)
        views, now = self._views(handle, roles), time.time()
        since = self._waiting.get(handle, now)
        return judge(roles, known, views, submitted.get("timeout"), now, since)

    def _fetched(self, handle: str) -> str:
        why = self._notes.get(handle, "")
        return f"has ended; its logs are fetched{f', once it can be: {why}' if why else ''}"

    def _why_not(
        self, handle: str, roles: Sequence[PodRole], views: Sequence[PodView]
    ) -> Status | None:
        """Why pods are not made or not begun, as the cluster's newest warning has it."""
        there = {view.rank for view in views}
        lacking = next(
            (role for role in roles if not there >= {*range(role.first, role.first + role.count)}),
            None,
        )
        stuck = next((view for view in views if not view.began and not view.ended), None)
        if lacking is not None:
            asked = ("Job", lacking.name, f"{lacking.task}: its pods are not made: ")
        elif stuck is not None:
            asked = ("Pod", stuck.name, f"{stuck.process} is not begun: ")
        else:
            return None
        known = self._asked.get(handle)
        if known is None or known.what != asked or time.monotonic() - known.at > _ASK_SECONDS:
            # Until the answer is there, what was said last to the same question stands.
            last = known.said if known is not None and known.what == asked else ""
            known = _Asked(asked, self._pool.submit(self._warning, *asked), last)
            self._asked[handle] = known
        state: State = "starting" if lacking is None else "queued"
        return Status(state, None, known.said) if known.said else None

    def _warning(self, kind: str, name: str, begin: str) -> str:
        try:
            text = warning_of(self._cluster(), kind, name)
        except (KubernetesError, ConnectionSettingsError):
            return ""
        return f"{begin}{text}" if text else ""

    def _follow(self, handle: str, views: Sequence[PodView], submitted: Mapping[str, Any]) -> None:
        logs = self._logs.setdefault(handle, {})
        folder = self.folder(handle) / attempt.LOGS
        for view in views:
            if (view.began or view.ended) and view.name not in logs:
                again = _again(folder, view)
                own = f"{view.process.replace(':', '-')}{again}.log"
                files = folder / own, folder / f"{LAUNCHER}-{view.rank}{again}.log"
                logs[view.name] = PodLog(
                    self._cluster(), view.name, view.process, files, submitted["log_limit"],
                    functools.partial(self._pod_ended, handle, view.name),
                    lambda: sum(not each.done for of in list(self._logs.values())
                                for each in list(of.values())),
                )  # fmt: skip

    def _pod_ended(self, handle: str, name: str) -> bool:
        watch = self._watches["Pod"]
        pod = watch.objects(START, self.names(handle).base).get(name)
        if pod is None or not watch.exists(name):
            return True
        return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    def _close_later(self, handle: str, roles: Sequence[PodRole], status: Status | None) -> None:
        if handle not in self._closing:
            self._closing[handle] = self._pool.submit(self._close, handle, roles, status)

    def _close(self, handle: str, roles: Sequence[PodRole], status: Status | None) -> None:
        """Fetch what is left of the logs, remove the objects, and write down how it has ended.

        Args:
            handle: of the start.
            roles: of its job.
            status: how it has ended; None to see once its pods have.
        """
        own = self.folder(handle)
        submitted = attempt.read(own / _SUBMITTED) or {}
        closing = StartClosing(
            (self._watch("Job"), self._watch("Pod")),
            lambda: self._views(handle, roles),
            lambda views: self._follow(handle, views, submitted),
            lambda: self._logs.get(handle, {}),
            functools.partial(self._say, handle),
        )
        closing.catch_up()
        if status is not None:
            now = self._judged(handle, roles, submitted)
            # What was not known yet may be who failed first.
            if now.state in ("ended", "gone") and not (own / _VERDICT).exists():
                status = now
        closing.fetch_logs()
        if status is not None:
            attempt.write(own / _VERDICT, dataclasses.asdict(status))
        self._reached("closing")
        # Foreground: the Job goes when its pods have had their time.
        self._delete(handle, roles)
        self._reached("deleted")
        closing.await_gone(_GONE_SECONDS)
        closing.fetch_logs()
        if status is None:
            found = self._views(handle, roles)
            expected = sum(role.count for role in roles)
            status = end_of(found, expected, submitted.get("timeout"))
            stopping = (own / _STOPPING).exists()
            if status.state != "gone" and not stopping and status.code is None:
                status = dataclasses.replace(status, final=True)
        add_notes(own, torn_notes(own / attempt.LOGS))
        self._end(handle, status)

    def _say(self, handle: str, why: str) -> None:
        """Note why the cluster cannot be asked; nothing when it can."""
        if why:
            self._notes[handle] = why
        else:
            self._notes.pop(handle, None)

    def _delete(self, handle: str, roles: Sequence[PodRole]) -> None:
        """Delete all Jobs of a start; the first or their JobSet takes everything else along."""
        while True:
            try:
                for role in roles[1:]:
                    self._cluster().delete("Job", role.name, "Foreground")
                self._delete_owner(handle, roles)
                self._say(handle, "")
                return
            except (KubernetesError, ConnectionSettingsError) as error:
                self._say(handle, str(error))
            time.sleep(_RETRY_SECONDS)

    def cancel(self, handle: str) -> None:
        """See `Engine`. Its pods get SIGTERM, and the time to save."""
        own = self.folder(handle)
        submitted = attempt.read(own / _SUBMITTED)
        if submitted is None or (own / attempt.EXIT).exists() or handle in self._absent:
            return
        if not (own / _STOPPING).exists():
            attempt.write(own / _STOPPING, {"time": time.time()})
        if self._running(self._starting, handle) or self._running(self._closing, handle):
            return
        self._close_later(handle, _roles(submitted), None)

    def logs(self, handle: str) -> dict[str, Path]:
        """See `Engine`."""
        found: dict[str, Path] = {}
        folder = self.folder(handle) / attempt.LOGS
        for path in sorted(folder.glob("*-*.log")):
            task, dot, again = path.stem.partition(".")
            kind, _, index = task.rpartition("-")
            if kind == LAUNCHER:
                host = "" if index == "0" else f".host-{index}"
                found[f"job{dot}{again}{host}"] = path
            else:
                found[f"{kind}:{index}{dot}{again}"] = path
        return found

    def metrics(self, handle: str) -> tuple[Path, Path]:
        """See `Engine`; of metric files in pods their points are in the folder of the start."""
        own = self.folder(handle)
        return own.parent / "work", own

    def claims(self) -> Iterator[tuple[str, str]]:
        """See `Engine`: the claims of its namespace."""
        try:
            yield from listed_claims(self._cluster())
        except (KubernetesError, ConnectionSettingsError) as error:
            yield "", f"pvc://: {error}"

    def _forget(self, handle: str) -> None:
        for log in self._logs.pop(handle, {}).values():
            log.close()
        for known in (self._waiting, self._unseen, self._notes, self._starting, self._closing,
                      self._asked):  # fmt: skip
            known.pop(handle, None)
        self._polled.pop(handle, None)
        for watch in self._watches.values():
            watch.forget(START, self.names(handle).base)

    def _watch(self, kind: str) -> ObjectWatch:
        with self._lock:
            if kind not in self._watches:
                watch = ObjectWatch(self._cluster(), kind, f"{WORKSPACE}={self._identity}")
                watch.start()
                self._watches[kind] = watch
            return self._watches[kind]

    def _cluster(self) -> KubernetesApi:
        """The cluster, of which a kubeconfig is read once.

        Raises:
            ConnectionSettingsError: it cannot be used.
        """
        if self._api is None:
            cluster = read_cluster(self._settings.kubeconfig, self._settings.context)
            namespace = self._settings.namespace or cluster.namespace
            self._api = KubernetesApi(cluster, namespace)
        return self._api


def _status(fields: Mapping[str, Any]) -> Status:
    named = {name: fields[name] for name in ("state", "code", "reason", "final")}
    return Status(**named, hung=bool(fields.get("hung")))


def _roles(submitted: Mapping[str, Any]) -> list[PodRole]:
    return [PodRole(**role) for role in submitted["roles"]]


def _latest(pods: ObjectWatch, base: str, roles: Sequence[PodRole]) -> list[PodView]:
    """The pods of a start, of each process the newest one."""
    found: dict[int, tuple[str, PodView]] = {}
    for name, pod in pods.objects(START, base).items():
        if not is_of_role(pod, roles):
            continue  # Someone has copied our labels.
        view = PodView(pod, roles, pods.exists(name))
        made = str(pod["metadata"].get("creationTimestamp", ""))
        if view.rank not in found or found[view.rank][0] <= made:
            found[view.rank] = (made, view)
    return [view for _, view in found.values()]


def _again(folder: Path, view: PodView) -> str:
    """A part of file names for the second pod of a process and later ones: Kueue starts them."""
    marks = folder / f".pods-{view.rank}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileNotFoundError):
        known = marks.read_text().split()
        if view.name in known:
            number = known.index(view.name)
            return f".resumed-{number}" if number else ""
        with open(marks, "a") as file:
            file.write(f"{view.name}\n")
        return f".resumed-{len(known)}"
    marks.write_text(f"{view.name}\n")
    return ""


def _is_of(body: Mapping[str, Any], owner: Mapping[str, Any] | None) -> bool:
    """Whether an object belongs to this start, and is not being removed with an older one."""
    metadata = body["metadata"]
    if metadata.get("deletionTimestamp"):
        return False
    owners = [each.get("uid") for each in metadata.get("ownerReferences") or []]
    return owner is None or owner["metadata"]["uid"] in owners


def _raise_problem(future: concurrent.futures.Future[None]) -> None:
    """Raise what went wrong with what was done, which is a mistake in drumline."""
    if future.done():
        future.result()
