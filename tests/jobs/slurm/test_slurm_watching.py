"""What a job on Slurm's nodes uses, and one that is silent."""

from __future__ import annotations

import os
import sys

import numpy as np

from drumline.jobs.metrics.series import MetricReader
from tests.jobs.slurm.conftest import SlurmWorkspace

# More than half of a node's processors, so that each has one.
SIZE = {"count": 2, "cpus": 3, "memory": "100MiB"}

BUSY = """
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
held = bytearray(96 << 20) if index else b""
os.makedirs("logs", exist_ok=True)
with open(f"logs/of-{index}.csv", "w") as file:
    file.write("epoch,loss\\n0,1.5\\n1,0.5\\n")
while not os.path.exists(os.environ["RUNS"] + "-seen"):
    sum(range(10_000)) if index else time.sleep(0.02)
"""


def test_what_processes_on_two_nodes_use_and_report(jobs: SlurmWorkspace) -> None:
    number = jobs.submit(BUSY, workers=SIZE)
    reader = MetricReader(jobs.main.metrics(f"{number}/attempt-1")[0])

    def sampled() -> bool:
        found = reader.read([jobs.main.metrics(f"{number}/attempt-1")[1]])
        return all(len(found.get(f"cpu/worker:{index}", ())) > 1 for index in range(2))

    jobs.steps(sampled)
    open(f"{jobs.runs}-seen", "w").close()
    assert jobs.ends(number) == ["succeeded"]
    found = reader.read([jobs.main.metrics(f"{number}/attempt-1")[1]])
    assert found["memory/worker:1"].values.max() > 96 << 20 > found["memory/worker:0"].values.max()
    assert 0.02 < found["cpu/worker:1"].values.max() < 1.5
    assert found["cpu/worker:0"].values.min() < found["cpu/worker:1"].values.max()
    np.testing.assert_array_equal(found["logs/of-0/loss"].values, [1.5, 0.5])
    for name in ("cpu/worker:0", "cpu/worker:1"):
        assert (np.diff(found[name].times) > 0).all() and found[name].steps.min() >= 0
    # What samples has ended with its task.
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and samples(pid, number)]
    assert left == []


def samples(pid: str, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return b"slurm-sampler" in words and any(f"/{number}/attempt-".encode() in w for w in words)


SILENT = """
print("begins", flush=True)
def waits_for_nothing():
    while again == 0:
        time.sleep(0.05)
waits_for_nothing()
"""


def test_a_job_that_is_silent_is_ended_with_the_stacks_of_its_processes(
    jobs: SlurmWorkspace,
) -> None:
    number = jobs.submit(
        SILENT, command=[sys.executable, "t.py"], workers=SIZE, hang_after="3s", restarts=0
    )
    assert jobs.ends(number) == ["failed"], jobs.row(number)
    assert "wrote nothing for 3" in jobs.row(number).reason
    kinds = [event.kind for event in jobs.store.events(number)]
    assert "hung" in kinds and jobs.row(number).restarts == 0
    for index in range(2):
        log = jobs.log(number, f"worker:{index}")
        assert log.startswith("begins\n") and "waits_for_nothing" in log, log
    assert jobs.ran(number) == 2
