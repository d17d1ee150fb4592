"""A dozen of the soak's faults: the harness works, and jobs survive the commonest ones."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.soak.faults import Fault, Moment
from tests.soak.jobs import FOLDER_VARIABLE, JOB_VARIABLE, ROOT, Folder, Job, Loop, Topology
from tests.soak.runner import run

SMALL: dict[str, Any] = {"epochs": 2, "steps": 8, "save_every": 3, "step_seconds": 0.05}


def fault(kind: str, moment: Moment, step: int, task: str = "worker:0", lasts: float = 0) -> Fault:
    return Fault(kind, moment, step, 1.0, task, 0, lasts, 7)


def small(topology: Topology, loop: Loop) -> Job:
    return dataclasses.replace(Job.draw(topology, loop, 0), **SMALL)


@pytest.mark.parametrize(
    ("topology", "loop", "faults"),
    [
        (
            "workers",
            "custom",
            [
                fault("pause", "step", 1, "worker:1", lasts=1.0),
                fault("kill", "save", 4, "worker:0"),
                fault("preempt", "step", 9),
            ],
        ),
        (
            "single",
            "fit",
            [
                fault("kill", "step", 1),
                fault("kill launcher", "step", 4),
                fault("kill", "save", 7),
                fault("term", "step", 10),
                fault("kill all", "step", 13),
            ],
        ),
        pytest.param(
            *("mirrored", "fit", [fault("term", "save", 4), fault("kill", "step", 11)]),
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            *("servers", "custom"),
            [fault("kill", "step", 5, "ps:0"), fault("kill launcher", "step", 11)],
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_job_survives(
    topology: Topology, loop: Loop, faults: list[Fault], tmp_path: Path
) -> None:
    """It ends with the bits of its undisturbed run; what ends a launcher has the job started."""
    job = small(topology, loop)
    undisturbed = run(job, cache=tmp_path)
    assert undisturbed.end == "identical", undisturbed.why
    outcome = run(job, faults, undisturbed.digests, cache=tmp_path)
    assert (outcome.end, outcome.digests) == ("identical", undisturbed.digests), outcome.why
    assert [each.fault for each in outcome.struck] == faults
    ended = [each for each in faults if each.kind in ("preempt", "kill launcher")]
    assert outcome.starts == 1 + len(ended), "each time the scheduler started the launcher again"


def test_a_job_that_has_ended_and_is_started_again_changes_nothing(tmp_path: Path) -> None:
    """As after the death of its launcher behind the last step."""
    job, folder = small("single", "fit"), Folder(tmp_path / "run")
    folder.set_gate(None)
    environment = {
        **os.environ,
        JOB_VARIABLE: job.to_json(),
        FOLDER_VARIABLE: str(folder.path),
        "PYTHONPATH": str(ROOT),
    }
    results = []
    for start in ("first", "second"):
        command = job.command(tmp_path / start)
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        results.append(folder.result())
    assert "worker:0 table" in results[0] and results[1] == results[0]
    assert len(folder.steps()) < 2 * job.total_steps, "it did not train from the start"
