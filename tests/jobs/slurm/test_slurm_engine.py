"""Jobs on a real Slurm of two nodes: queued, requeued, cancelled and found again, never doubled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drumline.jobs.file.values import JobFileError
from drumline.jobs.sources.secrets import write_secret
from drumline.jobs.supervisor.loop import Supervisor
from tests.jobs.launch.launching import wait_until
from tests.jobs.slurm.conftest import SlurmWorkspace

SIZE = {"cpus": 1, "memory": "100MiB"}

TELLS = """
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]["type"] + str(config["task"]["index"])
print(json.dumps({"task": task, "node": os.environ["SLURMD_NODENAME"],
                  "gpus": os.environ["CUDA_VISIBLE_DEVICES"], "token": os.environ.get("TOKEN"),
                  "cpus": os.environ["SLURM_CPUS_PER_TASK"], "cluster": config.get("cluster")}))
sys.stdout.flush()
time.sleep(60 if task == "ps0" else 0)
"""

SAVES = """
def save(*_):
    print("saves", flush=True)
    time.sleep(0.5)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("run", again, flush=True)
"""


@pytest.fixture(scope="module")
def early(jobs: SlurmWorkspace) -> dict[str, int]:
    """Jobs that take long by themselves, begun before all others."""
    limited = jobs.engine(partition="short")
    script = SAVES + "time.sleep(0 if again else 600)"
    number = jobs.submit(script, limited, workers=SIZE)
    jobs.steps(lambda: jobs.ran(number), limited)
    # From here on any engine of the workspace watches it.
    return {"limited": number}


def told(jobs: SlurmWorkspace, number: int, process: str) -> dict[str, object]:
    found = json.loads(jobs.log(number, process))
    assert isinstance(found, dict)
    return found


def test_two_nodes_with_gpus_and_secrets(jobs: SlurmWorkspace) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    # Of four processors each, so that no two of them fit on one node.
    size = {"count": 2, "cpus": 2.5, "gpus": 1, "memory": "100MiB"}
    number = jobs.submit(TELLS, workers=size, secrets=["TOKEN"])
    assert jobs.ends(number) == ["succeeded"], jobs.row(number)
    workers = [told(jobs, number, f"worker:{index}") for index in (0, 1)]
    assert {worker["node"] for worker in workers} == {"n1", "n2"}
    assert {worker["task"] for worker in workers} == {"worker0", "worker1"}
    assert {worker["gpus"] for worker in workers} <= {"0", "1"}
    assert [worker["cpus"] for worker in workers] == ["3", "3"]
    assert workers[0]["cluster"] == workers[1]["cluster"] and workers[0]["token"] == "very secret"
    assert jobs.ran(number) == 2 and "ended with 0" in jobs.log(number, "job.slurm")
    secret = [path for path in (jobs.shared.rglob("*")) if path.is_file()
              and b"very secret" in path.read_bytes()]  # fmt: skip
    assert {path.name for path in secret} == {"worker-0.log", "worker-1.log"}
    assert jobs.sacct(number) == ["COMPLETED"]
    assert "gres/gpu=2" in jobs.sacct(number, "AllocTRES")[0]


def test_roles_of_two_sizes_are_one_heterogeneous_job(
    jobs: SlurmWorkspace, early: dict[str, int]
) -> None:
    number = jobs.submit(
        TELLS,
        workers={"count": 2, "cpus": 1.5, "gpus": 1, "memory": "100MiB"},
        ps={"count": 1, "cpus": 1, "memory": "60MiB"},
    )
    assert jobs.ends(number) == ["succeeded"], jobs.row(number)
    found = {name: told(jobs, number, name) for name in ("worker:0", "worker:1", "ps:0")}
    assert {name: each["task"] for name, each in found.items()} == {
        "worker:0": "worker0",
        "worker:1": "worker1",
        "ps:0": "ps0",
    }
    assert [found[name]["cpus"] for name in ("worker:0", "ps:0")] == ["2", "1"]
    assert {found[f"worker:{index}"]["gpus"] for index in (0, 1)} == {"0", "1"}
    assert found["ps:0"]["gpus"] == ""
    script = (jobs.main.shared(f"{number}/attempt-1") / "batch.sh").read_text()
    assert script.count("#SBATCH hetjob") == 1 and "--mem-per-cpu=60M" in script


def test_who_failed_first_is_the_reason_and_restarts_are_used(jobs: SlurmWorkspace) -> None:
    script = "sys.exit(3 if os.environ['DRUMLINE_ATTEMPT'] == '1' else 0)"
    number = jobs.submit(script, workers=SIZE, restarts=1)
    other = jobs.submit("sys.exit(3)", workers=SIZE)
    assert jobs.ends(number, other) == ["succeeded", "failed"]
    assert jobs.row(number).restarts == 1 and jobs.ran(number) == 2
    assert jobs.row(other).reason.startswith("Failed first: worker:0 ")
    assert "exited with code 3" in jobs.row(other).reason


def test_cancelling_runs_handlers_once(jobs: SlurmWorkspace) -> None:
    running = jobs.submit(SAVES + "time.sleep(600)", workers={"count": 2, **SIZE})
    jobs.steps(lambda: jobs.ran(running) == 2)
    waiting = jobs.submit("", workers={"count": 2, "cpus": 4, "memory": "100MiB"})
    jobs.steps(lambda: jobs.row(waiting).state == "queued" and jobs.row(waiting).reason)
    assert jobs.row(waiting).reason.startswith("Slurm: ")
    jobs.stop(running)
    jobs.stop(waiting)
    assert jobs.ends(running, waiting) == ["cancelled", "cancelled"]
    for index in (0, 1):
        assert jobs.log(running, f"worker:{index}") == "run 0\nsaves\n"
    assert jobs.ran(waiting) == 0 and jobs.ran(running) == 2


def test_a_job_that_runs_longer_than_its_timeout_is_ended(jobs: SlurmWorkspace) -> None:
    number = jobs.submit(SAVES + "time.sleep(600)", workers=SIZE, timeout="20s", restarts=2)
    assert jobs.ends(number) == ["failed"]
    assert jobs.row(number).reason == "it ran longer than its timeout, 20 s"
    assert jobs.row(number).restarts == 0 and jobs.log(number) == "run 0\nsaves\n"
    assert jobs.ran(number) == 1


def test_a_killed_launcher_is_a_failure_and_is_not_requeued(jobs: SlurmWorkspace) -> None:
    # After so long that a signal which warns would have it requeued.
    script = """
