"""One start of a job as objects of Kubernetes.

An indexed Job for each role, and a headless Service, by whose names the pods find each other. The
first Job owns everything else, so that nothing outlives it. Names are known beforehand:
`StartNames`.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.kubernetes.data import brought, data_volumes
from drumline.jobs.engines.kubernetes.settings import GANGS, KubernetesSettings, toleration
from drumline.jobs.engines.launching import KILL_SECONDS, launch_command
from drumline.jobs.file.model import ROLES, Job, JobRole

PORT = 2222
"""Where the launcher of the first pod listens for the others."""

LABEL = "drumline.dev"
START, WORKSPACE, ROLE = f"{LABEL}/start", f"{LABEL}/workspace", f"{LABEL}/role"
MAIN, FETCH = "main", "code"
"""Containers: the process, and before it what brings code that is too large to be sent along."""

ROOT = "/drumline"
RUN, CODE, WORK, END = f"{ROOT}/run", f"{ROOT}/code", f"{ROOT}/work", f"{ROOT}/end.json"
"""In a pod: a folder of its own, the code as it was sent, the working copy, how it has ended."""

HOST = "{host}"
"""In a launcher's command line: the name of its pod."""

TOKEN_KEY = "rendezvous-token"
"""In the Secret of a start: what its launchers prove to each other that they know."""

REPORT = "[drumline] "
"""How lines of a pod's log begin that are not of its processes but for the workspace: JSON."""

_IN_POD = ("-P", "-m", "drumline_command.job_process")
PART = 900_000
"""Bytes of the archive in one ConfigMap; Kubernetes takes 1 MiB."""

MOST_PARTS = 10

LARGEST = PART * MOST_PARTS

JOB_SET = "jobset.x-k8s.io/v1alpha2"

_QUEUE = "kueue.x-k8s.io/queue-name"
_OF_THE_SET = ("suspend", "ttlSecondsAfterFinished")
_KEPT_SECONDS = 7 * 24 * 3600  # Should no supervisor remove it sooner.
_SHORT = {"chief": "chief", "workers": "worker", "ps": "ps", "evaluator": "evaluator"}


@dataclasses.dataclass(frozen=True)
class StartNames:
    """The names of a start's objects.

    Attributes:
        base: of the Service and the Secret, and the beginning of all others.
    """

    base: str

    @classmethod
    def of(cls, handle: str, identity: str) -> StartNames:
        """Those of the start with a handle, in a workspace."""
        return cls(f"drumline-{handle.replace('/attempt-', '-')}-{identity}")

    def job(self, role: str) -> str:
        """The Job of a role: the name that a JobSet would give it."""
        return f"{self.base}-{_SHORT[role]}-0"

    def part(self, number: int) -> str:
        """The ConfigMap with a part of the code."""
        return f"{self.base}-code-{number}"


@dataclasses.dataclass(frozen=True)
class PodRole:
    """The pods of one role.

    Attributes:
        role: as in a job file.
        name: its Job's.
        task: as in ``TF_CONFIG``.
        first: the rank of the first.
        count: how many.
    """

    role: str
    name: str
    task: str
    first: int
    count: int


def pod_roles(job: Job, names: StartNames) -> list[PodRole]:
    """The roles in the order of ranks; the first pod of the first one is rank 0."""
    found: list[PodRole] = []
    rank = 0
    for role in ROLES:
        if role in job.roles:
            count = job.roles[role].count
            found.append(PodRole(role, names.job(role), _SHORT[role], rank, count))
            rank += count
    return found


@dataclasses.dataclass(frozen=True)
class StartDescription:
    """What objects are made of.

    Attributes:
        job: what is started.
        number: the job's.
        attempt: from 1.
        names: of the objects.
        namespace: where they are.
        identity: the workspace's.
        secrets: values, by the names of variables.
        git_password: the value of the secret by which pods fetch the code, or None.
        token: what the launchers prove to each other that they know.
        code: the parts of an archive; empty if the pods fetch the code from git.
    """

    job: Job
    number: int
    attempt: int
    names: StartNames
    namespace: str
    identity: str
    secrets: Mapping[str, str]
    git_password: str | None
    token: str
    code: Sequence[str]


