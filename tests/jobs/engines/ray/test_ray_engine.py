"""Jobs on a real Ray, started on this machine, by its job submission."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.engines.engine import SettingError
from drumline.jobs.engines.ray.api import RayApi, RayError
from drumline.jobs.engines.ray.engine import RayEngine, RaySettings, read_ray_settings
from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.secrets import write_secret
from tests.jobs.engines.workspace import LONG, EngineWorkspace
from tests.jobs.launch.launching import ROOT
from tests.ports import free_port

REQUIRED_VARIABLE = "DRUMLINE_REQUIRE_RAY"
"""If it is set, tests without Ray fail."""

PROGRAM_VARIABLE = "DRUMLINE_RAY"
"""The program ``ray`` of an environment of its own; otherwise that on PATH."""

ADDRESS_VARIABLE = "DRUMLINE_RAY_ADDRESS"
"""The dashboard of a Ray that runs on this machine, with four CPUs."""

# Its own limits are for a machine that has nothing else to do.
PATIENT = {
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_JOB_START_TIMEOUT_SECONDS": "900",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of the dashboard of a Ray with four CPUs."""
    if address := os.environ.get(ADDRESS_VARIABLE):
        yield address
        return
    program = os.environ.get(PROGRAM_VARIABLE) or shutil.which("ray")
    if program is None:
        if os.environ.get(REQUIRED_VARIABLE):
            pytest.fail("ray is not installed")
        pytest.skip("ray is not installed: pip install 'ray[default]' somewhere, and let "
                    f"{PROGRAM_VARIABLE} name its program")  # fmt: skip
    gcs, dashboard = free_port(), free_port()
    env = {**os.environ, **PATIENT, "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="dlray-") as place:
        head = subprocess.Popen(
            [program, "start", "--head", "--block", "--num-cpus=4", f"--port={gcs}"]
            + [
                f"--temp-dir={place}",
                f"--dashboard-port={dashboard}",
                "--node-ip-address=127.0.0.1",
            ]
            + ["--object-store-memory=100000000", "--disable-usage-stats"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        address = f"http://127.0.0.1:{dashboard}"
        try:
            _await(address, head)
            yield address
        finally:
            head.terminate()
            head.wait()


def _await(address: str, head: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 300
    while True:
        with contextlib.suppress(RayError):
            if RayApi(address).request("GET", "/api/v0/nodes?detail=1")["data"]["result"]["result"]:
                return
        assert head.poll() is None and time.monotonic() < until, "Ray does not come"
        time.sleep(0.5)


class RayWorkspace(EngineWorkspace):
    """A workspace that submits to the cluster."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder, seconds=2 * LONG)
        self.address = address
        self.folder = folder
        self.main = self.engine()

        # What finds drumline where it is not installed.
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
        self.python.chmod(0o755)

    def engine(self) -> RayEngine:
        return RayEngine(self.home, RaySettings(self.address, str(self.folder / "python")))


@pytest.fixture
def jobs(cluster: str, tmp_path: Path) -> Iterator[RayWorkspace]:
    workspace = RayWorkspace(tmp_path, cluster)
    yield workspace
    workspace.end_all()


def test_a_job_runs_with_its_processes_code_and_data(jobs: RayWorkspace, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text.txt").write_text("of the data")
    (jobs.code / "inside").mkdir()
    (jobs.code / "inside" / "helper.py").write_text("text = 'of the code'\n")
    script = """
sys.path.insert(0, "inside")
import helper
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], helper.text, open("/mnt/text/text.txt").read())
print(os.environ["OWN"], os.path.exists(".drumline-job.json"))
"""
    number = jobs.submit(
        script,
        workers={"count": 2, "cpus": 1},
        data=[{"from": str(tmp_path / "data"), "at": "/mnt/text"}],
        env={"RUNS": str(jobs.runs), "OWN": "set"},
    )
    assert jobs.ends(number) == ["succeeded"], jobs.row(number).reason
    assert jobs.ran(number) == 2
    for index in (0, 1):
        said = jobs.log(number, f"worker:{index}")
        assert said == f"worker {index} of the code of the data\nset False\n"


def test_who_failed_first_is_named_and_restarts_are_counted(jobs: RayWorkspace) -> None:
    script = """
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    sys.exit(7)
time.sleep(600)
"""
    number = jobs.submit(script, workers={"count": 2, "cpus": 0.5}, restarts=1)
    assert jobs.ends(number) == ["failed"]
    assert "worker:1" in jobs.row(number).reason and "7" in jobs.row(number).reason
    assert jobs.ran(number) == 4


def test_a_job_is_cancelled_and_may_save(jobs: RayWorkspace) -> None:
    script = """
def save(signum, frame):
    open(os.environ["RUNS"] + "-saved", "a").write("saved ")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""
    number = jobs.submit(script)
    jobs.steps(lambda: "worker:0" in (logs := jobs.main.logs(f"{number}/attempt-1"))
               and "ready" in logs["worker:0"].read_text())  # fmt: skip
    jobs.stop(number)
    assert jobs.ends(number)[0] in ("cancelled", "succeeded")
    assert Path(f"{jobs.runs}-saved").read_text() == "saved ", "it was asked once"


def test_a_timeout_and_a_full_cluster(jobs: RayWorkspace) -> None:
    long = jobs.submit("time.sleep(600)", workers={"count": 1, "cpus": 4}, timeout="20s")
    jobs.steps(lambda: jobs.ran(long))
    next_one = jobs.submit("", workers={"count": 1, "cpus": 4})
    jobs.steps(lambda: jobs.row(next_one).state == "queued" and jobs.row(next_one).reason)
    assert "Ray" in jobs.row(next_one).reason
    assert jobs.ends(long, next_one) == ["failed", "succeeded"]
    assert jobs.row(long).reason == "it ran longer than its timeout, 20 s"


def test_another_supervisor_finds_what_was_submitted(jobs: RayWorkspace) -> None:
    number = jobs.submit("time.sleep(3)")
    jobs.steps(lambda: (jobs.home / "jobs" / f"{number}/attempt-1/submitted.json").exists())
    accepted = jobs.home / "jobs" / str(number) / "attempt-1" / "accepted.json"
    jobs.steps(accepted.exists)
    # The answer to the submission was not heard.
    accepted.unlink()
    assert jobs.ends(number, engine=jobs.engine()) == ["succeeded"]
    assert jobs.ran(number) == 1


def test_what_ray_cannot_do_is_refused(jobs: RayWorkspace) -> None:
    with pytest.raises(JobFileError, match="the job needs 5 cpus on one node.*4 cpus"):
        jobs.submit("", workers={"count": 5, "cpus": 1})
    write_secret(jobs.home, "PASSWORD", "x")
    with pytest.raises(JobFileError, match="Ray shows the variables of jobs"):
        jobs.submit("", secrets=["PASSWORD"])
    assert not jobs.store.jobs()


def test_clusters_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    port = free_port()
    engine = RayEngine(tmp_path, RaySettings(f"http://127.0.0.1:{port}"))
    assert (
        engine.problem()
        == f"http://127.0.0.1:{port} does not answer: [Errno 111] Connection refused"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the address is missing"),
        (["address=head:8265"], "must be that of a Ray dashboard"),
        (["address=http://ada:x@head:8265"], "must hold no password"),
        (["addres=x"], "'addres=x' is not understood"),
        (["python="], "'python=' is not understood"),
    ],
)
def test_settings_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_ray_settings(words)
    assert read_ray_settings(["address=http://head:8265/"]) == RaySettings("http://head:8265")


@pytest.mark.parametrize(
    "fields", [{}, {"address": 5}, {"address": "http://head:8265", "more": "x"}, {"address": ["a"]}]
)
def test_settings_that_were_sent_by_others_are_checked(fields: dict) -> None:
    with pytest.raises(SettingError, match="address|is not understood"):
        RaySettings.from_json(fields)
    asked = RaySettings("http://head:8265", "/opt/venv/bin/python")
    assert RaySettings.from_json(dataclasses.asdict(asked)) == asked
