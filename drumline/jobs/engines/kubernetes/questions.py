"""What a cluster is asked before a job is handed to it, and while its pods are not made.

What may be done there, whether what the settings name is there, and which warnings there are of an
object. What a cluster does not let its user ask is not held against the job.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from drumline.jobs.engines.kubernetes.api import ApiRefusal, KubernetesApi, is_temporary
from drumline.jobs.engines.kubernetes.data import claim_problem
from drumline.jobs.engines.kubernetes.settings import GANGS, KubernetesSettings

KUEUE = "kueue.x-k8s.io"

# But `create`, which is asked for by a dry run of each object.
_NEEDED = {
    "batch jobs": ("get", "list", "watch", "delete"),
    " pods": ("list", "watch"),
    " pods/log": ("get",),
    " services": ("get",),
    " secrets": ("get",),
    " configmaps": ("get",),
}
_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_NAME_OF_A_POD = re.compile(r'^(?:Error creating: )?(?:pods "[^"]*" is )?')


def missing_permissions(
    api: KubernetesApi, many: Callable[[Callable[[Any], str], Iterable[Any]], Iterable[str]] = map
) -> list[str]:
    """What the user may not do that is needed while a job runs, in sentences with the verb.

    Args:
        api: the cluster.
        many: asks several questions; `map`, or one that does so at once.

    Raises:
        KubernetesError: it does not answer.
    """
    asked = [(*what.split(" "), verb) for what, verbs in _NEEDED.items() for verb in verbs]
    return [text for text in many(lambda each: _forbidden(api, *each), asked) if text]


def _forbidden(api: KubernetesApi, group: str, resource: str, verb: str) -> str:
    name, _, inside = resource.partition("/")
    attributes = {"namespace": api.namespace, "verb": verb, "group": group, "resource": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes | ({"subresource": inside} if inside else {})},
    }
    try:
        status = api.request("POST", _ACCESS, body=body).get("status") or {}
    except ApiRefusal as refusal:
        if is_temporary(refusal):
            raise
        return ""
    if status.get("allowed", True):
        return ""
    why = f" ({status['reason']})" if status.get("reason") else ""
    return (
        f"the user of the cluster may not {verb} {resource} in namespace {api.namespace}{why}; "
        f"a Role that allows the verb {verb} on {resource} has to be bound to it"
    )


def settings_problems(settings: KubernetesSettings, api: KubernetesApi) -> list[str]:
    """What the settings name and the cluster does not have.

    Args:
        settings: of the cluster.
        api: the cluster.

    Raises:
        KubernetesError: it does not answer.
    """
    return list(_settings_problems(settings, api))


def _settings_problems(settings: KubernetesSettings, api: KubernetesApi) -> Iterator[str]:
    place = f"/api/v1/namespaces/{urllib.parse.quote(api.namespace, safe='')}"
    if _asked(api, place) is None:
        yield f"there is no namespace {api.namespace} in the cluster"
        return
    if settings.queue:
        found = _asked(api, f"/apis/{KUEUE}")
        if found is None:
            yield f"queue: the cluster has no Kueue ({KUEUE}); leave the setting queue out"
        else:
            yield from _queue_problem(settings.queue, api, found)
    if settings.work_claim and (text := claim_problem(settings.work_claim, api)):
        yield f"work-claim: {text}"
    if settings.gang:
        version = GANGS[settings.gang].version
        if not has_resource(api, version, "podgroups"):
            yield (
                f"gang: the cluster has no PodGroups of {settings.gang} ({version}); install them "
                "there, or leave the setting gang out"
            )


def has_resource(api: KubernetesApi, version: str, resource: str) -> bool:
    """Whether a cluster has a kind of objects.

    Args:
        api: the cluster.
        version: with its group, as ``"batch/v1"``.
        resource: as ``"jobs"``.

    Raises:
        KubernetesError: it does not answer.
    """
    found = _asked(api, f"/apis/{version}")
    listed = (found or {}).get("resources") or []
    return any(isinstance(each, dict) and each.get("name") == resource for each in listed)


def _queue_problem(queue: str, api: KubernetesApi, group: Mapping[str, Any]) -> Iterator[str]:
    preferred = group.get("preferredVersion") or {}
    version = str(preferred.get("groupVersion") or f"{KUEUE}/v1beta1")
    place = f"/apis/{version}/namespaces/{urllib.parse.quote(api.namespace, safe='')}/localqueues"
    if _asked(api, f"{place}/{urllib.parse.quote(queue, safe='')}") is not None:
        return
    listed = (_asked(api, place) or {}).get("items") or []
    names = ", ".join(sorted(str(each["metadata"]["name"]) for each in listed)) or "none"
    yield f"queue: there is no local queue {queue} in namespace {api.namespace}; there is: {names}"


def _asked(api: KubernetesApi, place: str) -> dict[str, Any] | None:
    """The answer to a GET; None if there is nothing there; empty if it may not be looked at."""
    try:
        return api.request("GET", place)
    except ApiRefusal as refusal:
        if is_temporary(refusal):
            raise
        return None if refusal.code == 404 else {}


def warning_of(api: KubernetesApi, kind: str, name: str) -> str:
    """The newest warning about an object, as why a Job's pods are not made; or nothing.

    Args:
        api: the cluster.
        kind: of the object, as ``"Job"``.
        name: of the object.

    Raises:
        KubernetesError: it does not answer.
    """
    selector = f"involvedObject.kind={kind},involvedObject.name={name},type=Warning"
    try:
        place = api.place("Event")
        listed = api.request("GET", place, {"fieldSelector": selector, "limit": "100"})
    except ApiRefusal as refusal:
        if is_temporary(refusal):
            raise
        return ""  # Events may not be looked at by this user.
    found = [each for each in listed.get("items") or [] if each.get("type") == "Warning"]
    newest: Mapping[str, Any] = max(found, key=_time_of, default={})
    text = " ".join(str(newest.get("message") or newest.get("reason") or "").split())
    # Each try has another name, and is not another reason.
    return _NAME_OF_A_POD.sub("", text).rstrip(". ")


def _time_of(event: Mapping[str, Any]) -> str:
    times = (event.get(name) for name in ("lastTimestamp", "eventTime"))
    made = event.get("metadata", {}).get("creationTimestamp", "")
    return str(next((each for each in times if each), made))