def wants_set(job: Job, settings: KubernetesSettings) -> bool:
    """Whether its Jobs are better one JobSet, where there are such: Kueue admits that at once."""
    return bool(settings.local_queue and not settings.jobset and len(job.roles) > 1)


def start_objects(
    start: StartDescription, settings: KubernetesSettings, as_set: bool = False
) -> list[dict[str, Any]]:
    """The objects, in the order in which they are created; the first owns the others.

    Args:
        start: what they are made of.
        settings: of the cluster.
        as_set: whether the Jobs of the roles are made by a JobSet.
    """
    roles = pod_roles(start.job, start.names)
    jobs = [_job(start, settings, roles, role) for role in roles]
    if as_set:
        jobs = [_job_set(start, settings, jobs, roles)]
    rest = [_secret(start), *_config_maps(start)]
    if sum(role.count for role in roles) > 1:
        rest.insert(0, _service(start))
    if settings.gang:
        rest.insert(0, _pod_group(start, settings, roles))
    # The first waits for the second ones, and nothing of the user's runs before the last is there.
    return [jobs[0], *rest, *jobs[1:]]


def owned(body: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """`body`, to be removed together with `owner`."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def _metadata(start: StartDescription, name: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/managed-by": "drumline",
        WORKSPACE: start.identity,
        START: start.names.base,
        f"{LABEL}/name": start.job.name,
    }
    return {"name": name, "namespace": start.namespace, "labels": labels}


def _service(start: StartDescription) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(start, start.names.base),
        "spec": {
            "clusterIP": "None",
            # Pods look each other up before they are ready.
            "publishNotReadyAddresses": True,
            "selector": {START: start.names.base},
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    }


def _secret(start: StartDescription) -> dict[str, Any]:
    values = {**start.secrets, TOKEN_KEY: start.token}
    if start.git_password is not None:
        values["git-password"] = start.git_password
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(start, start.names.base),
        "type": "Opaque",
        "immutable": True,
        "stringData": values,
    }


def _config_maps(start: StartDescription) -> Iterator[dict[str, Any]]:
    for number, part in enumerate(start.code):
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(start, start.names.part(number)),
            "immutable": True,
            "binaryData": {f"part-{number:03}": part},
        }


def _pod_group(
    start: StartDescription, settings: KubernetesSettings, roles: Sequence[PodRole]
) -> dict[str, Any]:
    spec: dict[str, Any] = {"minMember": sum(role.count for role in roles)}
    if settings.queue and not settings.local_queue:
        spec["queue"] = settings.queue
    return {
        "apiVersion": GANGS[settings.gang].version,
        "kind": "PodGroup",
        "metadata": _metadata(start, start.names.base),
        "spec": spec,
    }


def _job_set(
    start: StartDescription,
    settings: KubernetesSettings,
    jobs: Sequence[Mapping[str, Any]],
    roles: Sequence[PodRole],
) -> dict[str, Any]:
    """https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/"""
    templates = []
    for job, role in zip(jobs, roles, strict=True):
        spec = {k: v for k, v in job["spec"].items() if k not in _OF_THE_SET}
        labels = {k: v for k, v in job["metadata"]["labels"].items() if k != _QUEUE}
        template = {"metadata": {"labels": labels}, "spec": spec}
        templates.append({"name": role.task, "replicas": 1, "template": template})
    return {
        "apiVersion": JOB_SET,
        "kind": "JobSet",
        "metadata": _in_queue(_metadata(start, start.names.base), settings),
        "spec": {
            # Names of pods are those of the Service that there is without a JobSet, too.
            "network": {"enableDNSHostnames": False},
            "replicatedJobs": templates,
            "suspend": True,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
        },
    }


def _in_queue(metadata: dict[str, Any], settings: KubernetesSettings) -> dict[str, Any]:
    if not settings.local_queue:
        return metadata
    return {**metadata, "labels": {**metadata["labels"], _QUEUE: settings.local_queue}}


def _job(
    start: StartDescription,
    settings: KubernetesSettings,
    roles: Sequence[PodRole],
    role: PodRole,
) -> dict[str, Any]:
    metadata = _metadata(start, role.name)
    template = {"labels": {**metadata["labels"], ROLE: role.task}}
    if settings.gang:
        gang = GANGS[settings.gang]
        kind = "annotations" if gang.annotation else "labels"
        template[kind] = {**template.get(kind, {}), gang.mark: start.names.base}
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": role.count,
        "parallelism": role.count,
        # A process that fails is not started alone, and its Job does not end the others, which
        # agree with each other on who has failed first.
        "backoffLimitPerIndex": 0,
        "template": {"metadata": template, "spec": _pod(start, settings, roles, role)},
    }
    if role is roles[0]:
        spec["ttlSecondsAfterFinished"] = _KEPT_SECONDS
    if settings.local_queue:
        spec["suspend"] = True  # Kueue lets it go.
    metadata = _in_queue(metadata, settings)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _pod(
    start: StartDescription,
    settings: KubernetesSettings,
    roles: Sequence[PodRole],
    role: PodRole,
) -> dict[str, Any]:
    job = start.job
    volumes, mounts = _volumes(start, settings)
    several = sum(each.count for each in roles) > 1
    size = job.roles[role.role]
    image = size.image or settings.image
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(KILL_SECONDS) + 10,
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(settings.service_account),
        "volumes": volumes,
        "containers": [
            {
                "name": MAIN,
                "image": image,
                "command": [_verbatim(settings.python), *_IN_POD, "kubernetes-pod"],
                "args": list(map(_verbatim, _pod_arguments(start, settings, roles, role))),
                "env": _environment(start),
                "resources": _resources(size, settings),
                "volumeMounts": mounts,
                "terminationMessagePath": END,
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
    }
    if several:
        spec["subdomain"] = start.names.base
    if not start.code:
        spec["initContainers"] = [_fetch(start, settings, image, mounts)]
    if job.timeout is not None:
        spec["activeDeadlineSeconds"] = max(1, math.ceil(job.timeout))
    gang = GANGS.get(settings.gang)
    if scheduler := settings.scheduler or (gang.scheduler if gang else ""):
        spec["schedulerName"] = scheduler
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = [toleration(text) for text in settings.tolerations]
    if settings.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    return spec


def _pod_arguments(
    start: StartDescription,
    settings: KubernetesSettings,
    roles: Sequence[PodRole],
    role: PodRole,
) -> list[str]:
    """For `drumline.jobs.engines.kubernetes.in_pod.pod`."""
    if sum(each.count for each in roles) == 1:
        launcher = launch_command(start.job, Path(RUN, "logs"))
        rendezvous = host = ""
    else:
        options = ["--host", HOST, "--rendezvous-seconds", "1000000"]
        launcher = launch_command(start.job, Path(RUN, "logs"), several_hosts=options)
        host = f"{role.name}-{{index}}.{start.names.base}.{start.namespace}.svc"
        first = f"{roles[0].name}-0.{start.names.base}.{start.namespace}.svc"
        rendezvous = f"{first}:{PORT}"
    # The launcher is the image's, and shows what its process writes.
    launch = launcher.index("launch")
    launcher = [settings.python, *launcher[1 : launch + 1], "--prefix-output"] + launcher[
        launch + 1 :
    ]
    own = str(len(launcher) - len(start.job.command))
    shared = start.names.base if settings.work_claim else ""
    data = brought(start.job)
    return [str(role.first), host, rendezvous, own, data, shared, "--", *launcher]


def _environment(start: StartDescription) -> list[dict[str, Any]]:
    plain = {
        **start.job.env,
        "DRUMLINE_JOB": str(start.number),
        "DRUMLINE_ATTEMPT": str(start.attempt),
    }
    found: list[dict[str, Any]] = [
        {"name": name, "value": _verbatim(value)} for name, value in plain.items()
    ]
    secret = {name: name for name in start.secrets} | {"DRUMLINE_RENDEZVOUS_TOKEN": TOKEN_KEY}
    found += [_from_secret(start, name, key) for name, key in secret.items()]
    return found


def _from_secret(start: StartDescription, variable: str, key: str) -> dict[str, Any]:
    reference = {"name": start.names.base, "key": key}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


def _verbatim(text: str) -> str:
    """`text`, in which Kubernetes would put variables in the place of ``$(NAME)``."""
    return text.replace("$", "$$")


def _resources(size: JobRole, settings: KubernetesSettings) -> dict[str, Any]:
    """CPUs are reserved; what is more is used where it is free. Memory and GPUs are limits."""
    limits: dict[str, str] = {}
    if size.memory:
        limits["memory"] = str(size.memory)
    if size.gpus:
        limits[settings.gpu] = str(size.gpus)
    requests = {"cpu": f"{math.ceil(size.cpus * 1000)}m", **limits}
    return {"requests": requests} | ({"limits": limits} if limits else {})


def _volumes(
    start: StartDescription, settings: KubernetesSettings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes, and where they are mounted."""
    volumes: list[dict[str, Any]] = [
        {"name": "run", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "run", "mountPath": RUN},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if start.code:
        parts = [{"configMap": {"name": start.names.part(n)}} for n in range(len(start.code))]
        volumes.append({"name": "code", "projected": {"sources": parts}})
        mounts.append({"name": "code", "mountPath": CODE, "readOnly": True})
    if settings.work_claim:
        claim = {"claimName": settings.work_claim}
        volumes.append({"name": "work", "persistentVolumeClaim": claim})
        inside = f"drumline/{start.identity}/{start.number}"
        mounts.append({"name": "work", "mountPath": WORK, "subPath": inside})
    else:
        volumes.append({"name": "work", "emptyDir": {}})
        mounts.append({"name": "work", "mountPath": WORK})
    for number, (volume, mount) in enumerate(data_volumes(start.job)):
        volumes.append({"name": f"data-{number}", **volume})
        mounts.append({"name": f"data-{number}", **mount})
    return volumes, mounts


def _fetch(
    start: StartDescription, settings: KubernetesSettings, image: str, mounts: Sequence[Any]
) -> dict[str, Any]:
    """What fetches the code from git, before the process."""
    code = start.job.code
    assert code.git is not None and code.commit is not None
    words = [code.git, code.commit, code.user or ""]
    found: dict[str, Any] = {
        "name": FETCH,
        "image": image,
        "command": [_verbatim(settings.python), *_IN_POD, "kubernetes-code"],
        "args": list(map(_verbatim, words)),
        "volumeMounts": [each for each in mounts if each["name"] == "work"],
        "resources": {"requests": {"cpu": "100m"}},
        "terminationMessagePath": END,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if start.git_password is not None:
        found["env"] = [_from_secret(start, "GIT_PASSWORD", "git-password")]
    return found


class CodeTooLarge(Exception):
    """Code that is too large to be sent along."""


def code_parts(folder: Path, largest: int = LARGEST) -> list[str]:
    """The parts of a compressed archive of a folder, each in base64.

    Raises:
        CodeTooLarge: it is larger. The largest files are named.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as files:
        for path in sorted(folder.iterdir()):
            files.add(path, path.name)
    data = packed.getvalue()
    if len(data) > largest:
        sizes = {p: p.lstat().st_size for p in folder.rglob("*") if not p.is_dir()}
        worst = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
        listed = ", ".join(f"{p.relative_to(folder)} ({sizes[p] / 2**20:.1f} MiB)" for p in worst)
        raise CodeTooLarge(
            f"its code has {len(data) / 1e6:.1f} MB when compressed, and at most "
            f"{largest / 1e6:g} MB are sent to a cluster. The largest files: {listed}. Give the "
            "code as a git repository, which the pods fetch themselves, or add what the job does "
            "not need to .gitignore, or put it into the image"
        )
    parts = [data[i : i + PART] for i in range(0, len(data), PART)]
    return [base64.b64encode(part).decode() for part in parts]
