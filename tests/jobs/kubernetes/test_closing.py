"""The end of a start whose watches and logs are cut: nothing of a log goes without a word."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline.jobs.engines.engine import Start
from drumline.jobs.engines.kubernetes.closing import StartClosing
from drumline.jobs.engines.kubernetes.logs import PodLog, torn_logs
from drumline.jobs.engines.kubernetes.settings import KubernetesSettings
from drumline.jobs.engines.kubernetes.watching import ObjectWatch
from drumline.jobs.store.database import JobRow
from drumline.jobs.store.workspace import opened
from tests.jobs.kubernetes.api_server import ApiServer, Key, ObjectStore
from tests.jobs.kubernetes.conftest import Bench
from tests.jobs.kubernetes.test_api import client, secret, until

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

CLOSING = "drumline.jobs.engines.kubernetes.closing"
STAMP = "2026-11-27T10:00:{:02}.000000001Z [worker:{}] line {}\n"


@dataclasses.dataclass
class ByHand:
    """A cluster whose pods are objects only, which a test has run and end.

    Attributes:
        at_deletion: what a workspace had of each log when its Job was deleted.
        lost: pods whose logs the cluster does not have any more.
        deletions: the kinds of objects that were deleted, and how.
    """

    server: ApiServer
    bench: Bench
    folder: Path
    at_deletion: list[dict[str, str]] = dataclasses.field(default_factory=list)
    lost: set[str] = dataclasses.field(default_factory=set)
    deletions: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.delete = self._delete
        self.server.log = self._log

    def _log(self, pod: str, container: str) -> Any:
        if pod in self.lost or ("pods", "team", pod) not in self.server.store.objects:
            return f'pods "{pod}" not found'
        return self.folder / pod, lambda: self._over(pod)

    def _over(self, pod: str) -> bool:
        body = self.server.store.objects.get(("pods", "team", pod))
        return body is None or body["status"]["phase"] != "Running"

    def _delete(self, key: Key, propagation: str) -> None:
        self.at_deletion.append(dict(self.bench.logs(1)))
        self.deletions.append((key[0], propagation))
        for pod in [each for each in self.server.store.objects if each[0] == "pods"]:
            self.server.store.remove(pod)
        self.server.store.remove(key)

    def begin(self, lines: int = 1) -> None:
        """Have all pods run, and each write some lines."""
        store = self.server.store
        self.bench.until(1, lambda row: (self.bench.engine.folder("1/attempt-1") / "created.json")
                         .exists())  # fmt: skip
        (job,) = [body for key, body in store.objects.items() if key[0] == "jobs"]
        for index in range(job["spec"]["completions"]):
            name = f"{job['metadata']['name']}-{index}-x"
            (self.folder / name).write_text("")
            labels = {
                **job["spec"]["template"]["metadata"]["labels"],
                "batch.kubernetes.io/job-name": job["metadata"]["name"],
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            running = [{"name": "main", "state": {"running": {}}}]
            store.create(("pods", "team", name), {
                "metadata": {"name": name, "labels": labels},
                "spec": job["spec"]["template"]["spec"],
                "status": {"phase": "Running", "containerStatuses": running},
            })  # fmt: skip
        self.write(0, lines)

    def pods(self) -> list[str]:
        return sorted(key[2] for key in self.server.store.objects if key[0] == "pods")

    def write(self, first: int, end: int) -> None:
        """Have each pod write lines."""
        for index, name in enumerate(self.pods()):
            with open(self.folder / name, "a") as file:
                file.writelines(STAMP.format(i, index, i) for i in range(first, end))

    def finish(self) -> None:
        """Have all pods end well, and their Job."""
        said = json.dumps({"code": 0, "reason": ""})
        state = {"terminated": {"exitCode": 0, "message": said,
                                "finishedAt": "2026-11-27T10:01:00Z"}}  # fmt: skip
        over = [{"name": "main", "state": state}]
        status = {"phase": "Succeeded", "containerStatuses": over}
        for name in self.pods():
            self.server.store.update(("pods", "team", name), lambda b: b.update(status=status))
        for key in [key for key in self.server.store.objects if key[0] == "jobs"]:
            done = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
            self.server.store.update(key, lambda b, done=done: b.update(status=done))  # type: ignore[misc]

    def leave(self) -> None:
        """Have the supervisor read no more, as if it had been killed, and another one begin."""
        self.server.faults.down = True
        logs = self.bench.engine._logs["1/attempt-1"].values()
        for log in logs:
            log.close()
        until(lambda: all(log.done for log in logs))
        self.server.faults.down = False
        self.bench.renew()

    def until_read(self, line: str) -> None:
        self.bench.until(
            1, lambda row: all(line in self.bench.logs(1).get(f"worker:{i}", "") for i in (0, 1))
        )

    def events(self) -> list[str]:
        return [each.text for each in self.bench.store.events(1) if each.kind == "data"]


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[ByHand]:
    server = ApiServer(ObjectStore())
    server.bookmark_seconds = 0.1
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "clusters": [{"name": "c", "cluster": {"server": server.address}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "x",
    }))  # fmt: skip
    settings = KubernetesSettings("example.com/train:1", str(kubeconfig))
    bench = Bench(opened(tmp_path / "home"), settings, None, "python")
    (tmp_path / "pods").mkdir()
    assert bench.submit("print(1)", workers=2) == 1
    yield ByHand(server, bench, tmp_path / "pods")
    server.faults.open_logs = False
    server.close()


def whole(lines: int) -> dict[str, str]:
    return {f"worker:{i}": "".join(f"line {n}\n" for n in range(lines)) for i in (0, 1)}


def workers(logs: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in logs.items() if name.startswith("worker")}


def test_a_watch_and_logs_that_are_cut_at_once(by_hand: ByHand) -> None:
    """The Jobs are known to have ended while nothing is known of their pods."""
    faults = by_hand.server.faults
    asked = by_hand.server.requests
    by_hand.bench.until(
        1, lambda row: any("/pods?" in each and "watch=true" in each for each in asked)
    )
    faults.stalled = {"pods"}
    by_hand.begin(5)
    faults.cut_logs = 3
    by_hand.finish()
    row = by_hand.bench.end(1)
    assert (row.state, row.reason) == ("succeeded", "")
    assert workers(by_hand.at_deletion[0]) == whole(5), "the pods went before their logs were here"
    assert by_hand.events() == []


def test_logs_that_are_cut_while_pods_end(by_hand: ByHand) -> None:
    by_hand.begin()
    by_hand.until_read("line 0")
    by_hand.server.faults.cut_logs = 4
    by_hand.finish()
    by_hand.write(1, 9)
    assert by_hand.bench.end(1).state == "succeeded"
    assert workers(by_hand.at_deletion[0]) == whole(9)
    assert by_hand.events() == []


def test_a_start_that_is_there_is_not_made_again(by_hand: ByHand) -> None:
    """Whoever asks for it may not know that it was there."""
    by_hand.begin()
    engine, store = by_hand.bench.engine, by_hand.bench.store
    row = store.job(1)
    assert row is not None
    source = by_hand.bench.home / "jobs" / "1" / "source"
    start = Start(row.job, 1, 1, engine.handle(1, 1), source, {})
    made = [each for each in by_hand.server.requests if each.startswith("POST")]
    for _ in range(2):  # of this supervisor, and of the next one
        engine.start(start)
        assert engine.poll(start.handle).state != "absent"
        assert [each for each in by_hand.server.requests if each.startswith("POST")] == made
        by_hand.bench.renew()
        engine = by_hand.bench.engine
    by_hand.bench.until(1, lambda row: row.state == "running")
    by_hand.finish()
    assert by_hand.bench.end(1).state == "succeeded"
    # A Job goes after its pods: by then another start could not meet them any more.
    assert by_hand.deletions[0] == ("jobs", "Foreground")


def test_cancel_before_anything_is_known_of_its_pods(by_hand: ByHand) -> None:
    """Of a supervisor that has just begun: the logs are here before the pods go."""
    by_hand.begin()
    by_hand.until_read("line 0")
    by_hand.leave()
    by_hand.write(1, 4)
    by_hand.finish()
    by_hand.bench.engine.cancel("1/attempt-1")
    until(lambda: by_hand.at_deletion)
    assert workers(by_hand.at_deletion[0]) == whole(4)


def test_a_cluster_that_does_not_answer_at_the_end(
    by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no reason to give its logs up."""
    monkeypatch.setattr(f"{CLOSING}.QUIET_SECONDS", 0.4)
    monkeypatch.setattr(f"{CLOSING}._LIST_SECONDS", 0.05)
    monkeypatch.setattr(f"{CLOSING}._RETRY_SECONDS", 0.1)
    by_hand.begin()
    by_hand.until_read("line 0")
    by_hand.server.faults.open_logs = True
    by_hand.finish()
    by_hand.bench.until(1, lambda row: "its logs are fetched" in row.reason)
    by_hand.server.faults.down = True
    by_hand.server.faults.open_logs = False
    by_hand.write(1, 4)
    row = by_hand.bench.until(1, lambda row: "once it can be" in row.reason)
    assert "does not answer" in row.reason
    time.sleep(1.0)  # Longer than nothing may come of a log.
    by_hand.server.faults.down = False
    assert by_hand.bench.end(1).state == "succeeded"
    assert workers(by_hand.at_deletion[0]) == whole(4)
    assert by_hand.events() == []


