"""What is submitted to Slurm and how its answers are read, without a Slurm."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from drumline.jobs.engines.slurm.in_job import SlurmStep
from drumline.jobs.engines.slurm.queue import SlurmJob, SlurmQueue
from drumline.jobs.engines.slurm.script import (
    OptionError,
    SlurmSettings,
    batch_script,
    checked_options,
    components,
)
from drumline.jobs.file.model import Job
from drumline.jobs.file.reading import make_job


def job(**fields: object) -> Job:
    return make_job({"command": "python t.py", **fields}, Path("/"))


def test_roles_of_one_size_are_one_component() -> None:
    size = {"cpus": 2, "memory": "3GiB"}
    same = job(chief=size, workers={"count": 3, **size})
    assert [(each.first, each.tasks) for each in components(same)] == [(0, 4)]
    other = job(workers={"count": 3, "gpus": 1}, ps={"count": 2, **size}, evaluator=size)
    assert [(each.first, each.tasks) for each in components(other)] == [(0, 3), (3, 3)]
    assert components(other)[1].options() == [
        *("--ntasks=3", "--cpus-per-task=2", "--mem-per-cpu=1536M")
    ]


def test_the_script_has_limits_and_options_of_each_component() -> None:
    settings = SlurmSettings("/shared", "gpu", "lab", options=("--constraint=a b",))
    whole = job(timeout="90s", priority=2, ps={"cpus": 2})
    text = batch_script(whole, settings, "drumline-7-1-ab", Path("/shared/a"), Path("/w"))
    first, second = text.split("#SBATCH hetjob\n")
    lines = first.splitlines()
    assert lines[0] == "#!/bin/sh" and "#SBATCH --job-name=drumline-7-1-ab" in lines
    assert "#SBATCH --time=2" in lines and "#SBATCH --nice=3000" in lines  # 90 s and the grace
    assert not any("--signal" in line for line in lines)
    for part in (first, second):
        assert "#SBATCH --partition=gpu\n#SBATCH --account=lab\n" in part
        assert '#SBATCH --constraint="a b"\n' in part
    assert second.splitlines()[-1].endswith("slurm-batch /shared/a")
    high = batch_script(job(priority=9), settings, "n", Path("/a"), Path("/w"))
    assert "#SBATCH --nice=-4000\n" in high
    plain = batch_script(job(), SlurmSettings("/shared"), "n", Path("/a"), Path("/w"))
    assert "--signal=TERM@60" in plain and "--time" not in plain and "--nice" not in plain


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("--time=3", "--time is set by drumline"),
        ("-p gpu", "'-p' is no long option"),
        ("--comment='a", "cannot be split into words"),
        ("constraint=a100", "is no long option"),
    ],
)
def test_options_that_are_not_passed_on(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        checked_options(text)
    assert checked_options("--constraint='a b' --exclusive") == ("--constraint=a b", "--exclusive")


SQUEUE = """#!/bin/sh
cat <<'TOLD'
7+0|drumline-1-1-ab|PENDING|Resources|N/A|16|2|gpu
7+1|drumline-1-1-ab|PENDING|None|N/A|2|1|gpu
9|drumline-2-1-ab|PENDING|BeginTime|2026-11-27T10:02:31|1|1|gpu
10|drumline-3-1-ab|RUNNING|None|2026-11-27T10:02:31|1|1|gpu
11|drumline-4-1-ab|PENDING|QOSMaxJobsPerUserLimit|N/A|1|1|gpu
12|drumline-3-1-ab|PENDING|Priority|N/A|1|1|gpu
13|drumline-1-1-cd|RUNNING|None|N/A|1|1|gpu
TOLD
"""


def test_what_squeue_says_in_words(tmp_path: Path) -> None:
    for name, text in (
        ("squeue", SQUEUE),
        ("sacct", "#!/bin/sh\necho '8|x-5-1-ab|CANCELLED by 0'"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    queue = SlurmQueue(SlurmSettings("/shared", commands=str(tmp_path)), "-ab")
    answer = queue._ask(["x-5-1-ab", "x-6-1-ab"])
    assert answer.problem == "" and answer.jobs == {
        "drumline-1-1-ab": SlurmJob(
            *("7", "PENDING"),
            "Slurm: Resources: 16 cpus on 2 nodes of partition gpu are not free yet",
        ),
        "drumline-2-1-ab": SlurmJob(
            *("9", "PENDING"),
            "Slurm: BeginTime: not before 10:02:31, as a job that was started before waits a while",
        ),
        # Of two of one name the first: the other will do nothing.
        "drumline-3-1-ab": SlurmJob("10", "RUNNING"),
        "drumline-4-1-ab": SlurmJob("11", "PENDING", "Slurm: QOSMaxJobsPerUserLimit"),
        "x-5-1-ab": SlurmJob("8", "CANCELLED"),
    }
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: no way' >&2; exit 1")
    assert queue._ask([]).problem == "no way"


SCONTROL = """#!/bin/sh
[ -e up ] && exit 0
echo "scontrol: error: Unable to contact slurm controller (connect failure)" >&2
exit 1
"""
SRUN = """#!/bin/sh
echo try >> tries
[ -e up ] && [ -e works ]
"""


def ended(step: SlurmStep, ending: bool = False) -> int:
    """The exit code of a step."""
    while (code := step.poll(ending)) is None:
        time.sleep(0.01)
    return code


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmStep:
    """Of an srun that has failed once, without a controller."""
    for name, text in (("scontrol", SCONTROL), ("srun", SRUN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr("drumline.jobs.engines.slurm.in_job._PAUSE_SECONDS", 0.05)
    return SlurmStep(["srun"], os.environ, [tmp_path / "launch-0.log"])


def tries() -> int:
    return len(Path("tries").read_text().splitlines())


def test_a_step_begins_once_the_controller_is_back(step: SlurmStep, tmp_path: Path) -> None:
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        assert step.poll(ending=False) is None
        time.sleep(0.01)
    assert tries() == 1, "nothing can begin without the controller"
    (tmp_path / "works").touch()
    (tmp_path / "up").touch()
    assert ended(step) == 0 and tries() == 2


def test_a_step_that_fails_with_a_controller_is_tried_twice(
    step: SlurmStep, tmp_path: Path
) -> None:
    (tmp_path / "up").touch()
    assert ended(step) == 1 and tries() == 2


def test_a_step_whose_tasks_have_begun_is_not_repeated(step: SlurmStep, tmp_path: Path) -> None:
    (tmp_path / "launch-0.log").touch()
    assert ended(step) == 1 and tries() == 1


def test_a_step_of_a_job_that_ends_is_not_repeated(step: SlurmStep) -> None:
    assert ended(step, ending=True) == 1 and tries() == 1
