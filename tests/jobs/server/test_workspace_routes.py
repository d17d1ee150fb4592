"""The routes of one workspace, over real connections."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.applications import Starlette

from drumline.jobs.engines.local.engine import LocalEngine
from drumline.jobs.file.reading import make_job
from drumline.jobs.metrics.documents import metrics, series_of
from drumline.jobs.metrics.series import MetricSeries
from drumline.jobs.server.workspace_routes import Access, JobWatch, WorkspaceRoutes
from drumline.jobs.service.submission import submit
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.sources.secrets import write_secret
from drumline.jobs.store.workspace import opened
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.serving import Client, serving

SCRIPT = """
import os, sys, time
print("begins", os.environ["TOKEN"], flush=True)
until = time.monotonic() + 60
while not os.path.exists(sys.argv[1]) and time.monotonic() < until:
    time.sleep(0.02)
print("ends", flush=True)
"""


class Workspace:
    def __init__(self, folder: Path) -> None:
        self.home, self.code = opened(folder / "home"), folder / "code"
        self.code.mkdir()
        (self.code / "t.py").write_text(SCRIPT)
        self.stop = folder / "stop"
        self.service = WorkspaceService(self.home)
        self.records: list[tuple[str, str]] = []

    def submit(self, **fields: object) -> int:
        given = {"command": ["python", "t.py", str(self.stop)], "secrets": ["TOKEN"], **fields}
        job = make_job({"workers": {"cpus": 0.5}, **given}, self.code)
        return submit(self.service.store, LocalEngine(self.home), job)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path)
    write_secret(made.home, "TOKEN", "never-shown")
    yield made
    made.stop.touch()
    for row in made.service.store.open_jobs():
        made.service.cancel(row.id)
    wait_until(lambda: made.service.wake_if_open() or not made.service.store.open_jobs(), 60)
    made.service.close()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"supervisor" in words and os.fsencode(made.home) in words:
            os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def client(workspace: Workspace) -> Iterator[Client]:
    access = Access(workspace.service, JobWatch(workspace.service))
    routes = WorkspaceRoutes(
        lambda request, need: access,
        lambda request, access, action, target: workspace.records.append((action, target)),
    )
    with serving(Starlette(routes=routes.routes())) as port:
        yield Client(port, "/api/v1/workspaces/w")


def test_jobs_are_listed_searched_and_paged(workspace: Workspace, client: Client) -> None:
    for name in ("one", "two", "100-percent"):
        workspace.submit(name=name)
    found = client("GET", "/jobs?limit=2").json
    assert [job["name"] for job in found["jobs"]] == ["100-percent", "two"] and found["more"]
    assert found["counts"] == {"queued": 3}
    assert " ".join(found["jobs"][0]) == (
        "id name state reason submitted started ended restarts priority engine by"
    )
    found = client("GET", f"/jobs?limit=2&before={found['jobs'][-1]['id']}").json
    assert [job["name"] for job in found["jobs"]] == ["one"] and not found["more"]
    assert [job["id"] for job in client("GET", "/jobs?search=two").json["jobs"]] == [2]
    assert client("GET", "/jobs?search=%25").json["jobs"] == [], "% is no pattern"
    assert client("GET", "/jobs?state=running").json["jobs"] == []
    assert client("GET", "/jobs?limit=0").json == {"error": "limit must be from 1 to 1000, not 0"}


def test_a_job_from_its_submission_to_its_end(workspace: Workspace, client: Client) -> None:
    """States, logs by bytes, events and metrics; the secret's value is in none of them."""
    answer = client("POST", "/jobs", {"job": {"command": ["true"], "code": "."}})
    assert answer.status == 400 and "sent along" in answer.json["error"]
    number = workspace.submit()
    workspace.service.wake()
    found = {}

    def begun() -> bool:
        found.update(client("GET", f"/jobs/{number}/logs?wait=2").json)
        return any(log["name"] == "worker:0" and log["size"] > 17 for log in found["logs"])

    wait_until(begun, 60)
    running = client("GET", f"/jobs/{number}")
    assert running.json["state"] == "running" and running.json["processes"][0]["pid"] > 1
    assert running.json["job"]["secrets"] == ["TOKEN"] and "TOKEN" in running.json["spec"]
    log = client("GET", f"/jobs/{number}/logs/worker:0")
    assert log.data == b"begins ***********\n"
    assert (log.headers["x-from"], log.headers["x-size"]) == ("0", "19")
    # A chunk that cuts the value shows nothing of it.
    for start in range(19):
        part = client("GET", f"/jobs/{number}/logs/worker:0?from={start}&limit=4")
        assert part.data == log.data[start : start + 4]
    workspace.stop.touch()
    seen, ended = sum(log["size"] for log in found["logs"]), False
    while not ended:
        found = client("GET", f"/jobs/{number}/logs?wait=20&seen={seen}").json
        seen, ended = sum(log["size"] for log in found["logs"]), found["ended"]
    assert client("GET", f"/jobs/{number}/logs/worker:0?from=-5").data == b"ends\n"
    events = client("GET", f"/jobs/{number}/events").json["events"]
    assert [each["kind"] for each in events][-1] == "succeeded"
    after = client("GET", f"/jobs/{number}/events?after={events[0]['number']}").json["events"]
    assert after == events[1:]
    done = client("GET", f"/jobs/{number}").json
    assert done["why"] == "all its processes ended with exit code 0" and done["attempts"][0]
    assert client("GET", f"/jobs/{number}/metrics").json["series"] == {}
    assert client("GET", "/jobs/none").status == client("GET", "/jobs/99/logs").status == 404
    assert client("GET", f"/jobs/{number}/logs/worker:7").status == 404
    answer = client("POST", f"/jobs/{number}/cancel")
    assert answer.status == 409 and "has ended already" in answer.json["error"]
    again = client("POST", f"/jobs/{number}/rerun")
    assert again.status == 201 and again.json["id"] == number + 1
    assert workspace.records == [("rerun", f"job {number} as job {number + 1}")]


