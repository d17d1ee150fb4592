"""The local engine and the supervisor, with each of their processes killed at each step."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from drumline.jobs.engines.children import collect_children
from drumline.jobs.engines.engine import Start
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.local.engine import KEEPER, LocalEngine
from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from drumline.jobs.sources.secrets import write_secret
from drumline.jobs.store.database import ENDED, JobRow, Store
from drumline.jobs.supervisor.loop import Supervisor
from tests.jobs.launch.launching import ROOT, wait_until

CAPACITY = {"cpus": 2.0, "memory": 2.0**30, "gpus": 0.0}

# Each start of a job leaves a line, so that one that runs twice is seen.
COUNTED = """
import os, sys, time
with open(os.environ["RUNS"], "a") as file:
    file.write(os.environ["DRUMLINE_JOB"] + " " + os.environ["DRUMLINE_ATTEMPT"] + "\\n")
"""


class Killed(BaseException):
    """Stands for SIGKILL in a supervisor that runs in the test's own process."""


class Workspace:
    """Jobs in a folder of the test, without a supervisor in the background."""

    def __init__(self, folder: Path, database: Callable[[Path], Path] = lambda home: home) -> None:
        self.home = folder / "home"
        (self.home / "jobs").mkdir(parents=True)
        database(self.home)
        self.code = folder / "code"
        self.code.mkdir()
        self.runs = folder / "runs"
        self.store = Store(self.home)

    def submit(self, script: str, **fields: object) -> int:
        (self.code / "t.py").write_text(COUNTED + script)
        size = {"workers": {"count": 1, "cpus": 1}}
        command = [sys.executable, "-S", "t.py"]
        wanted = {"command": command, "env": {"RUNS": str(self.runs)}, **size, **fields}
        return submit(self.store, self.engine(), make_job(wanted, self.code))

    def engine(
        self, keeper: Sequence[str] = KEEPER, reached: Callable[[str], None] = lambda step: None
    ) -> LocalEngine:
        return LocalEngine(self.home, CAPACITY, keeper, reached)

    def supervise(
        self, *numbers: int, engine: LocalEngine | None = None, seconds: float = 60
    ) -> None:
        """Until these have ended."""
        supervisor = Supervisor(self.store, {"local": engine or self.engine()})
        self.steps(supervisor, lambda: all(self.row(n).state in ENDED for n in numbers), seconds)

    def steps(self, supervisor: Supervisor, until: Callable[[], bool], seconds: float = 60) -> None:
        def step() -> bool:
            supervisor.step()
            return until()

        wait_until(step, seconds)

    def row(self, number: int) -> JobRow:
        row = self.store.job(number)
        assert row is not None
        return row

    def ran(self) -> list[str]:
        return self.runs.read_text().splitlines() if self.runs.exists() else []

    def folder(self, number: int, start: int = 1) -> Path:
        return self.home / "jobs" / str(number) / f"attempt-{start}"


@pytest.fixture
def jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Callable[[Path], Path]
) -> Iterator[Workspace]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    workspace = Workspace(tmp_path, database)
    yield workspace
    for folder in workspace.home.glob("jobs/*/attempt-*"):
        if running := attempt.read(folder / attempt.RUNNING):
            if attempt.started_at(running["pid"]) == running["started"]:
                os.kill(running["pid"], signal.SIGKILL)
    collect_children(timeout=None)


def test_a_job_runs_with_its_roles_in_a_copy_of_its_code(jobs: Workspace) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    script = """
import json
print(json.loads(os.environ["TF_CONFIG"])["task"]["type"], os.environ["TOKEN"], os.environ["A"])
open("made", "w")
"""
    number = jobs.submit(script, ps=1, secrets=["TOKEN"], env={"RUNS": str(jobs.runs), "A": "b"},
                         workers={"count": 2, "cpus": 0.5}, restarts=0)  # fmt: skip
    (jobs.code / "t.py").write_text("raise SystemExit('changed after it was submitted')")
    jobs.supervise(number)
    assert (jobs.row(number).state, jobs.row(number).reason) == ("succeeded", "")
    logs = jobs.engine().logs(f"{number}/attempt-1")
    assert set(logs) == {"job", "worker:0", "worker:1", "ps:0"}
    assert logs["worker:1"].read_text() == "worker very secret b\n"
    assert not (jobs.code / "made").exists()
    kinds = [event.kind for event in jobs.store.events(number)]
    assert kinds[:2] == ["submitted", "starting"] and kinds[-1] == "succeeded"
    for path in jobs.home.rglob("*"):
        if path.is_file() and path.parent.name not in ("secrets", "logs"):
            assert b"very secret" not in path.read_bytes(), path


