"""Limits of a cluster's users: how many jobs they may have, and who may go first."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumline.jobs.engines.slurm import engine as slurm_engine
from tests.jobs.slurm.cluster import OTHER_USER
from tests.jobs.slurm.conftest import SlurmWorkspace

SIZE = {"cpus": 1, "memory": "100MiB"}


def test_a_job_beyond_the_limit_of_jobs_waits_and_says_so(
    jobs: SlurmWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_engine, "_REFUSED_SECONDS", 2.0)
    limited = jobs.engine(qos="one")
    first = jobs.submit("time.sleep(600)", limited, workers=SIZE)
    jobs.steps(lambda: jobs.ran(first), limited)
    # What is full now is no mistake of the file's.
    second = jobs.submit("", limited, workers=SIZE)
    jobs.steps(lambda: jobs.row(second).reason.startswith("Slurm: QOSMaxSubmit"), limited)
    assert jobs.row(second).state == "queued"
    assert jobs.row(second).reason == (
        "Slurm: QOSMaxSubmitJobPerUserLimit: it takes no more of your jobs now; asked again every "
        "half minute"
    )
    jobs.stop(first)
    assert jobs.ends(first, second, engine=limited) == ["cancelled", "succeeded"]
    assert jobs.ran(second) == 1 and jobs.row(second).restarts == 0
    assert len(jobs.store.attempts(second)) == 1


# Slurm is asked as a user who is no operator; what it takes then is submitted.
AS_OTHER = """#!/bin/sh
for script do :; done
runuser -u {user} -- /usr/bin/sbatch --test-only --chdir=/tmp <"$script" || exit 1
exec /usr/bin/sbatch "$@"
"""


def nice(jobs: SlurmWorkspace, number: int) -> str:
    name = jobs.main.name(f"{number}/attempt-1")
    return jobs.cluster.command("squeue", "--noheader", f"--name={name}", "--format=%y").stdout


def test_operators_may_go_first_and_for_others_it_is_said(
    jobs: SlurmWorkspace, tmp_path: Path
) -> None:
    program = tmp_path / "sbatch"
    program.write_text(AS_OTHER.format(user=OTHER_USER))
    program.chmod(0o755)
    other = jobs.engine(commands=str(tmp_path))
    numbers = []
    for engine, priority in ((jobs.main, 9), (jobs.main, 3), (other, 8)):
        numbers.append(jobs.submit("time.sleep(600)", engine, workers=SIZE, priority=priority))
        jobs.steps(lambda: jobs.ran(numbers[-1]), engine)
    high, low, refused = numbers
    assert [nice(jobs, n).strip() for n in (high, low, refused)] == ["-4000", "2000", "0"]
    said = "data: Slurm lets its operators alone go first: priority 8 counts as 5 there"
    assert said in jobs.events(refused)
    assert not any("operators" in text for n in (high, low) for text in jobs.events(n))
    for number in (high, low, refused):
        jobs.stop(number)
    assert jobs.ends(high, low, refused) == ["cancelled"] * 3
    assert jobs.ran(refused) == 1
