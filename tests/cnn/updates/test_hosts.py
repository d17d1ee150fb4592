"""Who takes part: what a launcher says, and hosts that do not answer."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import drumline as dl
from drumline.cnn.consistency import check
from drumline.cnn.flags import parse
from drumline.cnn.updates import hosts, parameter_servers
from drumline.distribute.parameter_server.wire import AuthenticationError
from tests.ports import free_addresses

WORKERS, SERVERS = ["10.0.0.1:1", "10.0.0.2:1"], ["10.0.0.1:2"]


def launched(monkeypatch: pytest.MonkeyPatch, job: str, index: int, **cluster: Any) -> Any:
    """The flags of a process that a launcher has started as that task."""
    config = {"cluster": cluster, "task": {"type": job, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    return hosts.with_launcher(parse([]))


def test_roles_of_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    found = launched(monkeypatch, "worker", 1, worker=WORKERS, ps=SERVERS)
    check(found)
    assert (found.job_name, found.task_index) == ("worker", 1)
    assert (found.worker_hosts, found.ps_hosts) == ("10.0.0.1:1,10.0.0.2:1", "10.0.0.1:2")
    found = launched(monkeypatch, "ps", 0, worker=WORKERS, ps=SERVERS)
    assert (found.job_name, found.task_index) == ("ps", 0)


def test_a_chief_is_the_first_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"chief": WORKERS[:1], "worker": WORKERS[1:]}
    chief = launched(monkeypatch, "chief", 0, **cluster)
    worker = launched(monkeypatch, "worker", 0, **cluster)
    assert chief.worker_hosts == worker.worker_hosts == ",".join(WORKERS)
    assert (chief.job_name, chief.task_index) == ("worker", 0)
    assert (worker.job_name, worker.task_index) == ("worker", 1)


def test_flags_stand_and_one_process_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched(monkeypatch, "worker", 0, worker=WORKERS[:1]).job_name == ""
    launched(monkeypatch, "worker", 1, worker=WORKERS)
    given = parse(["--job_name=worker", "--worker_hosts=a:1"])
    assert hosts.with_launcher(given) is given


def test_an_evaluator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="leave it out .--evaluator"):
        launched(monkeypatch, "evaluator", 0, worker=WORKERS)
    assert hosts.with_launcher(parse(["--eval", "--train_dir=x"])).job_name == ""


def flags_of(workers: list[str], servers: list[str], job: str = "worker", index: int = 0) -> Any:
    given = [f"--worker_hosts={','.join(workers)}", f"--ps_hosts={','.join(servers)}"]
    return parse([*given, f"--job_name={job}", f"--task_index={index}"])


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", "0" * 64)
    # As if the tasks were in processes of their own.
    monkeypatch.setattr("drumline.distribute.parameter_server.wire.server.find", lambda _: None)
    return free_addresses(3)


def test_who_does_not_answer_is_named_with_its_flag(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_FIRST_LINE_SECONDS", 0.0)
    flags, lines = flags_of(addresses[:2], addresses[2:]), []
    server = dl.distribute.Server(hosts.cluster_of(flags), "ps", 0)
    why = f"--worker_hosts: worker 1 at {addresses[1]} .*refused.*--job_name=worker --task_index=1"
    with pytest.raises(TimeoutError, match=f"(?s){why}"):
        hosts.wait_for_others(flags, lines.append, seconds=0.5)
    server.close()
    assert lines[0].startswith(f"Waiting for worker 1 at {addresses[1]}: ")
    with pytest.raises(TimeoutError, match=f"--ps_hosts: ps 0 at {addresses[2]} .*--job_name=ps"):
        hosts.wait_for_others(flags_of(addresses[:1], addresses[2:]), lines.append, seconds=0.5)


def test_another_token_is_refused_at_once(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = flags_of(addresses[:1], addresses[2:])
    server = dl.distribute.Server(hosts.cluster_of(flags), "ps", 0)
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", "1" * 64)
    with pytest.raises(AuthenticationError):
        hosts.wait_for_others(flags, print, seconds=60)
    server.close()


def test_a_leader_that_never_comes(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "HOSTS_SECONDS", 0.3)
    flags = flags_of(addresses[:1], addresses[2:], job="ps")
    why = f"worker 0 at {addresses[0]}, which leads, was waited for 0 s: it has never come"
    with pytest.raises(ConnectionError, match=why):
        parameter_servers.serve(flags, print)


def test_a_leader_that_gives_up_ends_those_who_wait_for_it(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parameter server is there, and worker 1 is not."""
    monkeypatch.setattr(parameter_servers, "WITHOUT_LEADER_SECONDS", 0.3)
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            parameter_servers.serve(flags_of(addresses[:2], addresses[2:], job="ps"), print)
        except ConnectionError as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(TimeoutError, match="worker 1"):
        hosts.wait_for_others(flags_of(addresses[:2], addresses[2:]), print, seconds=1.0)
    thread.join(30)
    assert "which leads" in str(failed[0])