def test_who_failed_first_is_the_reason_and_restarts_are_used(jobs: Workspace) -> None:
    number = jobs.submit("sys.exit(0 if len(open(os.environ['RUNS']).readlines()) > 2 else 3)",
                         restarts=1)  # fmt: skip
    jobs.supervise(number)
    row = jobs.row(number)
    assert (row.state, row.restarts) == ("failed", 1)
    result = attempt.read(jobs.folder(number, 2) / "logs" / "result.json")
    assert result is not None and row.reason == result["reason"]
    assert row.reason.startswith("Failed first: worker:0 ") and "exited with code 3" in row.reason
    assert result["failed"][0]["task"] == "worker:0" and result["code"] == 1
    other = jobs.submit("", restarts=0)
    jobs.supervise(other)
    assert jobs.row(other).state == "succeeded"


@pytest.mark.parametrize(
    "step", ["noted", "locked", "copied", "described", "kept", "started", "finishing", "finished"]
)
def test_a_supervisor_killed_at_a_step_loses_no_job_and_starts_none_twice(
    jobs: Workspace, step: str
) -> None:
    numbers = [jobs.submit(""), jobs.submit("")]

    def reached(name: str) -> None:
        if name == step:
            raise Killed

    kills = 0
    while kills < 3:
        engine = jobs.engine(reached=reached)
        supervisor = Supervisor(jobs.store, {"local": engine}, reached)
        try:
            jobs.steps(supervisor, lambda: all(jobs.row(n).state in ENDED for n in numbers))
        except Killed:
            kills += 1
        else:
            break
    assert kills
    jobs.supervise(*numbers)
    assert [jobs.row(number).state for number in numbers] == ["succeeded"] * 2
    assert sorted(jobs.ran()) == [f"{number} 1" for number in numbers]


KILLED_KEEPER = """
import drumline_command, os, signal, sys
from pathlib import Path
from drumline.jobs.engines.local.keeper import keep
def reached(step):
    if step == {step!r} and not os.path.exists({mark!r}):
        open({mark!r}, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
keep(Path(sys.argv[-2]), int(sys.argv[-1]), reached)
"""


@pytest.mark.parametrize("step", ["read", "launched", "running", "ended", "written"])
def test_a_keeper_killed_at_a_step_loses_no_job_and_starts_none_twice(
    jobs: Workspace, step: str, tmp_path: Path
) -> None:
    code = KILLED_KEEPER.format(step=step, mark=str(tmp_path / "mark"))
    number = jobs.submit("", restarts=0)
    jobs.supervise(number, engine=jobs.engine([sys.executable, "-P", "-c", code]))
    wait_until((tmp_path / "mark").exists)
    assert (jobs.row(number).state, jobs.row(number).reason) == ("succeeded", "")
    assert jobs.ran() == [f"{number} 1"]


def test_a_killed_launcher_is_a_failure_which_restarts_the_job(jobs: Workspace) -> None:
    waits = "time.sleep(60 if os.environ['DRUMLINE_ATTEMPT'] == '1' else 0)"
    number = jobs.submit(waits, restarts=1)
    supervisor = Supervisor(jobs.store, {"local": jobs.engine()})
    jobs.steps(supervisor, lambda: bool(jobs.ran()))
    running = attempt.read(jobs.folder(number) / attempt.RUNNING)
    assert running is not None
    os.kill(running["pid"], signal.SIGKILL)
    jobs.supervise(number)
    assert jobs.row(number).state == "succeeded" and jobs.ran() == [f"{number} 1", f"{number} 2"]
    why = "1 of 1: its launcher was killed (SIGKILL, or out of memory)"
    assert why in [event.text for event in jobs.store.events(number)]


