"""What the pods and Jobs of a start say of it: a pure function."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.engines.engine import Status
from drumline.jobs.engines.kubernetes.objects import FETCH, MAIN, REPORT, RUN, PodRole
from drumline.jobs.sources.preparation import NOT_UPLOADED

LONELY_SECONDS = 45.0
"""When the others are ended after one has failed: their launchers do so themselves before that."""

_LOST_SECONDS = 60.0
"""How long a pod may be there when it should be gone, before its node is taken for lost."""

STARTING_SECONDS = 600.0
"""How long a container may be unable to start, before its job has failed."""

_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB = "batch.kubernetes.io/job-name"
_SIGNALLED = 128
_LOG = re.compile(rf"(?:on host \d+, )?{re.escape(RUN)}/logs/(\w+)-(\d+)[\w.-]*\.log")

_KEPT = re.compile(rf"what was written is kept in {re.escape(RUN)}/[^;\s]+")

_NEVER = ("InvalidImageName",)
_CANNOT_START = {
    "ErrImagePull": "the image {image} cannot be pulled",
    "ImagePullBackOff": "the image {image} cannot be pulled",
    "ErrImageNeverPull": "the image {image} is not on the node, and is not pulled",
    "InvalidImageName": "{image} is no name of an image",
    "CreateContainerConfigError": "its container cannot be made",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be started",
}


class PodView:
    """A pod as the cluster has it.

    Args:
        pod: the object.
        roles: of its job.
        present: whether the cluster has it still.

    Attributes:
        name: its name.
        job: its Job's.
        present: as given.
        process: as ``"worker:1"``.
        rank: of its launcher.
    """

    def __init__(
        self, pod: Mapping[str, Any], roles: Sequence[PodRole], present: bool = True
    ) -> None:
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        role = next(each for each in roles if each.name == labels.get(_JOB))
        index = int(labels.get(_INDEX) or (metadata.get("annotations") or {}).get(_INDEX, 0))
        self.name = str(metadata["name"])
        self.job = role.name
        self.present = present
        self.process = f"{role.task}:{index}"
        self.rank = role.first + index
        self._pod = pod
        self._status: Mapping[str, Any] = pod.get("status") or {}

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return str(self._status.get("phase", "Pending"))

    @property
    def ended(self) -> bool:
        """Whether it will run no more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def began(self) -> bool:
        """Whether its process has been started."""
        return bool(self._terminated) or "running" in self._state(MAIN)

    @property
    def code(self) -> int | None:
        """The exit code, if there is one."""
        code = self._terminated.get("exitCode")
        return None if code is None else int(code)

    @property
    def at(self) -> float:
        """When it ended, in seconds since the epoch; infinity if that is not known."""
        return _time(self._terminated.get("finishedAt"))

    @property
    def said(self) -> Mapping[str, Any] | None:
        """What its own program has said of its end: ``code``, ``reason`` and ``hung``."""
        try:
            found = json.loads(str(self._terminated.get("message", "")))
        except ValueError:
            return None
        if not isinstance(found, dict) or "code" not in found or "reason" not in found:
            return None
        # The logs of a pod are here by now.
        return {**found, "reason": _LOG.sub(r"\1:\2", str(found["reason"]))}

    @property
    def words(self) -> str:
        """The end of its log, if it has failed and has said nothing."""
        for line in reversed(str(self._terminated.get("message", "")).splitlines()):
            if (text := line.strip()) and not text.startswith(REPORT):
                return _KEPT.sub("what was written is gone with its pod", text)
        return ""

    @property
    def killed(self) -> str:
        """What Kubernetes has ended it for, in words; empty if it ended by itself."""
        reason, message = (str(self._status.get(key, "")) for key in ("reason", "message"))
        if self._terminated.get("reason") == "OOMKilled":
            limits = self._container.get("resources", {}).get("limits", {})
            limit = f"; its limit is {_memory(limits['memory'])}" if "memory" in limits else ""
            return f"ran out of memory (OOMKilled{limit})"
        if self.evicted:
            return f"was evicted by its node: {message.rstrip('. ') or 'no reason is given'}"
        if reason and reason != "DeadlineExceeded":
            return f"was ended by Kubernetes: {reason}{': ' if message else ''}{message}"
        return ""

    @property
    def evicted(self) -> bool:
        """Whether its node has evicted it, mostly for what it used up itself."""
        return self._status.get("reason") == "Evicted"

    @property
    def late(self) -> bool:
        """Whether it ran longer than it may."""
        return self._status.get("reason") == "DeadlineExceeded"

    @property
    def leaves(self) -> float:
        """When it is to be gone, if it is deleted; infinity otherwise."""
        return _time(self._pod["metadata"].get("deletionTimestamp"))

    @property
    def disrupted(self) -> str:
        """Why it ended although nothing was wrong with it: its node, or other pods; or empty."""
        for each in self._status.get("conditions") or []:
            if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
                return f"{each.get('reason', '')}: {each.get('message', '')}".strip(": ")
        return ""

    def waits(self) -> tuple[str, bool, bool]:
        """Why it does not run yet; whether it waits in a queue; and whether it always will."""
        for each in self._status.get("conditions") or []:
            if each.get("type") == "PodScheduled" and each.get("status") == "False":
                message = str(each.get("message") or each.get("reason") or "")
                return f"waits for a node: {message.rstrip('. ')}", True, False
        for name in (FETCH, MAIN):
            waiting = self._state(name).get("waiting") or {}
            reason = str(waiting.get("reason", ""))
            if reason in _CANNOT_START:
                said = str(waiting.get("message", "")).rstrip(". ")
                text = _CANNOT_START[reason].format(image=self._container.get("image", ""))
                said = f"{reason}{': ' if said else ''}{said}"
                return f"{text} ({said})", False, reason in _NEVER
        return "", False, False

    @property
    def _container(self) -> Mapping[str, Any]:
        listed = self._pod.get("spec", {}).get("containers") or [{}]
        return next((each for each in listed if each.get("name") == MAIN), listed[0])

    @property
    def _terminated(self) -> Mapping[str, Any]:
        found = self._state(MAIN).get("terminated")
        # Without its code the process is never begun.
        fetched = self._state(FETCH).get("terminated") or {}
        return found or (fetched if fetched.get("exitCode") else {})

    def _state(self, container: str) -> Mapping[str, Any]:
        for kind in ("containerStatuses", "initContainerStatuses"):
            for each in self._status.get(kind) or []:
                if each.get("name") == container:
                    return each.get("state") or {}
        return {}