def test_a_log_that_the_cluster_has_no_more(by_hand: ByHand) -> None:
    by_hand.begin()
    by_hand.until_read("line 0")
    asked = len(by_hand.server.requests)
    by_hand.server.faults.down = True
    first, second = by_hand.pods()
    # Both were cut.
    until(lambda: all(any(f"{pod}/log" in each for each in by_hand.server.requests[asked:])
                      for pod in (first, second)))  # fmt: skip
    by_hand.write(1, 3)
    by_hand.lost = {first}
    by_hand.finish()
    by_hand.server.faults.down = False
    assert by_hand.bench.end(1).state == "succeeded"
    logs = by_hand.bench.logs(1)
    assert (logs["worker:0"], logs["worker:1"]) == ("line 0\n", whole(3)["worker:1"])
    (said,) = by_hand.events()
    assert said.startswith("the end of the log of worker:0 could not be fetched: "), said
    assert "not found" in said


def test_a_log_that_never_ends(by_hand: ByHand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CLOSING}.QUIET_SECONDS", 0.5)
    by_hand.begin()
    by_hand.server.faults.open_logs = True
    by_hand.until_read("line 0")
    by_hand.finish()
    assert by_hand.bench.end(1).state == "succeeded", "it is not waited for, for ever"
    (said,) = by_hand.events()
    assert said == (
        "the end of the logs of worker:0, worker:1 could not be fetched: it had not ended when its "
        "pod was removed"
    )


