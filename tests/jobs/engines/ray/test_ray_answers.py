"""What the Ray engine asks a cluster, and what it makes of the answers, without a Ray."""

from __future__ import annotations

import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.ray.api import RayError
from drumline.jobs.engines.ray.engine import RayEngine, RaySettings
from drumline.jobs.file.model import Job, JobData, JobRole

HANDLE = "1/attempt-1"
ROLE = JobRole(2, 1.5, 1 << 30)


class MadeUpApi:
    """A cluster of one node, of which it is said what it knows of a job."""

    def __init__(self) -> None:
        self.known: dict[str, Any] | None = None
        self.away = False
        self.asked: list[str] = []
        self.sent: dict[str, Any] = {}
        self.logs = ""
        self.refusal: RayError | None = None

    def job(self, submission: str) -> dict[str, Any] | None:
        if self.away:
            raise RayError("http://head:8265 does not answer: it is away")
        return self.known

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked.append(f"{method} {path}")
        if method == "GET" and path.startswith("/api/v0/nodes"):
            total = {"CPU": 4.0, "memory": 8e9, "GPU": 1.0}
            return {"data": {"result": {"result": [{"state": "ALIVE", "resources_total": total}]}}}
        self.sent[path] = body
        if path == "/api/jobs/" and self.refusal:
            raise self.refusal
        return {"logs": self.logs}


@pytest.fixture
def accepted(tmp_path: Path) -> tuple[RayEngine, MadeUpApi]:
    """A start that a cluster has accepted."""
    engine, api = RayEngine(tmp_path, RaySettings("http://head:8265")), MadeUpApi()
    engine._api = api  # type: ignore[assignment]
    own = tmp_path / "jobs" / "1" / "attempt-1"
    own.mkdir(parents=True)
    (own.parent / "source").mkdir()
    (own.parent / "source" / "t.py").write_text("print('of the code')")
    job = Job("digits", ("python", "t.py"), env={"OWN": "of-the-job"}, roles={"workers": ROLE})
    attempt.write(own / "submitted.json", {"job": job.to_json(), "number": 1, "attempt": 1})
    attempt.write(own / "accepted.json", {"time": time.time()})
    return engine, api


def test_a_cluster_that_was_restarted_uses_up_no_restart(
    accepted: tuple[RayEngine, MadeUpApi],
) -> None:
    engine, api = accepted
    status = engine._ask(HANDLE)
    assert status.state == "gone" and "was restarted" in status.reason
    assert not api.asked, "it is not submitted a second time by this start"