def is_of_role(pod: Mapping[str, Any], roles: Sequence[PodRole]) -> bool:
    """Whether a pod is one that the Job of a role has made."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    index = labels.get(_INDEX) or (metadata.get("annotations") or {}).get(_INDEX, "0")
    return str(index).isdecimal() and any(
        each.name == labels.get(_JOB) and int(index) < each.count for each in roles
    )


def judge(
    roles: Sequence[PodRole],
    jobs: Mapping[str, Mapping[str, Any]],
    pods: Sequence[PodView],
    timeout: float | None,
    now: float,
    waiting_since: float,
) -> Status:
    """What has become of a start.

    Args:
        roles: of its job.
        jobs: the Jobs that the cluster has or had, by name.
        pods: as many as are known.
        timeout: of the job, in seconds.
        now: in seconds since the epoch.
        waiting_since: when it was first seen that a container cannot start.
    """
    expected = sum(role.count for role in roles)
    if _suspended(roles, jobs):
        return Status("queued", None, "waits to be let go by the cluster's queue (Kueue)")
    pods = [pod for pod in pods if pod.present or _has_failed(jobs.get(pod.job, {}))]
    # Of a node that is lost, none says that the process has ended.
    lost = {pod.name for pod in pods if now - pod.leaves > _LOST_SECONDS}
    alive = [pod for pod in pods if not pod.ended and pod.present and pod.name not in lost]
    all_over = len(pods) >= expected and not alive
    if all_over or (_over(roles, jobs) and not alive):
        return end_of(pods, expected, timeout)
    failed = [pod for pod in pods if pod.phase == "Failed"]
    if failed and now - min(pod.at for pod in failed) > LONELY_SECONDS:
        return end_of(pods, expected, timeout)
    if failed and all(pod.at == float("inf") for pod in failed):
        return end_of(pods, expected, timeout)
    for pod in sorted(alive, key=lambda each: each.rank):
        reason, queued, never = pod.waits()
        if queued:
            return Status("queued", None, f"{pod.process} {reason}")
        if reason and (never or now - waiting_since > STARTING_SECONDS):
            return Status("ended", None, f"{pod.process}: {reason}", final=never)
        if reason:
            return Status("starting", None, f"{pod.process}: {reason}")
    began = sum(pod.began for pod in pods)
    if began < expected:
        return Status("starting", None, f"{began} of {expected} pods run")
    return Status("running")


def end_of(pods: Sequence[PodView], expected: int, timeout: float | None) -> Status:
    """How a start has ended, by what is known of its pods."""
    by_time = sorted(pods, key=lambda pod: (pod.at, pod.rank))
    leader = next((pod for pod in pods if pod.rank == 0 and pod.said), None)
    if leader is not None and leader.code == 0:
        for pod in by_time:
            if pod.code == NOT_UPLOADED:
                return Status("ended", pod.code, f"Failed first: {pod.process}: {pod.words}")
        return Status("ended", 0)
    for pod in by_time:
        if pod.late:
            limit = "" if timeout is None else f", {timeout:g} s"
            # Whether it has saved or not: no code, by which it would be started again.
            return Status("ended", None, f"it ran longer than its timeout{limit}", True)
    for pod in by_time:
        if pod.phase == "Failed" and pod.killed and (pod.evicted or not pod.disrupted):
            return Status("ended", pod.code, f"Failed first: {pod.process} {pod.killed}")
    saved = next(_saved(by_time), None)
    if saved is not None:
        return saved
    for pod in by_time:
        if pod.disrupted:
            return Status("gone", pod.code, f"{pod.process} lost its node: {pod.disrupted}")
    if leader is not None and leader.said:
        hung = bool(leader.said.get("hung"))
        return Status("ended", leader.code, str(leader.said["reason"]), hung=hung)
    wrong = [pod for pod in by_time if pod.code != 0]
    if not wrong and len(pods) >= expected:
        return Status("ended", 0)
    if not wrong:
        unknown = f"{expected - len(pods)} of its {expected} pods were removed in the cluster"
        return Status("ended", None, unknown)
    pod = wrong[0]
    said = str((pod.said or {}).get("reason") or pod.words)
    what = f"exit code {pod.code}" if pod.code is not None else "it was removed in the cluster"
    return Status("ended", pod.code, f"Failed first: {pod.process}: {said or what}")


def _saved(pods: Sequence[PodView]) -> Iterator[Status]:
    """What was saved, to be started again."""
    if all(pod.code in (0, RESTART_STATUS) or (pod.code or 0) > _SIGNALLED for pod in pods):
        for pod in pods:
            if pod.code == RESTART_STATUS:
                yield Status("ended", RESTART_STATUS, str((pod.said or {}).get("reason", "")))


def _over(roles: Sequence[PodRole], jobs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether all Jobs say that they have ended."""
    return all(
        any(
            each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
            for each in (jobs.get(role.name, {}).get("status") or {}).get("conditions") or []
        )
        for role in roles
    )


def _has_failed(job: Mapping[str, Any]) -> bool:
    """Whether pods that are gone are those that have failed, and not of a time before a pause."""
    status = job.get("status") or {}
    return bool(status.get("failed") or status.get("conditions"))


def _suspended(roles: Sequence[PodRole], jobs: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(jobs.get(role.name, {}).get("spec", {}).get("suspend") for role in roles)


def _time(text: object) -> float:
    if not isinstance(text, str):
        return float("inf")
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return float("inf")


def _memory(quantity: str) -> str:
    return f"{int(quantity) / 2**30:.4g} GiB" if quantity.isdecimal() else quantity