def test_a_file_is_checked_with_the_lines_of_its_mistakes(client: Client) -> None:
    wrong = "command: python t.py\nworkers: {cpus: -1}\ncode: ../other\ndata: [{from: x, at: /x}]\n"
    found = client("POST", "/jobs/check", {"yaml": wrong}).json
    lines = {each["line"]: each["text"] for each in found["problems"]}
    assert set(lines) == {2, 3, 4} and found["job"] is None
    assert "leaves the folder that was sent along" in lines[3] and "whole path" in lines[4]
    good = client("POST", "/jobs/check", {"yaml": "command: python t.py\nworkers: 2\n"}).json
    assert good["problems"] == [] and good["job"]["roles"]["workers"]["count"] == 2
    answer = client("POST", "/jobs", {"yaml": wrong})
    assert answer.status == 400 and answer.json["line"] in lines
    assert client("POST", "/jobs/check", {"yaml": "a: [1"}).json["problems"][0]["line"] == 1


def test_what_jobs_name_is_saved_listed_and_removed(workspace: Workspace, client: Client) -> None:
    for kind, fields in (
        ("code", {"name": "digits", "git": "https://git.example.com/digits.git", "token": "T"}),
        ("data", {"name": "set", "from": str(workspace.code), "at": "/mnt/set"}),
    ):
        assert client("POST", f"/{kind}", fields).status == 201
        assert client("GET", f"/{kind}").json[kind] == [fields]
        assert client("DELETE", f"/{kind}/{fields['name']}").status == 200
        assert client("GET", f"/{kind}").json[kind] == []
        assert client("DELETE", f"/{kind}/{fields['name']}").status == 400
    assert client("POST", "/data", {"name": "rel", "from": "code"}).status == 400
    assert client("POST", "/secrets", {"name": "B", "value": "two\nlines"}).json == {"name": "B"}
    assert client("GET", "/secrets").json == {"secrets": ["B", "TOKEN"]}
    assert client("DELETE", "/secrets/B").status == 200
    assert client("POST", "/secrets", {"name": "../B", "value": "x"}).status == 400
    assert client("GET", "/engines").json["engines"][0]["name"] == "local"
    answer = client("POST", "/engines", {"name": "k", "kind": "none"})
    assert answer.status == 400 and "kind" in answer.json["error"]
    assert client("DELETE", "/engines/local").status == 400


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "no JSON"),
        (b"[1]", "must be an object"),
        (b"[" * 100_000, "no JSON"),
        (b'{"yaml": 1}', "give"),
        (b'{"yaml": "\\ud800"}', ""),
        (b"x" * ((1 << 20) + 1), "may have"),
    ],
)
def test_bodies_that_are_no_requests(client: Client, data: bytes, said: str) -> None:
    answer = client("POST", "/jobs", data=data)
    assert answer.status == (413 if len(data) > 1 << 20 else 400)
    assert said in answer.json["error"]


def test_metrics_are_thinned_without_losing_extremes() -> None:
    """Against numpy: each part's lowest and highest value stay."""
    values = np.random.default_rng(3).normal(size=50_000)
    values[[7, 40_000]] = 99.0, -99.0
    values[100:2000] = np.nan
    steps = np.arange(50_000)
    found = metrics({"loss": MetricSeries(steps, values, steps * 2.0)}, 1000)["series"]["loss"]
    assert len(found["step"]) <= 1000 and found["step"][0] == 0 and found["step"][-1] == 49_999
    assert found["step"] == sorted(found["step"]) and {7, 40_000} <= set(found["step"])
    kept = np.array([np.nan if v is None else v for v in found["value"]])
    np.testing.assert_array_equal(kept, values[found["step"]])
    whole = metrics({"cpu/worker:0": MetricSeries(steps, values, steps * 2.0)}, 0)
    again = series_of(whole)["cpu/worker:0"]
    np.testing.assert_array_equal(again.values, values)
    np.testing.assert_array_equal(again.steps, steps)