if again == 0:
    time.sleep(6)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
"""
    number = jobs.submit(script, workers=SIZE, restarts=1)
    assert jobs.ends(number) == ["failed"], jobs.row(number)
    assert jobs.row(number).restarts == 1 and jobs.ran(number) == 2
    assert jobs.row(number).reason == "its launcher was killed (SIGKILL, or out of memory)"


def test_what_slurm_would_not_take_is_named_at_submission(jobs: SlurmWorkspace) -> None:
    for engine, fields, problem in [
        (jobs.engine(partition="nope"), {}, "invalid partition specified: nope"),
        (jobs.main, {"workers": {"cpus": 64}}, "node configuration is not available"),
        (jobs.main, {"workers": {"image": "a"}, "data": [{"from": "..", "at": "/mnt/a,b"}]},
         "workers: image: podman and docker mount no path with a comma: /mnt/a,b"),
        (jobs.main, {"workers": SIZE, "ps": {"cpus": 2}, "evaluator": {"cpus": 3}},
         "have 3 different sizes, and Slurm gives each nodes of its own; partition low has 2"),
    ]:  # fmt: skip
        with pytest.raises(JobFileError, match=problem):
            jobs.submit("", engine, **fields)  # type: ignore[arg-type]


STEPS = (
    *("noted", "locked", "copied", "described", "submitting", "submitted", "started"),
    *("finishing", "finished"),
)


class Killed(BaseException):
    """Stands for SIGKILL in a supervisor that runs in the test's own process."""


def test_a_supervisor_killed_at_each_step_loses_no_job_and_starts_none_twice(
    jobs: SlurmWorkspace,
) -> None:
    numbers = [jobs.submit("", workers=SIZE) for _ in STEPS]
    left = list(STEPS)

    def reached(name: str) -> None:
        if name in left:
            left.remove(name)
            raise Killed

    def ended() -> bool:
        return all(jobs.row(n).state == "succeeded" for n in numbers)

    while left:
        engine = jobs.engine(reached)
        supervisor = Supervisor(jobs.store, {"lab": engine}, reached)
        try:
            wait_until(lambda s=supervisor: s.step() and ended(), 150)  # type: ignore[misc]
        except Killed:
            continue
        break
    assert not left
    assert jobs.ends(*numbers) == ["succeeded"] * len(numbers)
    assert [jobs.ran(n) for n in numbers] == [1] * len(numbers)
    assert [len(jobs.sacct(n)) for n in numbers] == [1] * len(numbers)


