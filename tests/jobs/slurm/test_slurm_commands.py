"""One job file, on this machine and on Slurm: code by HTTP with a token, data at a path, ps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import drumline as dl
from tests.jobs import test_job_commands
from tests.jobs.slurm.cluster import SlurmCluster
from tests.jobs.sources import test_job_sources
from tests.jobs.sources.test_job_sources import PASSWORD, git
from tests.jobs.test_job_commands import Commands

# Fixtures of theirs.
command, repository, server = (
    test_job_commands.command,
    test_job_sources.repository,
    test_job_sources.server,
)

SCRIPT = """
import json, os, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
told = f"{task['type']}:{task['index']} reads {open('/mnt/digits/values').read()}"
print(told, "node" if "SLURMD_NODENAME" in os.environ else "here", flush=True)
open(f"{task['type']}-{task['index']}", "w").close()
# A parameter server is ended when the workers have ended, whether or not it has come so far.
while task["type"] == "ps" or not os.path.exists("ps-0"):
    time.sleep(0.1)
"""

JOB = """\
name: digits
code: {{git: '{url}', commit: main, user: ada, token: GIT_TOKEN, at: /root/code}}
data:
  - {{from: '{data}', at: /mnt/digits}}
command: [{python}, -S, train.py]
workers: {{count: 2, cpus: 0.2, memory: 80MiB}}
ps: {{count: 1, cpus: 0.1, memory: 60MiB}}
engine: {engine}
"""


def test_the_same_file_here_and_on_slurm(
    cluster: SlurmCluster,
    command: Commands,
    server: str,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    (repository / "train.py").write_text(SCRIPT)
    git("add", ".", cwd=repository)
    git("commit", "-qm", "train", cwd=repository)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "values").write_text("seven")
    folder = tmp_path / "shared"
    assert "Partition nope not found" in command(
        "engine", "add", "lab", "--kind", "slurm", "--partition", "nope", rc=2
    )
    assert "--time is set by drumline" in command(
        "engine", "add", "lab", "--kind", "slurm", "--options", "--time=3", rc=2
    )
    assert "there is no kind 'nope' of engine" in command(
        "engine", "add", "lab", "--kind", "nope", rc=2
    )
    assert command(
        *("engine", "add", "lab", "--kind", "slurm", "--partition", "low", "--folder", str(folder)),
        *("--options", "--no-kill"),
    ).startswith("Engine lab is added")
    listed = command("engine", "list").splitlines()
    assert listed[0] == "local  this machine"
    assert listed[1].startswith(f"lab  slurm  folder={folder}  partition=low  options=--no-kill")
    command("secret", "set", "GIT_TOKEN", text=PASSWORD)
    for number, (engine, where) in enumerate([("local", "here"), ("lab", "node")], 1):
        (command.code / "job.yaml").write_text(
            JOB.format(url=server, data=tmp_path / "data", python=sys.executable, engine=engine)
        )
        said = command("run", "job.yaml", "--follow").splitlines()
        assert sorted(line for line in said if line.startswith(("worker:", "ps:"))) == [
            f"ps:0 | ps:0 reads seven {where}",
            f"worker:0 | worker:0 reads seven {where}",
            f"worker:1 | worker:1 reads seven {where}",
        ]
        assert said[-1] == f"Job {number} has succeeded"
    assert "worker:1 done" in command("logs", "2", "job")
    assert "engine:   lab" in command("show", "2")
    for path in folder.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()
    waits = ("--worker-size", "cpus=4,memory=80MiB", "--workers", "2", "--engine", "lab")
    command("run", *waits, "--", "sleep", "600")
    assert "job 3 is open on lab" in command("engine", "remove", "lab", rc=2)
    command("cancel", "3")
    assert dl.jobs.find(3).wait(120) == "cancelled"
    assert command("engine", "remove", "lab") == "Engine lab is removed.\n"
    assert "there is no engine 'lab'; there is: local" in command("run", *waits, "--", "true", rc=2)
