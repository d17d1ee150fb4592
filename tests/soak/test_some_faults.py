"""A handful of the soak's faults: the harness works, and jobs survive the commonest ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.soak.faults import Fault, Moment
from tests.soak.jobs import Job
from tests.soak.runner import run

SMALL = {"epochs": 2, "steps": 8, "save_every": 3, "step_seconds": 0.05}


def fault(kind: str, moment: Moment, step: int, task: str = "worker:0", lasts: float = 0) -> Fault:
    return Fault(kind, moment, step, 1.0, task, 0, lasts, 7)


def check(job: Job, faults: list[Fault], cache: Path) -> None:
    """The job ends with the bits of its undisturbed run, and has had to start again."""
    undisturbed = run(job, cache=cache)
    assert undisturbed.end == "identical", undisturbed.why
    outcome = run(job, faults, undisturbed.digests, cache=cache)
    assert (outcome.end, outcome.digests) == ("identical", undisturbed.digests), outcome.why
    assert [each.fault for each in outcome.struck] == faults
    assert outcome.starts == 2, "the launcher was ended once, and started by the scheduler again"


def test_a_job_of_two_workers_survives(tmp_path: Path) -> None:
    job = dataclasses.replace(Job.draw("workers", "custom", 0), **SMALL)  # type: ignore[arg-type]
    faults = [
        fault("pause", "step", 1, "worker:1", lasts=1.0),
        fault("kill", "save", 4, "worker:0"),
        fault("preempt", "step", 9),
    ]
    check(job, faults, tmp_path)
