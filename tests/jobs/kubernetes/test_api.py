"""Requests, watches and logs against an API server that fails in the ways real ones do."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drumline.jobs.engines.kubernetes.api import (
    ApiRefusal,
    KubernetesApi,
    NoAnswer,
    is_temporary,
)
from drumline.jobs.engines.kubernetes.connection import Credentials, KubernetesCluster
from drumline.jobs.engines.kubernetes.logs import PodLog, nanoseconds
from drumline.jobs.engines.kubernetes.watching import ObjectWatch
from tests.jobs.kubernetes.api_server import ApiServer, ObjectStore

pytest.importorskip("kubernetes_validate", reason="the server checks objects by its schemas")

SPACE = "team"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    made = ApiServer(ObjectStore())
    yield made
    made.close()


def client(server: ApiServer, waits: list[float] | None = None) -> KubernetesApi:
    cluster = KubernetesCluster(server.address, None, None, SPACE, Credentials(server.token))
    waited: list[float] = [] if waits is None else waits
    return KubernetesApi(cluster, SPACE, waited.append)


def secret(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}}


def until(ready: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_objects(server: ApiServer) -> None:
    api = client(server)
    assert api.get("Secret", "a") is None
    made = api.create(secret("a"))
    assert made is not None and made["metadata"]["uid"]
    assert api.create(secret("a")) is None
    assert api.create(secret("b"), dry_run=True) is not None
    assert api.get("Secret", "b") is None
    assert api.delete("Secret", "a") and not api.delete("Secret", "a")


def test_an_overloaded_server_is_asked_when_it_says(server: ApiServer) -> None:
    waits: list[float] = []
    server.faults.overloaded, server.faults.retry_after = 2, 7
    assert client(server, waits).create(secret("a")) is not None
    assert waits == [7, 7]
    server.faults.overloaded = 99
    with pytest.raises(ApiRefusal, match="too many requests") as refused:
        client(server).get("Secret", "a")
    assert is_temporary(refused.value)


def test_an_answer_that_is_lost(server: ApiServer) -> None:
    server.faults.unheard = 1
    # The first try has created it.
    assert client(server).create(secret("a")) is None
    assert client(server).get("Secret", "a") is not None


def test_a_refusal_that_is_cut(server: ApiServer) -> None:
    """It is there already: half of that sentence is none."""
    server.faults.unheard = server.faults.cut_refusals = 1
    assert client(server).create(secret("a")) is None
    assert [each.split()[0] for each in server.requests] == ["POST"] * 3


def test_refusals(server: ApiServer) -> None:
    with pytest.raises(ApiRefusal, match="no DNS subdomain") as refused:
        client(server).create(secret("A"))
    assert refused.value.code == 422 and not is_temporary(refused.value)
    with pytest.raises(ApiRefusal, match="stringdata"):
        client(server).create({**secret("a"), "stringdata": {}})
    server.token = "open"
    bad = KubernetesCluster(server.address, None, None, SPACE, Credentials("shut"))
    with pytest.raises(ApiRefusal, match="Unauthorized"):
        KubernetesApi(bad, SPACE).get("Secret", "a")


def test_no_server_and_no_kubernetes(server: ApiServer) -> None:
    waits: list[float] = []
    server.faults.down = True
    with pytest.raises(NoAnswer, match="does not answer"):
        client(server, waits).get("Secret", "a")
    assert len(waits) == 3

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *args: object) -> None:
            pass

    other = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{other.server_address[1]}"
    api = KubernetesApi(
        KubernetesCluster(address, None, None, "x", Credentials()), "x", waits.append
    )
    with pytest.raises(NoAnswer, match="does not answer as Kubernetes does"):
        api.get("Secret", "a")
    other.shutdown()
    other.server_close()


FAULTS = st.sampled_from(["none", "cut", "refused", "overloaded", "compact", "down"])
ACTIONS = st.sampled_from(["add", "change", "remove"])


@example([("add", 0, "none"), ("change", 0, "cut"), ("remove", 0, "none")])
@given(st.lists(st.tuples(ACTIONS, st.integers(0, 3), FAULTS), max_size=12))
@settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))
def test_a_watch_knows_what_there_is(steps: list[tuple[str, int, str]]) -> None:
    """Whatever is cut, forgotten or refused meanwhile."""
    server = ApiServer(ObjectStore())
    server.bookmark_seconds = 0.05
    watch = ObjectWatch(client(server), "Secret", "drumline.dev/workspace=w")
    watch.start()
    until(lambda: watch.listed is not None)
    try:
        for action, number, fault in steps:
            name = f"s{number}"
            key = ("secrets", SPACE, name)
            if fault == "cut":
                server.faults.cut_watches = 1
            elif fault in ("refused", "overloaded"):
                setattr(server.faults, fault, 1)
            elif fault == "down":
                server.faults.down = True
            if action == "add":
                body = {**secret(name), "kind": "Secret"}
                body["metadata"]["labels"] = {"drumline.dev/workspace": "w", "n": "0"}
                server.store.create(key, body)
            elif action == "change":
                server.store.update(key, _count)
            else:
                server.store.remove(key)
            if fault == "compact":
                server.store.compact()
            time.sleep(0.03)  # Most are seen as they happen.
            server.faults.down = False
        wanted = {k[2]: body for k, body in server.store.objects.items()}

        def same() -> bool:
            known = watch.objects("drumline.dev/workspace", "w")
            return {n: b for n, b in known.items() if watch.exists(n)} == wanted

        until(same)
    finally:
        watch.close()
        server.close()


def _count(body: dict[str, Any]) -> None:
    labels = body["metadata"]["labels"]
    labels["n"] = str(int(labels["n"]) + 1)


def test_a_watch_of_many_pages_and_bookmarks(server: ApiServer) -> None:
    for number in range(1203):
        server.store.create(
            ("secrets", SPACE, f"s{number}"),
            secret(f"s{number}", **{"drumline.dev/workspace": "w"}),
        )
    watch = ObjectWatch(client(server), "Secret", "drumline.dev/workspace=w")
    server.bookmark_seconds = 0.05
    watch.start()
    until(lambda: len(watch.objects("drumline.dev/workspace", "w")) == 1203)
    # Others' objects move the version on; after a cut the watch continues from a bookmark.
    lists = [each for each in server.requests if "limit" in each]
    assert len(lists) == 3
    for number in range(50):
        server.store.create(("secrets", SPACE, f"o{number}"), secret(f"o{number}"))
    time.sleep(0.3)
    server.faults.down = True
    time.sleep(0.2)
    server.faults.down = False
    server.store.create(
        ("secrets", SPACE, "last"), secret("last", **{"drumline.dev/workspace": "w"})
    )
    until(lambda: watch.exists("last"))
    assert [each for each in server.requests if "limit" in each] == lists
    watch.close()


def test_a_watch_outlives_nonsense(server: ApiServer) -> None:
    server.store.create(("secrets", SPACE, "s"), secret("s", **{"drumline.dev/workspace": "w"}))
    server.faults.nonsense = 2
    watch = ObjectWatch(client(server), "Secret", "drumline.dev/workspace=w")
    watch.start()
    until(lambda: "what Kubernetes would not" in watch.problem)
    until(lambda: watch.exists("s") and not watch.problem)
    watch.close()


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
    st.integers(0, 29),
)
@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
def test_each_line_of_a_log_is_written_once(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[bool, int]], cuts: list[int], killed_at: int,
) -> None:  # fmt: skip
    """Whenever the connection is cut, and whenever who follows is killed and starts again."""
    folder = tmp_path_factory.mktemp("log")
    server = ApiServer(ObjectStore())
    path = folder / "pod.log"
    path.touch()
    over = threading.Event()
    server.log = lambda pod, container: (path, over.is_set)
    files = folder / "worker-0.log", folder / "launch.log"

    def follow() -> PodLog:
        return PodLog(client(server), "p", "worker:0", files, None, over.is_set, lambda: 1)

    wanted: dict[bool, list[str]] = {True: [], False: []}
    moment = 0
    try:
        log = follow()
        note = folder / "worker-0.position.json"
        noted = None
        for number, (own, later) in enumerate(lines):
            moment += later * 400_000_000  # Several lines have the same time.
            stamp = f"2026-11-27T10:00:{moment // 10**9:02}.{moment % 10**9:09}Z"
            if number in cuts:
                server.faults.cut_logs = 1
            text = f"{'[worker:0] ' if own else ''}line {number}\n"
            with open(path, "a") as file:
                file.write(f"{stamp} {text}")
            wanted[own].append(f"line {number}")
            if number == killed_at // 2:
                noted = note.read_bytes() if note.exists() else None
            if number == killed_at or number in cuts:
                line = f"line {number}\n"
                until(lambda: line in files[not own].read_text())  # noqa: B023
            if number == killed_at:
                log.close()
                server.faults.down = True
                until(lambda: log.done)  # noqa: B023
                server.faults.down = False
                # Killed at once, it would have noted no more than it had before.
                if noted is not None:
                    note.write_bytes(noted)
                log = follow()
        over.set()
        until(lambda: log.done)
        found = [file.read_text().splitlines() for file in files]
        assert found == [wanted[True], wanted[False]]
    finally:
        over.set()
        server.close()


def test_times() -> None:
    assert nanoseconds("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert nanoseconds("1970-01-01T02:00:01.000000001+02:00") == 1_000_000_001
    assert nanoseconds("1970-01-01T00:00:01Z") == 1_000_000_000
    assert nanoseconds("Error") is None and nanoseconds("2026-01-01") is None
    assert nanoseconds("1970-01-01T00:00:01.x") is None
