"""How the processes of a cluster join, and what they refuse."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import pytest

from drumline import _addresses, _rendezvous
from drumline._authentication import TOKEN_VARIABLE
from drumline._rendezvous import EventLoop
from drumline.distribute import process_group
from drumline.distribute.cluster_resolver import (
    ClusterSpec,
    SimpleClusterResolver,
    TFConfigClusterResolver,
)
from drumline.distribute.process_group.control_channel import RendezvousChannel
from drumline.distribute.process_group.group import group_of
from drumline.distribute.process_group.peers import LocalProcess
from drumline.distribute.process_group.rendezvous import Rendezvous, meet
from tests.distribute.process_group.clusters import Cluster, Ended, running
from tests.ports import free_port

HOSTS = ("127.0.0.2", "127.0.0.3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Ended], list[Ended]]:
    """The same cluster of two processes with two devices each, started twice, one by one."""
    folder = tmp_path_factory.mktemp("start")
    env = {"DRUMLINE_CPU_DEVICES": "2", "DRUMLINE_COMPILATION_CACHE": str(folder / "cache")}
    alone = Cluster("alone", "alone", {"seconds": 2}, ["127.0.0.1"] * 2, [0, 9])
    ends = []
    for name in ("first", "second"):
        cluster = Cluster(name, "train", hosts=HOSTS, env=env)
        others = [alone] if name == "first" else []
        with running(folder, [cluster, *others]) as run:
            run.wait_for(*run.names_of(0))
            ends.append(run.ended(name))
            if others:
                (lonely,) = run.ended("alone")
                ends.append([lonely])
    first, lonely_end, second = ends
    first.extend(lonely_end)
    return first, second


def test_processes_compute_together(runs: tuple[list[Ended], list[Ended]]) -> None:
    for index, end in enumerate(runs[0][:2]):
        assert (end.status, end.record) == (0, None), end.log
        facts = end.facts
        assert facts["tasks"] == ["worker:0", "worker:1"]
        assert (facts["index"], facts["chief"]) == (index, index == 0)
        assert facts["devices"] == [2, 4]
        assert facts["total"] == [1.0 * 2 + 2.0 * 2] * 4
        assert facts["sigterm_ends"]


def test_they_listen_on_their_addresses_only(runs: tuple[list[Ended], list[Ended]]) -> None:
    first, second = (set(end.facts["listening"]) for end in runs[0][:2])
    assert first == {HOSTS[0]}
    assert second == {HOSTS[1]}
    assert len(runs[0][0].facts["listening"]) == 2  # the coordination service and Gloo


def test_a_process_is_part_of_one_cluster(runs: tuple[list[Ended], list[Ended]]) -> None:
    for end in runs[0][:2]:
        assert "it cannot join another cluster as well" in end.facts["other_cluster"]


def test_every_process_is_served_by_the_compilation_cache(
    runs: tuple[list[Ended], list[Ended]],
) -> None:
    for cold, warm in zip(runs[0][:2], runs[1], strict=True):
        assert cold.facts["cache_misses"] > 0
        assert warm.facts["cache_misses"] == 0
        assert warm.facts["cache_hits"] == cold.facts["cache_hits"] + cold.facts["cache_misses"]


def test_peers_that_do_not_come_are_asked_for(runs: tuple[list[Ended], list[Ended]]) -> None:
    lonely = runs[0][2]
    assert lonely.status == 1
    assert "RuntimeError: worker:0 has waited 2 s at worker:0 (127.0.0.1:" in lonely.log
    assert "): worker:1 did not come. Start every task of the cluster" in lonely.log
    assert lonely.log.count("Traceback") == 1


def resolver(cluster: dict[str, Any], kind: Any = None, index: Any = None) -> SimpleClusterResolver:
    return SimpleClusterResolver(ClusterSpec(cluster), task_type=kind, task_id=index)


def test_the_chief_is_process_0_and_workers_follow() -> None:
    cluster = {"worker": ["w0:1", "w1:1"], "ps": ["p:1"], "chief": ["c:1"], "evaluator": ["e:1"]}
    group = group_of(resolver(cluster, "worker", 1))
    assert group.tasks == ("chief:0", "worker:0", "worker:1")
    assert group.addresses == ("c:1", "w0:1", "w1:1")
    assert (group.process_index, group.num_processes, group.is_chief) == (2, 3, False)
    assert (group.task_type, group.task_id, group.task) == ("worker", 1, "worker:1")
    assert group_of(resolver(cluster, "chief", 0)).is_chief
    assert group_of(resolver({"worker": ["a:1", "b:1"]}, "worker", 0)).is_chief
    assert group_of(resolver({"master": ["a:1"], "worker": ["b:1"]}, "master", 0)).is_chief


@pytest.mark.parametrize(
    ("cluster", "kind", "index"),
    [
        ({}, None, None),
        ({"worker": ["a:1"]}, "worker", 0),
        ({"worker": ["a:1"]}, None, None),
        ({"chief": ["a:1"], "ps": ["b:1"]}, "chief", 0),
        ({"worker": ["a:1", "b:1"]}, "evaluator", 0),
    ],
)
def test_a_process_of_its_own_starts_nothing(cluster: Any, kind: Any, index: Any) -> None:
    group = process_group.start(resolver(cluster, kind, index))
    assert (group.num_processes, group.process_index, group.is_chief) == (1, 0, True)
    assert not jax.distributed.is_initialized()
    with process_group.watchdog(1, timeout_seconds=0.0):
        pass


@pytest.mark.parametrize(
    ("cluster", "kind", "index", "message"),
    [
        ({"worker": ["a:1", "b:1"]}, None, None, "task is None:None, but the cluster's are worker"),
        ({"worker": ["a:1", "b:1"]}, "worker", 2, "task is worker:2, but the cluster's are"),
        ({"worker": ["a:1", "b:1"]}, "chief", 0, "task is chief:0, but the cluster's are"),
        ({"worker": ["a:1"], "ps": ["b:1"]}, "ps", 0, "A parameter server computes no steps"),
        ({"worker": {1: "a:1", 2: "b:1"}}, "worker", 1, "gives only some addresses of the job"),
    ],
)
def test_tasks_that_are_none(cluster: Any, kind: Any, index: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        process_group.start(resolver(cluster, kind, index))


def test_it_comes_before_jax_starts() -> None:
    jax.devices()
    with pytest.raises(RuntimeError, match="JAX has started before this process joined"):
        process_group.start(resolver({"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "worker", 0))


def test_devices_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRUMLINE_CPU_DEVICES", "two")
    with pytest.raises(ValueError, match="DRUMLINE_CPU_DEVICES must be a positive integer"):
        process_group.start(resolver({}))


def meeting_of(address: str, told: str, seconds: float = 20) -> tuple[Any, Any]:
    """What processes 0 and 1 find when the second is told another address for itself."""
    cluster = {"worker": [address, "b:1"]}
    first = group_of(resolver(cluster, "worker", 0))
    second = group_of(resolver({**cluster, "worker": [address, told]}, "worker", 1))
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(meet, each, seconds) for each in (second, first)]
        return tuple(each.exception() or _processes(each.result()) for each in reversed(futures))


def _processes(meeting: Rendezvous) -> list[LocalProcess]:
    for connection in meeting.connections.values():
        connection.close()
    return meeting.processes


def test_processes_meet() -> None:
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    first, second = meeting_of(address, "b:1")
    assert first == second == [LocalProcess.this()] * 2
    assert first[0].condition() == "running"


def test_processes_of_different_clusters_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "of this cluster alone")
    first, second = meeting_of(f"127.0.0.1:{free_port('127.0.0.1')}", "c:1")
    for error in (first, second):
        assert isinstance(error, RuntimeError)
        assert "given the cluster ['worker:0', 'worker:1'] at" in str(error)
        assert "'c:1'" in str(error) and "'b:1'" in str(error)


def test_process_0_that_does_not_come_is_named() -> None:
    group = group_of(resolver({"worker": ["127.0.0.1:9", "b:1"]}, "worker", 1))
    with pytest.raises(
        RuntimeError, match="worker:0 .127.0.0.1:9.: worker:0 does not answer .*ref"
    ):
        meet(group, 0.2)


def test_strangers_do_not_disturb_a_meeting() -> None:
    port = free_port("127.0.0.1")
    with ThreadPoolExecutor() as pool:
        met = pool.submit(meeting_of, f"127.0.0.1:{port}", "b:1")
        for nonsense in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n"):
            with (
                contextlib.suppress(OSError),  # the meeting may be over, or not have begun
                socket.create_connection(("127.0.0.1", port)) as stranger,
            ):
                stranger.sendall(nonsense)
        first, second = met.result()
    assert first == second == [LocalProcess.this()] * 2


@contextlib.contextmanager
def _stranger(address: str) -> Iterator[RendezvousChannel]:
    """A connection to process 0, once it listens and has greeted."""
    loop = EventLoop()
    connection = _rendezvous.connect(_addresses.split(address), loop, time.monotonic() + 20, 0.01)
    with contextlib.closing(loop), connection:
        channel = RendezvousChannel(connection, None, listens=False)
        _rendezvous.hear(channel, loop, lambda heard: channel.greeted, time.monotonic() + 20)
        yield channel


def _introduction(address: str, **other: Any) -> dict[str, Any]:
    return {
        "tasks": ["worker:0", "worker:1"],
        "addresses": [address, "b:1"],
        "index": 1,
        "process": LocalProcess.this().to_json(),
        **other,
    }


@pytest.mark.parametrize(
    "wrong", [None, 7, "", "{", "[]", "{}", '{"machine": 1, "pid": 2, "started": 3}', "[" * 10_000]
)
def test_a_stranger_that_names_no_process_does_not_end_a_meeting(wrong: Any) -> None:
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    with ThreadPoolExecutor() as pool:
        first = group_of(resolver({"worker": [address, "b:1"]}, "worker", 0))
        waiting = pool.submit(meet, first, 30)
        with _stranger(address) as stranger:
            stranger.send(_introduction(address, process=wrong))
            assert stranger.detach().recv(100) == b"", "it is sent away, and nothing said to it"
        second = group_of(resolver({"worker": [address, "b:1"]}, "worker", 1))
        met = _processes(meet(second, 30))
        assert met == _processes(waiting.result()) == [LocalProcess.this()] * 2


def test_what_a_stranger_says_is_shown_short_and_without_control_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, and ends nothing; if the others do not come, the error has it."""
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    with ThreadPoolExecutor() as pool:
        first = group_of(resolver({"worker": [address, "b:1"]}, "worker", 0))
        waiting = pool.submit(meet, first, 8)
        with _stranger(address) as stranger:
            stranger.send(_introduction(address, tasks="\x1b[2J", addresses=["x" * 500_000]))
            error = str(waiting.exception(30))
    (logged,) = (record.getMessage() for record in caplog.records)
    for text in (logged, error):
        assert "it was given the cluster" in text and "\\x1b[2J" in text
        assert text.isprintable() and len(text) < 10_000
    assert f"worker:0 (127.0.0.1:{address[10:]}) sends a connection away from" in logged
    assert "worker:1 did not come; a connection was sent away, the last from 127.0.0.1: it" in error


