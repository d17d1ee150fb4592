"""What clusters may have besides Kubernetes itself: Kueue, JobSets and PodGroups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from drumline.jobs.file.values import JobFileError
from drumline.jobs.store.database import JobRow
from tests.jobs.kubernetes.api_server import COSCHEDULING, JOB_SET, KUEUE, VOLCANO
from tests.jobs.kubernetes.cluster import ProcessCluster
from tests.jobs.kubernetes.conftest import Bench
from tests.jobs.kubernetes.test_engine import FAIL, WAIT

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

ROLES = {"workers": 2, "ps": 1}


def cluster_of(bench: Bench) -> ProcessCluster:
    assert bench.cluster is not None
    return bench.cluster


def queued_by_kueue(bench: Bench, number: int) -> JobRow:
    return bench.until(number, lambda row: row.state == "queued" and "Kueue" in row.reason)


def objects(bench: Bench, kind: str) -> Mapping[str, Any]:
    return {k[2]: body for k, body in cluster_of(bench).store.objects.items() if k[0] == kind}


def test_kueue_pauses_it(bench: Bench) -> None:
    bench.renew(queue="team")
    assert bench.cluster is not None
    bench.cluster.add_queue("team")
    number = bench.submit(WAIT.replace("600", "30"), workers=2)
    row = bench.until(number, lambda row: "Kueue" in row.reason)
    assert row.state == "queued"
    bench.cluster.resume()
    bench.until(number, lambda row: "begun" in bench.logs(number).get("worker:1", ""))
    bench.cluster.suspend(True)
    bench.until(number, lambda row: "Kueue" in row.reason and not bench.cluster.pods())
    bench.cluster.resume()
    assert bench.end(number).state == "succeeded"
    logs = bench.logs(number)
    assert "saved" in logs["worker:0"] and "begun" in logs["worker:0.resumed-1"]


def test_roles_are_one_set_for_kueue(bench: Bench) -> None:
    bench.renew(queue="team")
    cluster = cluster_of(bench)
    cluster.add_queue("team")
    cluster.server.extensions.add(JOB_SET)
    number = bench.submit(WAIT.replace("600", "10"), **ROLES)
    queued_by_kueue(bench, number)
    (body,) = objects(bench, "jobsets").values()
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert [each["name"] for each in body["spec"]["replicatedJobs"]] == ["worker", "ps"]
    # Kueue admits the set: its Jobs are none of its own.
    assert not any("kueue.x-k8s.io/queue-name" in job["metadata"]["labels"]
                   for job in objects(bench, "jobs").values())  # fmt: skip
    cluster.resume()
    row = bench.end(number)
    assert row.state == "succeeded", f"{row.reason}\n{bench.all_logs(number)}"
    assert "begun" in bench.logs(number)["ps:0"]
    assert not bench.left()


def test_who_failed_first_in_a_set(bench: Bench) -> None:
    """Although the set ends its other Jobs as soon as one has failed."""
    bench.renew(queue="team")
    cluster = cluster_of(bench)
    cluster.add_queue("team")
    cluster.server.extensions.add(JOB_SET)
    number = bench.submit(FAIL, chief=True, **ROLES)
    queued_by_kueue(bench, number)
    cluster.resume()
    row = bench.end(number)
    assert row.state == "failed"
    assert row.reason.startswith("Failed first: worker:1"), row.reason
    assert "ValueError: the loss is not finite" in bench.logs(number)["worker:1"]


def test_a_set_is_cancelled(bench: Bench) -> None:
    bench.renew(queue="team")
    cluster = cluster_of(bench)
    cluster.add_queue("team")
    cluster.server.extensions.add(JOB_SET)
    number = bench.submit(WAIT, **ROLES)
    queued_by_kueue(bench, number)
    cluster.resume()
    bench.until(number, lambda row: "begun" in bench.logs(number).get("ps:0", ""))
    with bench.store.change():
        bench.store.set_stop(number, "cancel")
    assert bench.end(number).state == "cancelled"
    assert "saved" in bench.logs(number)["worker:1"]
    assert not bench.left()


@pytest.mark.parametrize(
    ("settings", "installed", "fields", "made"),
    [
        ({"queue": "team"}, [KUEUE], ROLES, {"jobs": 2, "jobsets": 0, "podgroups": 0}),
        ({"queue": "team"}, [KUEUE, JOB_SET], {"workers": 2}, {"jobs": 1, "jobsets": 0}),
        ({"queue": "team", "jobset": "never"}, [KUEUE, JOB_SET], ROLES, {"jobsets": 0}),
        ({}, [JOB_SET], ROLES, {"jobs": 2, "jobsets": 0}),
        ({"gang": "coscheduling"}, [COSCHEDULING], ROLES, {"podgroups": 1}),
        ({"gang": "volcano"}, [VOLCANO], ROLES, {"podgroups": 1}),
    ],
)
def test_what_is_used_is_what_there_is(
    bench: Bench, settings: Any, installed: list[str], fields: Any, made: dict[str, int]
) -> None:
    bench.renew(**settings)
    cluster = cluster_of(bench)
    cluster.add_queue("team")
    cluster.server.extensions = set(installed)
    number = bench.submit("print('done')", **fields)
    bench.until(number, lambda row: (bench.engine.folder(f"{number}/attempt-1") / "created.json")
                .exists())  # fmt: skip
    found = {kind: len(objects(bench, kind)) for kind in made}
    if "queue" in settings:
        queued_by_kueue(bench, number)
        cluster.resume()
    assert found == made
    row = bench.end(number)
    assert row.state == "succeeded", row.reason
    assert not bench.left()


@pytest.mark.parametrize(
    ("settings", "installed", "said"),
    [
        ({"queue": "team"}, [], "queue: the cluster has no Kueue"),
        ({"queue": "other"}, [KUEUE], "there is no local queue other in namespace team; there is: "
         "team"),
        ({"gang": "volcano"}, [COSCHEDULING], "no PodGroups of volcano"),
        ({"gang": "coscheduling"}, [VOLCANO], "no PodGroups of coscheduling"),
        ({"work_claim": "work"}, [], "work-claim: there is no claim work"),
        ({"namespace": "nowhere"}, [], "there is no namespace nowhere in the cluster"),
    ],
)  # fmt: skip
def test_what_is_not_there(bench: Bench, settings: Any, installed: list[str], said: str) -> None:
    bench.renew(**settings)
    cluster = cluster_of(bench)
    cluster.add_queue("team")
    cluster.server.extensions = set(installed)
    with pytest.raises(JobFileError, match=said):
        bench.submit("print(1)", workers=2)
    assert said.split(";")[0] in bench.engine.problem()
    assert not bench.left()
