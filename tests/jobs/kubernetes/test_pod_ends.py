"""What is made of pods and Jobs, as a pure function."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drumline.jobs.engines.engine import Status
from drumline.jobs.engines.kubernetes.ends import PodView, is_of_role, judge
from drumline.jobs.engines.kubernetes.objects import PodRole

ROLES = [PodRole("workers", "w", "worker", 0, 2), PodRole("ps", "p", "ps", 2, 1)]
AT = "2026-11-27T10:00:{:02}Z"
TEN = 1795773600.0
RUNNING: dict[str, Any] = {"running": {}}


def pod(
    job: str, index: int, phase: str = "Running", present: bool = True, **status: Any
) -> PodView:
    state = status.pop("state", RUNNING)
    listed = [{"name": "main", "state": state}] if state else []
    labels = {
        "batch.kubernetes.io/job-name": job,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    container = {"name": "main", "image": "i", "resources": {"limits": {"memory": str(2**31)}}}
    body = {
        "metadata": {"name": f"{job}-{index}", "labels": labels},
        "spec": {"containers": [container]},
        "status": {"phase": phase, "containerStatuses": listed, **status},
    }
    return PodView(body, ROLES, present)


def ended(code: int, second: int = 0, reason: str = "", said: str | None = None) -> dict[str, Any]:
    state = {"exitCode": code, "finishedAt": AT.format(second), "reason": reason}
    if said is not None:
        state["message"] = json.dumps({"code": code, "reason": said})
    return {"terminated": state}


def seen(*pods: PodView, jobs: Any = None, after: float = 1, waits: float = 0) -> Status:
    now = TEN + after
    return judge(ROLES, jobs or {}, pods, 12.0, now, now - waits)


DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
OTHERS = (pod("w", 1), pod("p", 0))


def test_it_runs_when_all_do() -> None:
    assert seen(pod("w", 0), *OTHERS) == Status("running")
    assert seen(pod("w", 0)).reason == "1 of 3 pods run"
    # That the others are not known yet does not say that they have ended.
    first = pod("w", 0, "Succeeded", state=ended(0, said=""))
    assert seen(first).state == "starting" and seen(first, *OTHERS[:1]).state == "starting"
    assert seen().state == "starting"


def test_the_verdict_of_the_first_pod_stands() -> None:
    good = pod("w", 0, "Succeeded", state=ended(0, said=""))
    # A parameter server may end as it likes when the training is done.
    all_ = (
        good,
        pod("w", 1, "Succeeded", state=ended(0)),
        pod("p", 0, "Failed", state=ended(137, 0, "OOMKilled")),
    )
    assert seen(*all_) == Status("ended", 0)
    verdict = "Failed first: worker:1. See its log, on host 1, /drumline/run/logs/worker-1.log."
    bad = pod("w", 0, "Failed", state=ended(1, 3, said=verdict))
    others = pod("w", 1, "Failed", state=ended(1, 0)), pod("p", 0, "Failed", state=ended(1, 1))
    status = Status("ended", 1, "Failed first: worker:1. See its log, worker:1.")
    assert seen(bad, *others) == status


def test_a_failed_pod_is_given_time_to_be_judged_by_its_others() -> None:
    failed = pod("w", 1, "Failed", state=ended(3, 0))
    assert seen(pod("w", 0), failed, pod("p", 0)).state == "running"
    alone = seen(pod("w", 0), failed, pod("p", 0), after=46)
    assert alone == Status("ended", 3, "Failed first: worker:1: exit code 3")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (
            pod("w", 0, "Failed", state=ended(137, 0, "OOMKilled")),
            Status("ended", 137, "Failed first: worker:0 ran out of memory (OOMKilled; its limit "
                   "is 2 GiB)"),
        ),
        (
            pod("w", 0, "Failed", state={}, reason="Evicted", message="low on memory. ",
                conditions=DISRUPTED),
            Status("ended", None, "Failed first: worker:0 was evicted by its node: low on memory"),
        ),
        (
            pod("w", 0, "Failed", state=ended(75), reason="DeadlineExceeded"),
            Status("ended", None, "it ran longer than its timeout, 12 s", True),
        ),
        (
            pod("w", 0, "Failed", state=ended(137), conditions=DISRUPTED),
            Status("gone", 137, "worker:0 lost its node: PreemptionByScheduler"),
        ),
    ],
)  # fmt: skip
def test_what_kubernetes_has_ended(first: PodView, expected: Status) -> None:
    later = ended(1, 9, said="Failed first: worker:0 was lost")
    others = pod("w", 1, "Failed", state=later), pod("p", 0, "Failed", state=later)
    assert seen(first, *others) == expected


def test_what_was_saved_is_started_again() -> None:
    first = pod("w", 0, "Failed", state=ended(143, 1, said="ended by SIGTERM"))
    others = (pod("w", 1, "Failed", state=ended(75, 2, said="saved, to be started again")),
              pod("p", 0, "Failed", state=ended(143, 1)))  # fmt: skip
    assert seen(first, *others) == Status("ended", 75, "saved, to be started again")


def test_waiting() -> None:
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    queued = pod("w", 0, "Pending", state={}, conditions=[condition])
    assert seen(queued, *OTHERS) == Status(
        "queued", None, "worker:0 waits for a node: 0/3 nodes are available: 3 Insufficient "
        "nvidia.com/gpu",
    )  # fmt: skip
    pulling = {"waiting": {"reason": "ErrImagePull", "message": "no such host."}}
    waits = pod("w", 0, "Pending", state=pulling)
    said = "worker:0: the image i cannot be pulled (ErrImagePull: no such host)"
    assert seen(waits, *OTHERS) == Status("starting", None, said)
    assert seen(waits, *OTHERS, waits=601) == Status("ended", None, said)
    never = pod("w", 0, "Pending", state={"waiting": {"reason": "InvalidImageName"}})
    assert seen(never, *OTHERS).final


def test_a_pause() -> None:
    jobs = {"w": {"spec": {"suspend": True}}, "p": {"spec": {"suspend": True}}}
    gone = [pod("w", i, "Failed", present=False, state=ended(75, said="saved")) for i in range(2)]
    gone.append(pod("p", 0, "Failed", present=False, state=ended(143)))
    assert "Kueue" in seen(*gone, jobs=jobs).reason
    # Let go, before there are others: those of before do not count.
    assert seen(*gone, jobs={"w": {"spec": {}}, "p": {"spec": {}}}).state == "starting"


@pytest.mark.parametrize(
    ("labels", "ours"),
    [
        ({"job-name": "w", "job-completion-index": "1"}, True),
        ({"job-name": "w", "job-completion-index": "2"}, False),
        ({"job-name": "w", "job-completion-index": "x"}, False),
        ({"job-name": "another", "job-completion-index": "0"}, False),
        ({}, False),
    ],
)
def test_pods_of_others(labels: dict[str, str], ours: bool) -> None:
    """They may have our labels, as a copy of a pod by hand has."""
    metadata = {"name": "x", "labels": {f"batch.kubernetes.io/{k}": v for k, v in labels.items()}}
    assert is_of_role({"metadata": metadata}, ROLES) is ours


def test_a_node_that_is_lost() -> None:
    """Nothing is heard of its pod, which should be gone."""
    body = {
        "metadata": {"name": "w-1", "deletionTimestamp": AT.format(0), "labels": {
            "batch.kubernetes.io/job-name": "w", "batch.kubernetes.io/job-completion-index": "1"}},
        "status": {"phase": "Running", "conditions": DISRUPTED,
                   "containerStatuses": [{"name": "main", "state": RUNNING}]},
    }  # fmt: skip
    gone = PodView(body, ROLES)
    others = (
        pod("w", 0, "Failed", state=ended(143, 50)),
        pod("p", 0, "Failed", state=ended(143, 50)),
    )
    assert seen(gone, pod("w", 0), pod("p", 0), after=30).state == "running", "it has time"
    assert seen(gone, *others, after=55).state == "running"
    lost = seen(gone, *others, after=70)
    assert (lost.state, lost.reason) == ("gone", "worker:1 lost its node: PreemptionByScheduler")


def test_pods_that_were_removed_in_the_cluster() -> None:
    over = {"status": {"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]}}
    status = seen(jobs={"w": over, "p": over})
    assert status == Status("ended", None, "3 of its 3 pods were removed in the cluster")