SLOW = """#!/bin/sh
touch {mark}
sleep 4
/usr/bin/sbatch "$@"
code=$?
touch {mark}-over
exit $code
"""


def test_a_submission_that_outlives_its_supervisor_is_waited_for(
    jobs: SlurmWorkspace, tmp_path: Path
) -> None:
    program = tmp_path / "sbatch"
    number = jobs.submit("", workers=SIZE)
    program.write_text(SLOW.format(mark=tmp_path / "mark"))
    program.chmod(0o755)
    slow = jobs.engine(commands=str(tmp_path))
    jobs.steps((tmp_path / "mark").exists, slow)
    # Slurm knows nothing of it yet, and this supervisor nothing of the other.
    assert jobs.ends(number) == ["succeeded"]
    wait_until((tmp_path / "mark-over").exists)
    assert jobs.ran(number) == 1 and len(jobs.sacct(number)) == 1


def test_without_its_controller_jobs_are_lost_and_then_found(jobs: SlurmWorkspace) -> None:
    script = "\nwhile not os.path.exists(os.environ['RUNS'] + '-go'): time.sleep(0.1)"
    running = jobs.submit(script, workers=SIZE)
    # Slurm says that it runs before its srun, which needs the controller, has begun.
    jobs.steps(lambda: jobs.row(running).state == "running" and jobs.ran(running) == 1)
    late = jobs.submit("", workers=SIZE)
    with jobs.cluster.without("slurmctld"):
        jobs.steps(lambda: {jobs.row(n).state for n in (running, late)} == {"lost"})
        assert "Slurm cannot be asked: " in jobs.row(running).reason
        assert "Unable to contact slurm controller" in jobs.row(running).reason
        with pytest.raises(JobFileError, match="Slurm does not take the job: .*"):
            jobs.submit("", workers=SIZE)
        # Its own file says how it has ended, whether or not Slurm does.
        Path(f"{jobs.runs}-go").touch()
        assert jobs.ends(running) == ["succeeded"]
    assert jobs.ends(late) == ["succeeded"]
    assert jobs.ran(running) == 1 and jobs.ran(late) == 1
    assert any(each.startswith("lost: ") for each in jobs.events(running))


def test_a_limit_of_slurms_has_it_save_and_continue(
    jobs: SlurmWorkspace, early: dict[str, int]
) -> None:
    number = early["limited"]
    assert jobs.ends(number) == ["succeeded"], jobs.log(number, "job.slurm")
    assert jobs.log(number) == "run 0\nsaves\n"
    assert jobs.log(number, "worker:0.requeue-1") == "run 1\n"
    assert jobs.row(number).restarts == 0
    assert jobs.sacct(number, starts=2) == ["REQUEUED", "COMPLETED"]
    waited = [each for each in jobs.events(number) if "BeginTime" in each]
    assert waited and "as a job that was started before waits a while" in waited[0]


def test_accounting_says_how_a_job_ended_that_has_left_nothing(
    jobs: SlurmWorkspace,
) -> None:
    number = jobs.submit("time.sleep(600)", workers=SIZE)
    jobs.steps(lambda: jobs.ran(number) and jobs.row(number).state == "running")
    name = jobs.main.name(f"{number}/attempt-1")
    found = jobs.cluster.command("squeue", "--noheader", f"--name={name}", "--format=%i").stdout
    # It ends without a word: its batch script is killed, too.
    jobs.cluster.command("scancel", "--signal=KILL", "--full", found.strip())

    def forgotten() -> bool:
        return not jobs.cluster.command(
            "squeue", "--noheader", "--states=all", f"--name={name}"
        ).stdout

    # No supervisor looks meanwhile.
    wait_until(forgotten, 150)
    assert jobs.row(number).state == "running"
    assert jobs.ends(number) == ["failed"]
    assert jobs.row(number).reason == f"Slurm ended job {found.strip()}: CANCELLED"
