"""Which process is blamed, whatever the others do and however loudly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from drumline.failure_record import FailureRecord, Kind
from drumline.jobs.launch import failure_cause
from drumline.jobs.launch.process import Child
from drumline.jobs.launch.tasks import LaunchedTask
from tests.jobs.launch.launching import Launcher
from tests.lost_processes import lost_in
from tests.processes import gone


def test_a_native_abort_of_its_peers_does_not_hide_an_exception(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "3"),
        body="""
if index == 1:
    record("exception", "ValueError: bad luck")
    tell("raised"); wait_for_end_of("aborted-0"); wait_for_end_of("aborted-2")
    print("ValueError: bad luck")
    sys.exit(1)
wait_for("raised")
print("F0101 coordination agent: distributed service detected fatal errors")
tell(f"aborted-{index}", os.getpid())
os.abort()
""",
    )
    assert done.returncode == 1
    assert "Failed first: worker:1 at " in done.stdout
    first = lost_in(done.stdout, "worker:1")
    assert first["seen"] == "it exited with code 1: ValueError: bad luck (step 7)"
    assert first["address"] and first["pid"] and "See its log" in str(first["remedy"])
    after = done.stdout.split("After it: ")[1]
    assert after.count("was killed by SIGABRT (native code gave up) (a consequence)") == 2


def test_a_killed_process_is_named_before_those_that_lost_it(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "2"),
        body="""
if index == 0:
    wait_for_end_of("pid")
    record("peer lost", "all-reduce failed", "worker:1")
    sys.exit(1)
print("the last words")
tell("pid", os.getpid())
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Failed first"))
    assert "it was killed by SIGKILL" in str(lost_in(lines[first], "worker:1")["seen"])
    assert lines[first + 2].strip() == "the last words"
    assert lines[first + 3] == "After it: worker:0 lost worker:1 (a consequence)"


def test_a_suspended_process_is_named_and_ended(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "2"),
        body="""
if index == 1:
    tell("pid", os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
wait_for("pid")
while state_of(int((here / "pid").read_text())) != "T":
    time.sleep(0.01)
record("peer lost", "heartbeat timeout", "worker:1")
sys.exit(1)
""",
    )
    assert done.returncode == 1
    assert "it was suspended (SIGSTOP)" in str(lost_in(done.stdout, "worker:1")["seen"])
    assert "After it: worker:0 lost worker:1" in done.stdout
    assert "worker:1 suspended" in done.stdout
    assert "worker:1 stopped (SIGTERM)" in done.stdout, "it was woken to hear of its end"
    assert gone(int(launcher.told("pid")))


def child(task: str, returncode: int | None, ended: float, log: Path, **more: object) -> Child:
    kind, index = task.split(":")
    failed = bool(returncode) and not more.get("asked_to_stop", False)
    found = {"task": LaunchedTask(kind, int(index)), "returncode": returncode, "ended_at": ended}
    found |= {"log": log, "failed": failed, "seen_stopped": False, "address": "", "pid": 7}
    output = SimpleNamespace(tail=log.read_bytes() if log.exists() else b"")
    found |= {"suspended_for": None, "hung": "", "output": output, **more}
    return cast(Child, SimpleNamespace(**found))


def record(task: str, kind: Kind, moment: float, peer: str | None = None) -> FailureRecord:
    name, index = task.split(":")
    return FailureRecord(name, int(index), kind, "why", "", None, moment, peer)


def blamed(children: Sequence[Child], *records: FailureRecord) -> list[str]:
    return [suspect.task for suspect in failure_cause.suspects(children, records)]


def test_the_order_of_blame(tmp_path: Path) -> None:
    now = time.time() - 100
    log = tmp_path / "log"
    log.write_text("fine\n")
    lost = tmp_path / "lost"
    lost.write_text("Gloo all-reduce failed: Connection closed by peer\n")

    killed, raised = child("worker:0", -9, now + 1, log), child("worker:1", 1, now + 5, log)
    after = record("worker:1", "exception", now + 2)
    before = record("worker:1", "exception", now)
    assert blamed([raised, killed], after) == ["worker:0", "worker:1"], "the earlier death"
    assert blamed([killed, raised], before) == ["worker:1", "worker:0"], "the earlier exception"

    echo, cause = child("worker:0", 1, now, lost), child("worker:1", -11, now + 1, log)
    assert blamed([echo, cause]) == ["worker:1", "worker:0"], "its log shows it lost a peer"
    assert blamed([echo]) == ["worker:0"], "someone must be named"

    stopped = child("worker:2", -15, now + 9, log, asked_to_stop=True, seen_stopped=True)
    stuck = record("worker:1", "stuck", now)
    assert blamed([raised, stopped], stuck) == ["worker:2", "worker:1"]
    assert blamed([echo, raised], stuck) == ["worker:1", "worker:0"]
    well = child("worker:3", 0, now, log)
    ended = child("worker:4", -15, now + 9, log, asked_to_stop=True)
    assert blamed([well, ended]) == []
    assert blamed([well, ended], record("worker:4", "exception", now)) == ["worker:4"], (
        "it had failed before it was told to stop"
    )


def test_records_that_cannot_be_read_are_mentioned(launcher: Launcher) -> None:
    done = launcher.run(
        *("--workers", "1"),
        body="pathlib.Path(os.environ['DRUMLINE_FAILURE_DIR'], 'x.json').write_text('no')\n"
        "sys.exit(4)",
    )
    assert "failure records could not be read" in done.stdout
    assert lost_in(done.stdout, "worker:0")["seen"] == "it exited with code 4"
