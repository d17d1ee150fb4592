"""A process of a training fails: the others end soon, and say which one and why."""

from __future__ import annotations

import pytest

from tests.distribute.process_group.clusters import Cluster, Ended, Run, running

pytestmark = pytest.mark.thorough

MEMBER = "tests.distribute.multi_worker.faulty:member"
FAULTS = {
    "killed": {},
    "raises": {},
    "sleeps": {"timeout": 20},  # on a busy machine a healthy process is late by seconds
    "stopped": {"heartbeat": 20},
    "leaves": {},
}
SOON = 100.0
"""Seconds; without an end of ours they would wait for minutes, or for ever."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Ended]]:
    """How the processes of each training ended."""
    folder = tmp_path_factory.mktemp("faults")
    quickly = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    clusters = [
        Cluster(name, MEMBER, {"fault": name, **more}, env=quickly) for name, more in FAULTS.items()
    ]
    with running(folder, clusters) as run:
        _wait(run)
        return {name: run.ended(name) for name in FAULTS}


def _wait(run: Run) -> None:
    run.wait_for(*(name for name in run.names if name != "stopped 1"))
    run.kill("stopped 1")
    run.wait_for("stopped 1")


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "leaves"])
def test_the_other_process_names_the_one_to_blame(
    ended: dict[str, list[Ended]], fault: str
) -> None:
    survivor, _ = ended[fault]
    assert survivor.status not in (0, None)
    assert survivor.record is not None, survivor.log
    assert (survivor.record.kind, survivor.record.peer) == ("peer lost", "worker:1"), survivor.log
    assert survivor.time - survivor.said_at < SOON


def test_an_exception_is_the_cause_that_is_told(ended: dict[str, list[Ended]]) -> None:
    survivor, faulty = ended["raises"]
    assert faulty.record is not None and faulty.record.kind == "exception"
    assert "fell off the table" in faulty.record.message
    assert "fell off the table" in survivor.log


def test_where_a_stuck_process_stands_is_told(ended: dict[str, list[Ended]]) -> None:
    survivor, faulty = ended["sleeps"]
    assert "it is in _happen at faulty.py" in survivor.log
    assert faulty.record is not None and faulty.record.kind == "stuck"


def test_a_first_process_that_leaves_early_is_named(ended: dict[str, list[Ended]]) -> None:
    left, survivor = ended["leaves"]
    assert left.status == 0, left.log
    assert survivor.record is not None and survivor.record.peer == "worker:0", survivor.log
    assert "has ended" in survivor.record.message
    assert survivor.time - survivor.said_at < SOON