def test_a_cluster_that_is_away_makes_a_job_lost_and_not_failed(
    accepted: tuple[RayEngine, MadeUpApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, api = accepted
    api.known = {"status": "RUNNING", "message": ""}
    assert engine._ask(HANDLE).state == "running"
    api.away = True
    assert engine._ask(HANDLE).state == "starting", "for a while nothing is said"
    monkeypatch.setattr("drumline.jobs.engines.ray.engine._QUIET_SECONDS", -1.0)
    status = engine._ask(HANDLE)
    assert status.state == "lost" and "does not answer" in status.reason
    api.away = False
    assert engine._ask(HANDLE).state == "running"


def test_what_was_cancelled_before_it_was_accepted_is_not_submitted(
    accepted: tuple[RayEngine, MadeUpApi],
) -> None:
    engine, api = accepted
    _not_accepted(engine)
    attempt.write(engine.folder(HANDLE) / "stopping.json", {"time": time.time()})
    status = engine._ask(HANDLE)
    assert (status.state, status.reason) == ("ended", "cancelled before it had started")
    assert not api.asked


def _not_accepted(engine: RayEngine) -> None:
    (engine.folder(HANDLE) / "accepted.json").unlink()


def test_what_is_submitted(accepted: tuple[RayEngine, MadeUpApi], tmp_path: Path) -> None:
    engine, api = accepted
    _not_accepted(engine)
    environment = {"JAX_PLATFORMS": "cpu", "AWS_SECRET_ACCESS_KEY": "k"}
    attempt.write(tmp_path / "jobs" / "1" / "environment.json", environment)
    assert engine._ask(HANDLE).state == "queued"
    body = api.sent["/api/jobs/"]
    assert (body["entrypoint_num_cpus"], body["entrypoint_memory"]) == (3.0, 2 << 30)
    # What all who reach the dashboard see holds nothing of the job's.
    assert body["runtime_env"]["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "30"}
    packages = [path for path in api.sent if path.startswith("/api/packages/gcs/")]
    assert body["runtime_env"]["working_dir"] == f"gcs://{packages[0].rpartition('/')[2]}"
    with zipfile.ZipFile(io.BytesIO(api.sent[packages[0]])) as files:
        assert files.read("t.py") == b"print('of the code')"
        described = json.loads(files.read(".drumline-job.json"))
    assert described["env"]["OWN"] == "of-the-job"
    assert described["env"]["JAX_PLATFORMS"] == "cpu"
    assert "AWS_SECRET_ACCESS_KEY" not in described["env"]
    # Another supervisor knows it by the same name, another start has another one.
    again = RayEngine(tmp_path, RaySettings("http://head:8265"))
    assert again.submission(HANDLE) == body["submission_id"]
    assert engine.submission("1/attempt-2") != body["submission_id"] != engine.submission(
        "2/attempt-1"
    )  # fmt: skip


def test_a_submission_whose_answer_was_not_heard_is_not_repeated(
    accepted: tuple[RayEngine, MadeUpApi],
) -> None:
    engine, api = accepted
    _not_accepted(engine)
    api.refusal = RayError("http://head:8265 does not answer: cut")
    assert engine._ask(HANDLE).state == "starting"
    api.known = {"status": "PENDING", "message": "waits for CPUs"}
    status = engine._ask(HANDLE)
    assert (status.state, status.reason) == ("queued", "Ray: waits for CPUs")
    assert api.asked.count("POST /api/jobs/") == 1
    assert (engine.folder(HANDLE) / "accepted.json").exists()


def test_a_submission_that_is_refused_is_not_repeated(
    accepted: tuple[RayEngine, MadeUpApi],
) -> None:
    engine, api = accepted
    _not_accepted(engine)
    api.refusal = RayError("the runtime_env is too large", 400)
    status = engine._ask(HANDLE)
    assert (status.state, status.final) == ("ended", True)
    assert status.reason == "Ray has refused it: the runtime_env is too large"


def test_logs_are_told_apart_and_the_last_line_says_how_it_ended(
    accepted: tuple[RayEngine, MadeUpApi],
) -> None:
    engine, api = accepted
    api.logs = "worker:0 | one\nworker:1 | two\nnote | a note\nof Ray\nworker:0 | three | four\n"
    api.known = {"status": "RUNNING", "message": ""}
    status = engine._ask(HANDLE)
    assert (status.state, status.notes) == ("running", ("a note",))
    result = {"code": 7, "reason": "worker:1 failed first", "hung": False}
    api.logs += f"drumline-result {json.dumps(result)}\n"
    api.known = {"status": "FAILED", "message": "Job entrypoint failed", "driver_exit_code": 7}
    status = engine._ask(HANDLE)
    assert (status.state, status.code, status.reason) == ("ended", 7, "worker:1 failed first")
    logs = {name: path.read_text() for name, path in engine.logs(HANDLE).items()}
    assert logs == {"worker:0": "one\nthree | four\n", "worker:1": "two\n", "job": "of Ray\n"}
    assert engine.poll(HANDLE) == status, "it is remembered"


def test_ray_is_asked_to_end_what_is_cancelled(accepted: tuple[RayEngine, MadeUpApi]) -> None:
    engine, api = accepted
    for _ in range(3):
        engine.cancel(HANDLE)
    engine._pool.shutdown(wait=True)
    assert api.asked == [f"POST /api/jobs/{engine.submission(HANDLE)}/stop"], "not at each step"


def test_what_it_cannot_do_is_named(accepted: tuple[RayEngine, MadeUpApi]) -> None:
    engine, _ = accepted

    def problems(**fields: Any) -> list[str]:
        return engine.check(Job("digits", ("python", "t.py"), **fields))

    assert problems() == []
    for fields, said in (
        ({"secrets": ("TOKEN",)}, "Ray shows the variables of jobs to all who reach its dashboard"),
        ({"roles": {"workers": JobRole(1, 1, image="x")}}, "image: is not used by this engine"),
        ({"data": (JobData("pvc://claim", "/mnt/x"),)}, "is a claim of Kubernetes"),
        ({"roles": {"workers": JobRole(5, 1)}}, "the job needs 5 cpus on one node"),
        ({"roles": {"workers": JobRole(1, 1, 0, 2)}}, "2 gpus on one node"),
    ):
        found = problems(**fields)
        assert len(found) == 1 and said in found[0], found
