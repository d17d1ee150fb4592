"""What a cluster does not let happen: an error that says what and why, and nothing half done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline.jobs.file.values import JobFileError
from tests.jobs.kubernetes.conftest import Bench

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

ENGINE = "drumline.jobs.engines.kubernetes.engine"
API = "drumline.jobs.engines.kubernetes.api"
NEEDED = [
    *[("create", kind) for kind in ("jobs", "services", "secrets", "configmaps")],
    *[("get", kind) for kind in ("jobs", "services", "secrets", "configmaps", "pods/log")],
    *[(verb, kind) for kind in ("jobs", "pods") for verb in ("list", "watch")],
    ("delete", "jobs"),
]


@pytest.fixture
def nothing_left(bench: Bench) -> Iterator[None]:
    yield
    assert not bench.left()


@pytest.mark.parametrize(("verb", "kind"), NEEDED)
@pytest.mark.usefixtures("nothing_left")
def test_each_missing_permission_is_named(bench: Bench, verb: str, kind: str) -> None:
    assert bench.cluster is not None
    faults = bench.cluster.server.faults
    faults.denied = {(verb, kind)}
    with pytest.raises(JobFileError) as refused:
        bench.submit("print(1)", workers=2)
    (said,) = refused.value.problems
    wanted = f'cannot create resource "{kind}"' if verb == "create" else f"may not {verb} {kind}"
    assert wanted in said and "namespace" in said and "team" in said, said
    assert not bench.store.jobs()
    # A cluster that does not say what its user may do is not held to have said no.
    faults.denied = {("create", "selfsubjectaccessreviews")}
    assert bench.engine.check(_job(bench)) == []


def _job(bench: Bench) -> Any:
    from drumline.jobs.file.reading import make_job
    from tests.jobs.kubernetes.conftest import ENGINE as NAME

    return make_job({"command": ["python", "train.py"], "engine": NAME}, bench.home, engines=[NAME])


@pytest.mark.usefixtures("nothing_left")
def test_a_permission_that_is_taken_away_at_a_start(bench: Bench) -> None:
    number = bench.submit("print(1)", restarts=3)
    assert bench.cluster is not None
    bench.cluster.server.faults.denied = {("create", "secrets")}
    row = bench.end(number)
    assert row.state == "failed" and "Kubernetes has refused the Secret" in row.reason
    assert row.restarts == 0, "it would be refused again"
    assert 'cannot create resource "secrets"' in row.reason


def test_a_permission_that_is_taken_away_while_it_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{ENGINE}._QUIET_SECONDS", 0.5)
    assert bench.cluster is not None
    number, release = bench.hold()
    bench.cluster.server.faults.denied = {("watch", "pods")}
    bench.cluster.server.faults.down = True  # so that the watch is begun again
    time.sleep(0.3)
    bench.cluster.server.faults.down = False
    row = bench.until(number, lambda row: row.state == "lost" and "refuses" in row.reason)
    assert "the cluster refuses to say: pods is forbidden" in row.reason, row.reason
    assert 'cannot watch resource "pods"' in row.reason
    release()
    bench.cluster.server.faults.denied = set()
    assert bench.end(number).state == "succeeded"
    assert bench.logs(number)["worker:0"].splitlines() == ["begun", "end"]


def test_pods_that_a_quota_does_not_allow(bench: Bench) -> None:
    assert bench.cluster is not None
    bench.cluster.quota = 1
    number = bench.submit("print('done')", workers=2)
    row = bench.until(number, lambda row: "quota" in row.reason)
    assert row.state == "queued"
    assert row.reason == (
        "worker: its pods are not made: forbidden: exceeded quota: compute, requested: pods=1, "
        "used: pods=1, limited: pods=1"
    )
    bench.cluster.quota = 2
    assert bench.end(number).state == "succeeded"


def test_a_service_account_that_is_not_there(bench: Bench) -> None:
    bench.renew(service_account="train")
    assert bench.cluster is not None
    number = bench.submit("print('done')")
    row = bench.until(number, lambda row: "train" in row.reason)
    assert row.reason == (
        "worker: its pods are not made: forbidden: error looking up service account team/train: "
        'serviceaccount "train" not found'
    )
    bench.cluster.service_accounts.add("train")
    assert bench.end(number).state == "succeeded"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "Digits_1"}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"workers": {"image": "Example.com/A B"}}, "image"),
        ({"env": {"A=B": "1"}}, "A=B"),
        ({"data": [{"from": "pvc://Sets_1/x", "at": "/mnt/x"}]}, "no claim Sets_1"),
        ({"data": [{"from": "pvc://a/b", "at": "/mnt/a:b"}]}, "a:b"),
        ({"data": [{"from": "nfs://na s/x", "at": "/mnt/x"}]}, "nfs"),
    ],
)
@pytest.mark.usefixtures("nothing_left")
def test_names_that_kubernetes_refuses(bench: Bench, fields: Any, said: str) -> None:
    with pytest.raises(JobFileError, match=said):
        bench.submit("print(1)", **fields)
    assert not bench.store.jobs()


def test_what_the_cluster_refuses_is_said_of_each_object(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what no rule of drumline's knows."""
    module = "tests.jobs.kubernetes.api_server"
    monkeypatch.setattr(f"{module}.broken_rules", lambda body: [f"no {body['kind']} today"])
    with pytest.raises(JobFileError) as refused:
        bench.submit("print(1)", workers=2)
    found = "\n".join(refused.value.problems)
    for kind in ("Job", "Service", "Secret", "ConfigMap"):
        assert f"the cluster does not take the job: no {kind} today" in found


def test_a_cluster_that_takes_requests_and_does_not_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{API}.ANSWER_SECONDS", 0.3)
    assert bench.cluster is not None
    bench.cluster.server.faults.silent = True
    with pytest.raises(JobFileError, match="does not answer: no answer in time"):
        bench.submit("print(1)")
    assert not bench.store.jobs()
    assert "does not answer" in bench.engine.problem()
    bench.cluster.server.faults.silent = False
    assert bench.engine.problem() == ""


def test_a_kubeconfig_that_is_gone(bench: Bench) -> None:
    Path(bench.settings.kubeconfig).unlink()
    bench.renew()
    with pytest.raises(
        JobFileError, match="the cluster cannot be asked.*kubeconfig cannot be read"
    ):
        bench.submit("print(1)")
    assert not bench.store.jobs()