def test_a_job_that_ended_with_its_machine_is_started_again(
    jobs: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = "time.sleep(60 if os.environ['DRUMLINE_ATTEMPT'] == '1' else 0)"
    number = jobs.submit(waits)
    jobs.steps(Supervisor(jobs.store, {"local": jobs.engine()}), lambda: bool(jobs.ran()))
    running = attempt.read(jobs.folder(number) / attempt.RUNNING)
    keeper = int(Path(f"/proc/{running['pid']}/stat").read_text().split()[3]) if running else 0
    assert running is not None
    for pid in (keeper, running["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not attempt.is_alive(jobs.folder(number)))
    monkeypatch.setattr(attempt, "boot", lambda: "another")
    jobs.supervise(number)
    assert jobs.row(number).state == "succeeded" and jobs.row(number).restarts == 0
    assert "the machine was restarted" in [event.text for event in jobs.store.events(number)]


SAVES = """
import signal
def save(*_):
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
open(os.environ["RUNS"] + os.environ["DRUMLINE_ATTEMPT"], "w").close()
if os.environ["DRUMLINE_ATTEMPT"] == "1":
    time.sleep(60)
"""


def test_a_higher_priority_has_a_lower_one_save_and_give_way(jobs: Workspace) -> None:
    low = jobs.submit(SAVES, priority=1, workers={"cpus": 2})
    supervisor = Supervisor(jobs.store, {"local": jobs.engine()})
    jobs.steps(supervisor, Path(f"{jobs.runs}1").exists)
    high = jobs.submit("", priority=2)
    equal = jobs.submit("", priority=1, workers={"cpus": 2})
    jobs.steps(supervisor, lambda: bool(jobs.row(equal).reason))
    assert "waits for 2 cpus" in jobs.row(equal).reason
    jobs.supervise(low, high, equal)
    assert {jobs.row(n).state for n in (low, high, equal)} == {"succeeded"}
    assert jobs.row(low).restarts == 0
    assert jobs.ran() == [f"{low} 1", f"{high} 1", f"{low} 2", f"{equal} 1"]
    log = jobs.engine().logs(f"{low}/attempt-1")["worker:0"].read_text()
    assert log == "saved\n"


def test_cancelling_a_running_and_a_waiting_job(jobs: Workspace) -> None:
    first, second = (jobs.submit("time.sleep(60)", workers={"cpus": 2}) for _ in range(2))
    supervisor = Supervisor(jobs.store, {"local": jobs.engine()})
    jobs.steps(supervisor, lambda: bool(jobs.ran()))
    for number in (first, second):
        with jobs.store.change():
            assert jobs.store.set_stop(number, "cancel")
    jobs.supervise(first, second)
    assert [jobs.row(n).state for n in (first, second)] == ["cancelled"] * 2
    assert jobs.row(second).reason == "cancelled before it had started"
    assert jobs.ran() == [f"{first} 1"]


def test_a_job_that_runs_longer_than_its_timeout_is_ended(jobs: Workspace) -> None:
    number = jobs.submit("time.sleep(600)", timeout="1s", restarts=2)
    jobs.supervise(number)
    assert jobs.row(number).state == "failed" and jobs.row(number).restarts == 0
    assert jobs.row(number).reason == "it ran longer than its timeout, 1 s"


def test_what_cannot_be_started_is_a_failure_with_its_reason(jobs: Workspace) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    number = jobs.submit("", secrets=["TOKEN"], restarts=5)
    (jobs.home / "secrets" / "TOKEN").unlink()
    jobs.supervise(number)
    assert jobs.row(number).state == "failed"
    assert jobs.row(number).reason.startswith("there is no secret TOKEN")


def test_an_attempt_is_started_once_and_not_taken_for_another(jobs: Workspace) -> None:
    engine = jobs.engine()
    number = jobs.submit("")
    row = jobs.row(number)
    source = jobs.home / "jobs" / str(number) / "source"
    start = Start(row.job, number, 1, engine.handle(number, 1), source, {})
    assert engine.poll(start.handle).state == "absent"
    for _ in range(3):
        engine.start(start)
    wait_until(lambda: engine.poll(start.handle).state == "ended")
    engine.start(start)
    assert engine.poll(start.handle).code == 0 and jobs.ran() == [f"{number} 1"]


def test_files_of_an_attempt_are_whole(tmp_path: Path) -> None:
    value: Mapping[str, object] = {"code": 3}
    attempt.write(tmp_path / "exit.json", value)
    assert attempt.read(tmp_path / "exit.json") == value
    assert attempt.read(tmp_path / "none.json") is None
    attempt.reserve(tmp_path / "room.json")
    reserved = (tmp_path / "room.new").stat()
    attempt.write(tmp_path / "room.json", value)
    assert attempt.read(tmp_path / "room.json") == value
    assert reserved.st_blocks and (tmp_path / "room.json").stat().st_ino == reserved.st_ino
    lock = attempt.take_lock(tmp_path)
    assert lock is not None and attempt.take_lock(tmp_path) is None and attempt.is_alive(tmp_path)
    os.close(lock)
    assert not attempt.is_alive(tmp_path)
    assert attempt.started_at(os.getpid()) and attempt.started_at(2**22 + 1) is None