@pytest.mark.parametrize("said", [7, [], ["{}", "{}"], [None, None]])
def test_what_is_no_process_0_is_named(said: Any) -> None:
    with ThreadPoolExecutor() as pool, _addresses.listen("127.0.0.1", 0) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        group = group_of(resolver({"worker": [address, "b:1"]}, "worker", 1))
        waiting = pool.submit(meet, group, 30)
        with listener.accept()[0] as guest:
            channel = RendezvousChannel(guest, None, listens=True)
            with contextlib.closing(EventLoop()) as loop:
                _rendezvous.hear(channel, loop, bool, time.monotonic() + 20)
            channel.send({"everybody": said})
            with pytest.raises(RuntimeError, match="worker:1 reached what is no process of this"):
                waiting.result(30)


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    with _addresses.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"worker:0 cannot listen .*127.0.0.1:{port}: .*use"):
            meet(group_of(resolver({"worker": [f"127.0.0.1:{port}", "b:1"]}, "worker", 0)), 0.2)
    with pytest.raises(RuntimeError, match=r"worker:0 cannot .*203.0.113.1:2222: .*Cannot assign"):
        meet(group_of(resolver({"worker": ["203.0.113.1:2222", "b:1"]}, "worker", 0)), 0.2)
    with pytest.raises(ValueError, match="write host:port"):
        meet(group_of(resolver({"worker": ["203.0.113.1", "b:1"]}, "worker", 0)), 0.2)


def test_the_default_resolver_s_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"cluster": {"worker": ["[::1]:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    group = group_of(TFConfigClusterResolver())
    assert group.describe(0) == "worker:0 ([::1]:1)"
    assert group.process_index == 1
