"""Hosts that go away for a while, supervisors that are killed: none is lost, none runs twice."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

from tests.jobs.engines.ssh.conftest import SshWorkspace
from tests.jobs.launch.launching import ROOT, wait_until

WAIT = """
for number in range(10**6):
    print("line", number, flush=True)
    if os.path.exists(os.environ["GO"]):
        break
    time.sleep(0.05)
print("last", flush=True)
"""


def _waiting_job(jobs: SshWorkspace, **fields: object) -> tuple[int, str]:
    """A job on host ``b`` alone that ends once a file is there."""
    go = str(jobs.runs.with_name("go"))
    env = {"RUNS": str(jobs.runs), "GO": go}
    number = jobs.submit(WAIT, env=env, **fields)
    jobs.steps(lambda: jobs.row(number).state == "running" and jobs.ran(number))
    return number, go


def _check_log(jobs: SshWorkspace, number: int) -> None:
    lines = jobs.log(number).splitlines()
    assert lines[-1] == "last"
    assert lines[:-1] == [f"line {i}" for i in range(len(lines) - 1)], "a line is lost or doubled"


def test_a_job_runs_on_while_its_host_is_cut_off(jobs: SshWorkspace) -> None:
    jobs.main = jobs.engine(hosts=("b",))
    number, go = _waiting_job(jobs)
    jobs.hosts.cut("b")
    try:
        jobs.steps(lambda: jobs.row(number).state == "lost")
        assert "b: " in jobs.row(number).reason and "runs on" in jobs.row(number).reason
        open(go, "w").close()
        # It ends meanwhile; what was heard last stays.
        wait_until(lambda: not any(_is_keeper(pid) for pid in jobs.hosts.pids("b")), 60)
    finally:
        jobs.hosts.join("b")
    assert jobs.ends(number) == ["succeeded"], jobs.events(number)
    assert jobs.ran(number) == 1
    _check_log(jobs, number)


def test_a_job_runs_on_while_the_servers_of_its_hosts_are_away(jobs: SshWorkspace) -> None:
    number, go = _waiting_job(jobs, workers={"count": 2, "cpus": 2})
    for name in ("a", "b"):
        jobs.hosts.kill(name)
    try:
        jobs.steps(lambda: jobs.row(number).state == "lost")
    finally:
        for name in ("a", "b"):
            jobs.hosts.start(name)
    jobs.steps(lambda: jobs.row(number).state == "running")
    open(go, "w").close()
    assert jobs.ends(number) == ["succeeded"], jobs.events(number)
    assert jobs.ran(number) == 2
    _check_log(jobs, number)


def test_a_job_waits_for_a_host_that_does_not_answer(jobs: SshWorkspace) -> None:
    jobs.main = jobs.engine(hosts=("b",))
    number = jobs.submit("")
    jobs.hosts.cut("b")
    try:
        jobs.steps(lambda: jobs.row(number).state == "lost")
        assert "b: " in jobs.row(number).reason
    finally:
        jobs.hosts.join("b")
    assert jobs.ends(number) == ["succeeded"]
    assert jobs.ran(number) == 1


def _is_keeper(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return "keeper" in file.read()
    except OSError:
        return False


STEPS = (
    *(
        "noted",
        "made",
        "submitted",
        "placed",
        "claimed",
        "delivered",
        "begun",
        "started-0",
        "started-1",
    ),
    *("all-started", "copied", "fetched", "finishing", "finished"),
)

SUPERVISOR = """
import json, os, sys, time
from pathlib import Path
from drumline.jobs.engines.ssh.engine import SshEngine
from drumline.jobs.engines.ssh.settings import SshSettings
from drumline.jobs.store.database import Store
from drumline.jobs.supervisor.loop import Supervisor

home, done, settings, steps = sys.argv[1:]
def reached(step):
    known = Path(done).read_text().split()
    if step in json.loads(steps) and step not in known:
        with open(done, "a") as file:
            file.write(step + "\\n")
        os.kill(os.getpid(), 9)

store = Store(Path(home))
engine = SshEngine(Path(home), SshSettings.from_json(json.loads(settings)), reached)
supervisor = Supervisor(store, {"lab": engine}, reached)
until = time.monotonic() + 120
while supervisor.step() and time.monotonic() < until:
    time.sleep(0.02)
"""


def test_a_supervisor_killed_at_each_step_starts_nothing_twice(jobs: SshWorkspace) -> None:
    number = jobs.submit("", workers={"count": 2, "cpus": 2})
    done = jobs.runs.with_name("done")
    done.touch()
    settings = json.dumps(dataclasses.asdict(jobs.main._settings))
    arguments = [str(jobs.home), str(done), settings, json.dumps(STEPS)]
    codes = []
    while not codes or codes[-1] == -9:
        ran = subprocess.run(
            [sys.executable, "-c", SUPERVISOR, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=200,
            capture_output=True,
            text=True,
        )
        assert ran.returncode in (0, -9), ran.stderr
        codes.append(ran.returncode)
    assert sorted(done.read_text().split()) == sorted(STEPS)
    assert jobs.row(number).state == "succeeded", jobs.events(number)
    assert jobs.ran(number) == 2, "each of two processes once"