def test_pods_that_went_while_no_supervisor_ran(
    by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drumline.jobs.engines.kubernetes.engine._UNSEEN_SECONDS", 0.2)
    by_hand.begin()
    by_hand.until_read("line 0")
    by_hand.leave()
    for key in list(by_hand.server.store.objects):
        by_hand.server.store.remove(key)
    row: JobRow = by_hand.bench.end(1)
    assert row.state == "failed"
    said = by_hand.events()  # one, or two with what was wrong with each of them
    assert all(each.startswith("the end of the log") for each in said), said
    assert all(f"worker:{i}" in " ".join(said) for i in (0, 1)), said


def test_a_user_who_may_not_list_any_more_can_cancel(by_hand: ByHand) -> None:
    by_hand.begin()
    by_hand.until_read("line 0")
    by_hand.server.faults.denied = {("list", "pods")}
    with by_hand.bench.store.change():
        by_hand.bench.store.set_stop(1, "cancel")
    assert by_hand.bench.end(1).state == "cancelled"
    assert workers(by_hand.at_deletion[0]) == whole(1)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    made = ApiServer(ObjectStore())
    yield made
    made.close()


def test_a_cut_between_two_lines_is_no_end(server: ApiServer, tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    path.write_text("".join(STAMP.format(i, 0, i) for i in range(6)))
    server.log = lambda pod, container: (path, lambda: True)
    server.faults.cut_logs = 3
    files = tmp_path / "logs" / "worker-0.log", tmp_path / "logs" / "launch-0.log"
    log = PodLog(client(server), "p", "worker:0", files, None, lambda: True, lambda: 1)
    until(lambda: log.done)
    assert files[0].read_text() == whole(6)["worker:0"]
    assert torn_logs(tmp_path / "logs") == {}


def test_a_log_of_a_pod_that_ended_and_went(server: ApiServer, tmp_path: Path) -> None:
    """A log that was followed until its container ended is whole."""
    path = tmp_path / "pod.log"
    path.write_text(STAMP.format(0, 0, 0))
    over, gone = threading.Event(), threading.Event()

    def found(pod: str, container: str) -> Any:
        return "not found" if gone.is_set() else (path, over.is_set)

    server.log = found
    files = tmp_path / "logs" / "worker-0.log", tmp_path / "logs" / "launch-0.log"
    log = PodLog(client(server), "p", "worker:0", files, None, gone.is_set, lambda: 1)
    until(lambda: files[0].read_text() == "line 0\n")
    gone.set()  # from the next time that it is asked for
    over.set()
    until(lambda: log.done)
    assert torn_logs(tmp_path / "logs") == {}


def test_a_list_is_newer_than_events_that_come_late(server: ApiServer) -> None:
    label = {"drumline.dev/workspace": "w"}
    watch = ObjectWatch(client(server), "Secret", "drumline.dev/workspace=w")
    watch.start()
    try:
        until(lambda: any("watch=true" in each for each in server.requests))
        server.faults.stalled = {"secrets"}
        for number in range(3):
            key = ("secrets", "team", f"s{number}")
            server.store.create(key, secret(f"s{number}", **label))
        server.store.remove(("secrets", "team", "s0"))
        assert not watch.exists("s1")
        watch.catch_up()
        known = [name for name in ("s0", "s1", "s2") if watch.exists(name)]
        assert known == ["s1", "s2"]
        # What has led to it comes later: that s0 was added is not believed.
        body = {**secret("s0", **label)}
        body["metadata"] |= {"resourceVersion": "1001"}
        assert not watch._heed({"type": "ADDED", "object": body}, watch._lists - 1)
        assert not watch.exists("s0")
        server.store.create(("secrets", "team", "s3"), secret("s3", **label))
        server.faults.stalled = set()
        until(lambda: watch.exists("s3"))
        assert not watch.exists("s0")
    finally:
        watch.close()


class Clock:
    """A time that passes only when it is waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclasses.dataclass
class SlowLog:
    """A log that is whole at a time."""

    clock: Clock
    whole_at: float
    lines: int = 0

    @property
    def done(self) -> bool:
        return self.clock.now >= self.whole_at


@dataclasses.dataclass
class AwayCluster:
    """One that does not answer for 500 s when it is asked."""

    clock: Clock

    def catch_up(self) -> None:
        if self.clock.now < 500:
            self.clock.now = 500


@pytest.mark.parametrize(("away", "whole_at", "given_up"), [
    (True, 600, False), (False, 100, False), (False, 600, True), (True, 700, True),
])  # fmt: skip
def test_how_long_a_log_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, away: bool, whole_at: float, given_up: bool
) -> None:
    """Two minutes in which the cluster answers and nothing comes."""
    clock = Clock()
    monkeypatch.setattr(f"{CLOSING}.time", clock)
    log = SlowLog(clock, whole_at)
    watches: Any = [AwayCluster(clock)] if away else []
    logs: Any = {"p": log}
    StartClosing(watches, list, lambda views: None, lambda: logs, lambda why: None).fetch_logs()
    assert log.done is not given_up
    assert clock.now == pytest.approx(620 if given_up and away else 120 if given_up else whole_at,
                                      abs=6)  # fmt: skip
