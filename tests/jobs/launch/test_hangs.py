"""A job that is silent for too long is ended, and says where its processes were."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from drumline.jobs.launch.coordination import SingleHost
from drumline.jobs.launch.failure_cause import Role
from drumline.jobs.launch.job import Attempt
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.options import LaunchOptions
from drumline.jobs.launch.rendezvous.messages import hello_of, objection
from drumline.jobs.launch.tasks import Layout
from drumline.jobs.launch.view import View
from drumline.jobs.metrics.files import last_change, metric_files
from tests.jobs.engines.test_job_engine import Workspace, jobs
from tests.jobs.launch.launching import Launcher
from tests.jobs.launch.test_rendezvous import Host, output, rendezvous

__all__ = ["jobs", "rendezvous"]

WAITS = """
def waits_for_a_message():
    time.sleep(600)
print("begun")
waits_for_a_message()
"""
HANGS = ("--hang-after", "2s", "--grace-seconds", "2")


def test_where_it_waits_is_in_the_log_of_each_process(launcher: Launcher) -> None:
    done = launcher.run(*HANGS, "--workers", "2", body=WAITS)
    assert done.returncode == 1
    assert "The job hangs: nothing in its logs and metrics for 2" in done.stdout
    first = next(line for line in done.stdout.splitlines() if line.startswith("Failed first: "))
    assert "worker:0 at" in first and "wrote nothing for 2" in first
    assert "it used no cpu meanwhile, so it waits for something" in first
    for name in ("worker-0", "worker-1"):
        assert "in waits_for_a_message" in launcher.log(name)
    assert "    begun" in done.stdout and "waits_for_a_message" in done.stdout


def test_one_that_computes_in_silence_is_named_so_and_restarts_are_used(
    launcher: Launcher,
) -> None:
    done = launcher.run(
        *(*HANGS, "--workers", "1", "--max-restarts", "1"),
        body="""
if os.environ["DRUMLINE_RESTART"] == "0":
    def save(*_):
        sys.exit(75)
    signal.signal(signal.SIGTERM, save)
    while True:
        pass
print("again")
""",
    )
    assert done.returncode == 0, done.stdout
    assert "cpus meanwhile, so it computes, but nothing comes of it" in done.stdout
    assert "Restart 1 of 1." in done.stdout and "to be started again" not in done.stdout


def test_who_ends_neither_at_sigterm_is_made_to_say_where_it_is(launcher: Launcher) -> None:
    done = launcher.run(
        *(*HANGS, "--workers", "1"),
        body="""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: None)
def ignores():
    while True:
        time.sleep(600)
ignores()
""",
    )
    assert done.returncode == 1 and "in ignores" in launcher.log("worker-0")


def test_with_drumline_stacks_are_written_and_it_may_save(launcher: Launcher) -> None:
    body = """
sys.path += [p for p in os.environ["SITE"].split(os.pathsep) if p]
import threading
import drumline
def save(*_):
    print("saved")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
def helper():
    time.sleep(600)
threading.Thread(target=helper, daemon=True).start()
time.sleep(600)
"""
    site = {"SITE": os.pathsep.join(sys.path)}
    done = launcher.run("--hang-after", "4s", "--workers", "1", body=body, env=site)
    log = launcher.log("worker-0")
    assert done.returncode == 1, "what it saved when it hung is no reason to go again for free"
    assert "[drumline: stacks of worker:0 (pid " in log and "helper" in log
    assert log.endswith("saved\n")


def test_py_spy_is_asked_first(launcher: Launcher, tmp_path: Path) -> None:
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text("#!/bin/sh\necho spied $1 $2 $(cat /proc/$3/comm)\n")
    spy.chmod(spy.stat().st_mode | stat.S_IXUSR)
    path = {"PATH": f"{spy.parent}{os.pathsep}{os.environ['PATH']}"}
    done = launcher.run(*HANGS, "--workers", "1", body=WAITS, env=path)
    assert done.returncode == 1
    assert "spied dump --pid python" in launcher.log("worker-0")
    assert "waits_for_a_message" not in launcher.log("worker-0")


def test_neither_output_nor_metrics_nor_a_pause_of_the_launcher_is_a_hang(
    launcher: Launcher,
) -> None:
    started = time.monotonic()
    done = launcher.run(
        *("--hang-after", "1.5s", "--workers", "2"),
        body="""
folder = here / "runs" / "train"
folder.mkdir(parents=True, exist_ok=True)
file = folder / "events.out.tfevents.1.host.2.3.v2"
for i in range(40):
    if index == 0 and i < 15:
        print("a line")
    if index == 1 and i >= 15:
        file.write_bytes(b"x" * i)
    if index == 0 and i == 30:
        os.kill(os.getppid(), signal.SIGSTOP)
        subprocess.Popen(["sh", "-c", f"sleep 7; kill -CONT {os.getppid()}"])
    time.sleep(0.1)
