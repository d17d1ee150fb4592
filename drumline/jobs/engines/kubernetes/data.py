"""A job's data in pods: claims and shares are volumes; what is in object stores is brought.

An object store or a named dataset is fetched in each pod, by the program that does so on other
machines, too; where a container may not mount, a link is at the mount path.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumline.jobs.engines.kubernetes.api import ApiRefusal, KubernetesApi, is_temporary
from drumline.jobs.engines.preparing import preparation
from drumline.jobs.file.model import Code, Job, JobData
from drumline.jobs.sources.data import data_kind

_HOST = re.compile(r"[\w.:\[\]-]+", re.A)
_OWN = ("/drumline", "/dev", "/proc", "/sys", "/etc")


def data_problems(job: Job, api: KubernetesApi) -> list[str]:
    """What a cluster cannot let a job see.

    Args:
        job: with the places of its parts.
        api: the cluster.

    Raises:
        KubernetesError: it does not answer.
    """
    problems = []
    for number, each in enumerate(job.data):
        kind = data_kind(each.source)
        text = ""
        if kind == "folder":
            text = (
                f"{each.source} is a folder of this machine, which pods do not see: copy it to a "
                "claim (pvc://CLAIM/path), a share (nfs://HOST/path) or an object store"
            )
        elif kind == "pvc":
            claim, inside = _claim(each.source)
            text = f"{each.source} must be pvc://CLAIM or pvc://CLAIM/path"
            if claim and ".." not in inside.split("/"):
                text = claim_problem(claim, api)
        elif kind == "nfs":
            host, slash, path = each.source.removeprefix("nfs://").partition("/")
            if not (_HOST.fullmatch(host) and slash) or ".." in path.split("/"):
                text = f"{each.source} must be nfs://HOST/path"
        elif each.source.startswith("memory://"):
            text = "memory:// is a store of one process; no job could see it"
        if text:
            problems.append(job.problem(f"data[{number}].from", text))
        if text := _path_problem(each.at):
            problems.append(job.problem(f"data[{number}].at", text))
    if text := _path_problem(job.code.at):
        problems.append(job.problem("code", f"at: {text}"))
    return problems


def data_volumes(job: Job) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The source of each volume, and its mount."""
    for each in job.data:
        kind = data_kind(each.source)
        read_only = not each.write
        mount: dict[str, Any] = {"mountPath": each.at, "readOnly": read_only}
        if kind == "pvc":
            claim, inside = _claim(each.source)
            volume = {"persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}
            yield volume, mount | ({"subPath": inside} if inside else {})
        elif kind == "nfs":
            host, _, path = each.source.removeprefix("nfs://").partition("/")
            share = {"server": host, "path": f"/{path.strip('/')}", "readOnly": read_only}
            yield {"nfs": share}, mount


def brought(job: Job) -> str:
    """What a pod itself brings to its mount paths, for `before_launcher`; empty for nothing."""
    data = [each for each in job.data if data_kind(each.source) in ("store", "dataset")]
    if not data and not job.code.at:
        return ""
    return json.dumps({"data": [dataclasses.asdict(each) for each in data], "at": job.code.at})


def before_launcher(text: str, run: Path, work: Path) -> list[str]:
    """The words to put in front of a launcher in a pod.

    Args:
        text: of `brought`.
        run: a folder of the pod's own.
        work: the working copy of the code.
    """
    if not text:
        return []
    todo = json.loads(text)
    data = tuple(JobData(**each) for each in todo["data"])
    job = Job("job", (), code=Code(at=todo["at"]), data=data)
    for name in ("job", "attempt"):
        (run / name).mkdir(exist_ok=True, mode=0o700)
    return preparation(job, run / "job", run / "attempt", work)


def _claim(source: str) -> tuple[str, str]:
    claim, _, inside = source.removeprefix("pvc://").partition("/")
    return claim, inside.strip("/")


def claim_problem(claim: str, api: KubernetesApi) -> str:
    """That there is no such claim, and which there are; empty if there is, or none may look.

    Raises:
        KubernetesError: the cluster does not answer.
    """
    try:
        if api.get("PersistentVolumeClaim", claim) is not None:
            return ""
        listed = api.request("GET", api.place("PersistentVolumeClaim"), {"limit": "20"})
    except ApiRefusal as refusal:
        if is_temporary(refusal):
            raise
        return ""  # It may be used by pods, and not be looked at by this user.
    names = ", ".join(sorted(each["metadata"]["name"] for each in listed.get("items") or []))
    return f"there is no claim {claim} in namespace {api.namespace}; there is: {names or 'none'}"


def listed_claims(api: KubernetesApi) -> Iterator[tuple[str, str]]:
    """The claims of a namespace: an address that a job file may have, and what it is.

    Raises:
        KubernetesError: the cluster does not answer, or does not let this user look.
    """
    listed = api.request("GET", api.place("PersistentVolumeClaim"), {"limit": "200"})
    for each in sorted(listed.get("items") or [], key=lambda each: str(each["metadata"]["name"])):
        spec, status = each.get("spec") or {}, each.get("status") or {}
        requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        known = [status.get("phase"), requested, *(spec.get("accessModes") or [])]
        details = ", ".join(str(part) for part in known if part)
        place = f"a claim of namespace {api.namespace}"
        yield f"pvc://{each['metadata']['name']}", f"{place}: {details}" if details else place


def _path_problem(at: str) -> str:
    hidden = next((own for own in _OWN if at == own or at.startswith(f"{own}/")), "")
    return f"{at} is in {hidden}, which a pod needs itself" if hidden else ""
