"""``drumline run`` and what looks at its jobs, with the supervisor in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumline as dl
from drumline.jobs.engines.children import collect_children
from drumline.jobs.engines.local.engine import LocalEngine
from drumline.jobs.file.reading import make_job
from drumline.jobs.service.submission import submit
from drumline.jobs.store.database import ENDED, Store, StoreUnavailable
from drumline.jobs.store.waking import wake
from drumline.jobs.store.workspace import current, supervisor_lock
from drumline.jobs.supervisor import loop
from drumline.jobs.supervisor.loop import ensure_supervisor, supervise
from tests.jobs.launch.launching import ROOT, wait_until

SCRIPT = """
import os, sys, time
print("I am", os.environ["TF_CONFIG"][-12:], os.environ.get("TOKEN"), *sys.argv[1:], flush=True)
time.sleep(float(os.environ.get("SECONDS", 0)))
"""


class Commands:
    def __init__(self, folder: Path) -> None:
        self.code, self.home = folder / "code", folder / "home"
        self.code.mkdir()
        (self.code / "t.py").write_text(SCRIPT)

    def __call__(self, *arguments: str, rc: int = 0, text: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "drumline_command", *arguments],
            cwd=self.code,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == rc, done.stdout
        return done.stdout

    def supervisors(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"supervisor" in words and os.fsencode(self.home) in words:
                found.append(int(process.name))
        return found


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    command = Commands(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("DRUMLINE_HOME", str(command.home))
    monkeypatch.chdir(command.code)
    yield command
    store = Store(command.home)
    with store.change():
        for row in store.open_jobs():
            store.set_stop(row.id, "cancel")
    wait_until(lambda: ensure_supervisor(command.home) or not store.open_jobs(), 60)
    store.close()
    for pid in command.supervisors():
        os.kill(pid, signal.SIGKILL)


def test_from_a_command_to_its_logs(command: Commands) -> None:
    assert command("secret", "set", "TOKEN", text="another\n") == "TOKEN is stored.\n"
    assert command("secret", "add", "TOKEN", text="very secret\n") == "TOKEN is stored.\n"
    said = command("run", "--workers", "2", "--worker-size", "cpus=0.5", "--secret", "TOKEN",
                   "--follow", "--", sys.executable, "t.py", "--epochs", "2")  # fmt: skip
    lines = said.splitlines()
    assert lines[0] == "Job 1 (t): 2 workers (0.5 cpus each)"
    assert sorted(lines[1:3]) == [
        'worker:0 | I am "index": 0}} *** --epochs 2',
        'worker:1 | I am "index": 1}} *** --epochs 2',
    ]
    assert lines[3] == "Job 1 has succeeded"
    assert command("logs", "1", "worker:1").count("\n") == 1
    assert "very secret" not in command("logs", "t") + command("show", "t")
    assert "1    t     succeeded  5" in command("jobs")
    assert "has no process 'ps:0'; it has: job, worker:0, worker:1" in command(
        "logs", "1", "ps:0", rc=2
    )
    assert command("rerun", "1") == "Job 2 repeats job 1.\n"
    assert dl.jobs.find(2).wait() == "succeeded"
    assert "no job 9" in command("show", "9", rc=2)


def test_a_file_and_its_mistakes(command: Commands) -> None:
    (command.code / "job.yaml").write_text(
        f"command: [{sys.executable}, t.py]\nworkers: {{count: 1, cpus: 0.5}}\npriority: 12\n"
    )
    said = command("run", "job.yaml", rc=2)
    assert said == "drumline: job.yaml:3: priority: must be a whole number from 1 to 9, not 12\n"
    (command.code / "job.yaml").write_text(
        f"command: [{sys.executable}, t.py]\nworkers: {{count: 1, cpus: 0.5}}\n"
    )
    assert "Job 1 has succeeded" in command("run", "job.yaml", "--follow")
    for arguments, problem in [
        (("run",), "give a job file, or a command"),
        (("run", "--priority", "3", "job.yaml"), "priority belongs into the file"),
        (("run", "job.yaml", "--engine", "lab"), "--engine belongs into the file; of the options"),
        (("run", "job.yaml", "--follow", "now"), "a job file takes no further arguments"),
        (("run", "none.yaml"), "drumline: none.yaml: No such file or directory"),
        (("run", "--", "python", "none.py"), "none.py is not in the job's code"),
        (("run", "--", "no-such-program"), "the program 'no-such-program' was not found"),
        (("run", "--secret", "NONE", "--", "true"), "there is no secret NONE"),
        (("run", "--workers", "9999", "--", "true"), "must be a whole number from 0 to 1000"),
        (("run", "--workers", "999", "--", "true"), "needs 999 cpus, and this machine has"),
        (("run", "--worker-size", "cpus:4", "--", "true"), "--worker-size: 'cpus:4'"),
    ]:
        assert problem in command(*arguments, rc=2)
    (command.code / "job.yaml").write_text(
        f"command: [{sys.executable}, t.py]\nps: 1\nworkers:\n  count: 999\n"
    )
    assert ":4: workers: the job needs 1000 cpus" in command("run", "job.yaml", rc=2)
    (command.code / "job.yaml").write_text("command: a\nps: {count: 1, gpus: 1}\n")
    assert ":2: ps: gpus: the processes that train get" in command("run", "job.yaml", rc=2)
    assert [job.id for job in dl.jobs.latest()] == [1]


def test_python_and_a_supervisor_that_is_killed_meanwhile(command: Commands) -> None:
    size = {"count": 1, "cpus": 0.1}
    waits = {"SECONDS": "60"}
    job = dl.jobs.run(command=[sys.executable, "t.py"], workers=size, env=waits, name="waits")
    lines = job.logs(follow=True)
    assert next(lines).startswith("I am")
    assert job.state == "running" and repr(job) == "<job 1 'waits': running>"
    wait_until(command.supervisors)
    for pid in command.supervisors():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(TimeoutError, match="job 1 is running"):
        job.wait(timeout=0)
    job.cancel()
    assert job.wait() == "cancelled" and list(lines) == []
    with pytest.raises(RuntimeError, match="has ended already"):
        job.cancel()
    kinds = [kind for _, kind, _ in job.events]
    assert kinds == ["submitted", "starting", "running", "stopping", "cancelled"]


def test_a_supervisor_ends_when_idle_and_is_the_only_one(
    command: Commands,
) -> None:
    job = dl.jobs.run(command="true", workers={"cpus": 0.1})
    assert job.wait() == "succeeded"
    wait_until(command.supervisors)
    supervise(command.home, idle_seconds=0)  # Returns at once: there is another.
    (command.home / "supervisor.log").write_text("x" * (1 << 20 | 1))
    for pid in loop._started:  # Also one that has not asked for the lock yet.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    loop._started.clear()
    supervise(command.home, idle_seconds=0.2)
    lock = supervisor_lock(command.home)
    assert lock is not None
    os.close(lock)
    assert ensure_supervisor(command.home)
    assert (command.home / "supervisor.log.1").exists()
    assert all(job.state in ENDED for job in dl.jobs.latest())


def test_who_submits_and_who_ends_wakes_the_supervisor(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself it would look once in a day."""
    monkeypatch.setattr(loop, "_PERIOD_SECONDS", 86_400.0)
    home = current()
    supervisor = threading.Thread(target=supervise, args=(home, 1e9), daemon=True)
    supervisor.start()
    wait_until((home / "wake").exists, 60)
    for _ in range(2):
        job = dl.jobs.run(command="true", workers={"cpus": 0.1})
        # `wait` would wake it, too.
        wait_until(lambda: job.state == "succeeded", 300)  # noqa: B023
    waits = dl.jobs.run(
        command=[sys.executable, "t.py"], env={"SECONDS": "600"}, workers={"cpus": 0.1}
    )
    wait_until(lambda: waits.state == "running", 300)
    waits.cancel()
    wait_until(lambda: waits.state == "cancelled", 300)
    (home / "supervisor.lock").unlink()
    wake(home)
    supervisor.join(60)
    assert not supervisor.is_alive()
    collect_children(timeout=None)