""",
    )
    assert done.returncode == 0, done.stdout
    assert time.monotonic() - started > 7 and "hangs" not in done.stdout


def test_a_silent_job_is_a_failure_with_an_event(jobs: Workspace) -> None:
    script = "time.sleep(600 if os.environ['DRUMLINE_ATTEMPT'] == '1' else 0)"
    number = jobs.submit(script, hang_after="1s", restarts=1)
    jobs.supervise(number)
    row = jobs.row(number)
    assert (row.state, row.restarts) == ("succeeded", 1)
    events = {event.kind: event.text for event in jobs.store.events(number)}
    assert "worker:0" in events["hung"] and "wrote nothing for 1" in events["hung"]
    assert events["restart"].startswith("1 of 1: Failed first: worker:0")
    log = jobs.engine().logs(f"{number}/attempt-1")["worker:0"].read_text()
    assert "t.py" in log and "line " in log


def test_waiting_in_the_queue_is_no_hang(jobs: Workspace) -> None:
    whole = {"count": 1, "cpus": 2}
    first = jobs.submit("time.sleep(4)", workers=whole)
    second = jobs.submit("", workers=whole, hang_after="1s")
    jobs.supervise(first, second)
    assert [jobs.row(n).state for n in (first, second)] == ["succeeded"] * 2
    assert "hung" not in [event.kind for event in jobs.store.events(second)]


def test_files_of_metrics_are_found_below_a_folder(tmp_path: Path) -> None:
    for name in ("b/events.out.tfevents.1.h.2", "a.csv", ".git/x.csv", "b/c/d.csv", "b/other"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    os.symlink(tmp_path, tmp_path / "b" / "link")
    found = [str(Path(entry.path).relative_to(tmp_path)) for entry in metric_files(tmp_path)]
    assert found == ["a.csv", "b/events.out.tfevents.1.h.2", "b/c/d.csv"]
    os.utime(tmp_path / "b/c/d.csv", (2e9, 2e9))
    assert last_change(tmp_path) == 2e9 and last_change(tmp_path / "none") == 0


@pytest.mark.parametrize("text", ["30", "soon", "0s"])
def test_no_duration_is_refused(launcher: Launcher, text: str) -> None:
    done = launcher.run("--workers", "1", "--hang-after", text, body="")
    assert done.returncode == 2 and "--hang-after: must be a number above 0" in done.stdout


def test_hosts_hang_together_or_not_at_all(launcher: Launcher, rendezvous: str) -> None:
    body = """
if index == 1:
    for i in range(50):
        print("a line")
        time.sleep(0.1)
time.sleep(600)
"""
    options = ("--workers", "1", "--hang-after", "2s", "--grace-seconds", "1")
    started = time.monotonic()
    both = [Host(launcher, rank, rendezvous).start(*options, body=body) for rank in (0, 1)]
    outputs = [output(job) for job in both]
    assert time.monotonic() - started > 7
    assert [job.returncode for job in both] == [1, 1], outputs
    for rank, name in ((0, "result.json"), (1, "result-1.json")):
        result = json.loads((launcher.logs / str(rank) / name).read_text())
        assert result["hung"] is True
        assert [each["task"] for each in result["failed"]] == ["worker:0", "worker:1"]
        log = launcher.logs / str(rank) / f"worker-{rank}.log"
        assert "train.py" in log.read_text()


def test_hosts_agree_on_it() -> None:
    def options(**more: object) -> LaunchOptions:
        layout = Layout(1, 0, False, False, nodes=2)
        return LaunchOptions(("a",), layout, Path(), **more)  # type: ignore[arg-type]

    own, other = hello_of(options(hang_after=60.0)), hello_of(options(node_rank=1))
    assert "--hang-after is None there and 60.0 on host 0" in objection(other, own, [])
    assert Role.HUNG < Role.CONSEQUENCE


@pytest.mark.parametrize("all_silent", [True, False])
def test_what_another_host_found_first_is_a_hang_here_too(tmp_path: Path, all_silent: bool) -> None:
    """It says that all are silent, and at once that it ends the job for it."""
    others = SingleHost()
    others.trouble, others.all_silent = "the job hangs", all_silent
    options = LaunchOptions(("true",), Layout(1), tmp_path, hang_after=60.0)
    attempt = Attempt(
        *([], options, cast(Loop, None), cast(View, None), others),
        failures=tmp_path,
        again=lambda task: pytest.fail("is not started again"),
    )
    assert attempt._hangs(time.monotonic()) is all_silent
