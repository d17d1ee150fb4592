"""Every way in which a process can end, and what its peers make of it.

All clusters run at the same time; the tests look at what became of them. The times are far below
those of JAX's own exit barriers and heartbeats (300 and 100 seconds).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from drumline.distribute.process_group import environment, jax_internals
from tests.distribute.process_group.clusters import Cluster, Ended, Run, running
from tests.lost_processes import lost_in

SOON = 30.0  # what takes about a second on an idle machine
HEARTBEAT, COLLECTIVE, WATCHDOG, WORK = 10, 3, 3.0, 7.0
EXCEPTION, PEER_LOST, STUCK = 1, 69, 70
LIMITED = jax_internals.xla_knows_flag("--xla_cpu_collective_timeout_seconds")
THREE = {"hosts": ["127.0.0.1"] * 3, "zygotes": [0] * 3}


def cluster(fault: str, index: int = 1, **options: float) -> Cluster:
    return Cluster(f"{fault} {index}", "together", {"index": index, "fault": fault, **options})


SCENARIOS = [
    cluster("raise"),
    Cluster("idle", "together", {"index": 0, "fault": "raise while others idle"}, **THREE),
    cluster("kill"),
    cluster("kill", 0),
    cluster("stop", heartbeat_timeout_seconds=HEARTBEAT),
    cluster("stop", 0, heartbeat_timeout_seconds=HEARTBEAT),
    Cluster("kill idle", "together", {"index": 1, "fault": "kill while others idle"}, **THREE),
    *([cluster("be late", seconds=60, collective_timeout_seconds=COLLECTIVE)] if LIMITED else []),
    cluster("terminate"),
    cluster("hang", seconds=WATCHDOG),
    Cluster("leave 1", "together", {"index": 1, "fault": "leave"}, **THREE),
    cluster("leave and let work", 1, seconds=WORK),
    cluster("leave and let work", 0, seconds=WORK),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with running(tmp_path_factory.mktemp("faults"), SCENARIOS) as started:
        stopped = ["stop 1 1", "stop 0 0"]
        started.wait_for(*(name for name in started.names if name not in stopped))
        for name in stopped:
            started.kill(name)
        started.wait_for(*stopped)
        yield started


def after_fault(culprit: Ended, other: Ended) -> float:
    """Seconds from the culprit's fault to the other's end."""
    return other.time - float(culprit.facts["fault"])


def lost(survivor: Ended, peer: str) -> str:
    """What the survivor says of the peer that it lost, in its record and to its user."""
    assert survivor.status == PEER_LOST, survivor.log
    assert survivor.record is not None
    assert (survivor.record.kind, survivor.record.peer) == ("peer lost", peer)
    assert survivor.record.message.startswith(f"{peer} at 127.0.0.1:")
    assert survivor.record.message in survivor.log
    said = lost_in(survivor.record.message, peer)
    assert said["pid"] and said["remedy"] == "Restart all from the last checkpoint"
    return survivor.record.message


def test_an_exception_ends_all_and_is_named(run: Run) -> None:
    survivor, culprit = run.ended("raise 1")
    assert culprit.status == EXCEPTION
    assert culprit.record is not None
    assert culprit.record.kind == "exception"
    assert culprit.record.message == "ValueError: this rank's own mistake"
    assert "in raise_error" in culprit.record.traceback and "in raise_error" in culprit.log
    assert "failed: ValueError: this rank's own mistake. " in lost(survivor, "worker:1")
    assert after_fault(culprit, culprit) < SOON and after_fault(culprit, survivor) < SOON


def test_an_exception_ends_those_that_only_wait(run: Run) -> None:
    culprit, *survivors = run.ended("idle")
    assert culprit.status == EXCEPTION
    for survivor in survivors:
        assert "failed: ValueError: this rank's own mistake" in lost(survivor, "worker:0")
        assert after_fault(culprit, survivor) < SOON


def test_a_killed_worker_is_named(run: Run) -> None:
    survivor, culprit = run.ended("kill 1")
    assert culprit.status == -signal.SIGKILL and culprit.record is None
    assert "has died (killed, or aborted)" in lost(survivor, "worker:1")
    assert after_fault(culprit, survivor) < SOON


def test_a_killed_coordinator_ends_the_others(run: Run) -> None:
    culprit, survivor = run.ended("kill 0")
    assert culprit.status == -signal.SIGKILL
    assert survivor.status != 0
    if survivor.record is None:  # JAX's own abort was quicker
        assert "coordination service" in survivor.log.lower()
    else:
        assert (survivor.record.kind, survivor.record.peer) == ("peer lost", "worker:0")
        assert "worker:0 at 127.0.0.1:" in survivor.log and "has died (killed" in survivor.log
    assert after_fault(culprit, survivor) < SOON


def test_sigterm_ends_a_process(run: Run) -> None:
    survivor, culprit = run.ended("terminate 1")
    assert culprit.status == -signal.SIGTERM
    assert "has died (killed, or aborted)" in lost(survivor, "worker:1")


def test_a_stopped_worker_is_found_by_its_heartbeat(run: Run) -> None:
    survivor, culprit = run.ended("stop 1")
    message = lost(survivor, "worker:1")
    assert (
        f"has sent no heartbeat for {HEARTBEAT} s: it is stopped (SIGSTOP, a debugger)" in message
    )
    assert after_fault(culprit, survivor) < HEARTBEAT + SOON


def test_a_stopped_coordinator_is_named(run: Run) -> None:
    culprit, survivor = run.ended("stop 0")
    assert "is stopped (SIGSTOP, a debugger)" in lost(survivor, "worker:0")
    assert after_fault(culprit, survivor) < HEARTBEAT + SOON


def test_a_killed_worker_is_missed_by_those_that_only_wait(run: Run) -> None:
    first, culprit, third = run.ended("kill idle")
    for survivor in (first, third):
        assert "has died (killed, or aborted)" in lost(survivor, "worker:1")
        assert after_fault(culprit, survivor) < SOON


@pytest.mark.skipif(not LIMITED, reason="this jaxlib has no limit for collectives on CPUs")
def test_a_late_worker_is_found_by_the_collective_s_limit(run: Run) -> None:
    survivor, culprit = run.ended("be late 1")
    assert "did not answer in time. A collective failed in step" in lost(survivor, "worker:1")
    assert COLLECTIVE - 0.5 < after_fault(survivor, survivor) < COLLECTIVE + SOON
    assert culprit.record is not None  # it sleeps, and learns that its peer is gone
    assert culprit.record.kind == "peer lost"


def test_the_watchdog_finds_the_stuck_one_and_shows_where_all_stand(run: Run) -> None:
    survivor, culprit = run.ended("hang 1")
    assert culprit.status == STUCK
    assert culprit.record is not None
    assert culprit.record.kind == "stuck"
    assert "step that worker:0 waits in: it is in stand_still at member.py:" in culprit.log + (
        culprit.record.message
    )
    assert "in stand_still" in culprit.record.traceback and "in stand_still" in culprit.log
    message = lost(survivor, "worker:1")
    assert "has not come to the step: it is in stand_still at member.py:" in message
    assert "Step 4 has not ended within 3 s (timeout_seconds)" in message
    assert "in compute" in survivor.log and "most recent call first" in survivor.log
    assert WATCHDOG - 0.5 < after_fault(culprit, culprit) < WATCHDOG + SOON
    assert after_fault(culprit, survivor) < WATCHDOG + SOON


def test_a_process_that_leaves_too_early_is_named(run: Run) -> None:
    first, culprit, third = run.ended("leave 1")
    assert culprit.status == 0 and culprit.record is None
    for survivor in (first, third):
        assert "has ended (the end of its script, or sys.exit)" in lost(survivor, "worker:1")
        assert "must take the same number of steps" in survivor.log
        assert after_fault(culprit, survivor) < SOON


def test_a_jaxlib_without_the_limit_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_internals, "xla_knows_flag", lambda flag: False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    with pytest.raises(RuntimeError, match="cannot limit how long a collective on CPUs waits"):
        environment.limit_collectives(5)
    monkeypatch.undo()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_collective_timeout_seconds=9")
    environment.limit_collectives(5)
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_collective_timeout_seconds=9"


@pytest.mark.parametrize("early", [0, 1])
def test_a_process_that_is_done_lets_others_work(early: int, run: Run) -> None:
    ends = run.ended(f"leave and let work {early}")
    assert [(end.status, end.record) for end in ends] == [(0, None), (0, None)], ends
    assert all("done" in end.facts for end in ends)
    assert after_fault(ends[early], ends[early]) < SOON + (WORK if early == 0 else 0)
    assert ends[1 - early].time - ends[1 - early].facts["done"] < SOON