def test_a_supervisor_waits_for_room_on_a_full_disk(
    command: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(current())
    number = submit(store, LocalEngine(command.home), make_job({"command": "true"}, command.code))
    store._db.execute("pragma max_page_count=1")

    def fill() -> None:
        with store.change():
            for _ in range(1000):
                store.add_event(number, "event", "text" * 1000)

    with pytest.raises(StoreUnavailable, match="full"):
        fill()
    assert len(store.events(number)) == 1, "a change is whole or not there"
    store.close()
    step = loop.Supervisor.step
    refused = []

    def full_at_first(self: loop.Supervisor) -> int:
        if len(refused) < 2:
            refused.append(1)
            raise StoreUnavailable("the disk is full.")
        return step(self)

    monkeypatch.setattr(loop.Supervisor, "step", full_at_first)
    monkeypatch.setattr(loop, "_FULL_SECONDS", 0.05)
    supervise(command.home, idle_seconds=0.5)
    said = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["waits: the disk is full.", "continues"]
    assert dl.jobs.find(number).state == "succeeded"


@pytest.mark.thorough
def test_many_short_jobs_while_the_supervisor_is_killed(command: Commands) -> None:
    (command.code / "t.py").write_text(
        f"import os\nopen({str(command.home / 'runs')!r}, 'a').write("
        "os.environ['DRUMLINE_JOB'] + '\\n')\n"
    )
    size = {"cpus": 0.25}
    jobs = [dl.jobs.run(command=[sys.executable, "-S", "t.py"], workers=size) for _ in range(200)]
    store = Store(current())

    def killed() -> bool:
        for pid in command.supervisors():
            os.kill(pid, signal.SIGKILL)
        ensure_supervisor(command.home)
        time.sleep(3)
        return not store.open_jobs()

    wait_until(killed, 1800)
    assert {job.state for job in jobs} == {"succeeded"}
    ran = sorted(map(int, (command.home / "runs").read_text().split()))
    assert ran == [job.id for job in jobs]
