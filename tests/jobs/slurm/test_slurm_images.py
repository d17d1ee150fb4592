"""Processes in containers on Slurm's nodes, by podman and by apptainer."""

from __future__ import annotations

import os
import shutil

import pytest

from drumline.jobs.sources.secrets import write_secret
from tests.jobs.engines.apptainer import Apptainer
from tests.jobs.engines.test_job_images import apptainer, containers, image
from tests.jobs.slurm.conftest import SlurmWorkspace

__all__ = ["apptainer", "image"]

INSIDE = """
printf '%s ' "$(</mnt/drum/set/a)" "$TOKEN" "$SLURMD_NODENAME"
echo no 2>/dev/null > /mnt/drum/set/b || printf 'read-only '
test -e /usr/bin && printf 'not in the image '
[[ $TF_CONFIG == *worker* ]] && echo "as a worker"
"""


@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
def test_podman_runs_each_task(jobs: SlurmWorkspace, image: str) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    (jobs.code / "set").mkdir(exist_ok=True)
    (jobs.code / "set" / "a").write_text("hello")
    (jobs.code / "t.sh").write_text(INSIDE)
    number = jobs.submit(
        "",
        command="bash t.sh",
        workers={"count": 2, "cpus": 3, "memory": "200MiB", "image": image},
        secrets=["TOKEN"],
        env={"CONTAINERS_CONF": os.environ["CONTAINERS_CONF"]},
        data=[{"from": "set", "at": "/mnt/drum/set"}],
    )
    assert jobs.ends(number) == ["succeeded"], (jobs.row(number), jobs.log(number, "job"))
    logs = {jobs.log(number, f"worker:{index}") for index in range(2)}
    assert logs == {f"hello very secret {node} read-only as a worker\n" for node in ("n1", "n2")}
    assert jobs.main.name(f"{number}/attempt-1") not in containers()


def test_apptainer_runs_each_task(jobs: SlurmWorkspace, apptainer: Apptainer) -> None:
    write_secret(jobs.home, "TOKEN", "very secret")
    (jobs.code / "set").mkdir(exist_ok=True)
    (jobs.code / "set" / "a").write_text("hello")
    (jobs.code / "t.sh").write_text(INSIDE)
    number = jobs.submit(
        "",
        command="bash t.sh",
        workers={"count": 2, "cpus": 3, "memory": "200MiB", "image": str(apptainer.image)},
        secrets=["TOKEN"],
        env={"PATH": apptainer.path},
        data=[{"from": "set", "at": "/mnt/drum/set"}],
    )
    assert jobs.ends(number) == ["succeeded"], (jobs.row(number), jobs.log(number, "job"))
    logs = {jobs.log(number, f"worker:{index}") for index in range(2)}
    assert logs == {f"hello very secret {node} read-only as a worker\n" for node in ("n1", "n2")}


def test_a_node_without_any_runtime_says_so(
    jobs: SlurmWorkspace, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    number = jobs.submit(
        "",
        command="bash -c true",
        workers={"count": 1, "image": "known:1"},
        env={"PATH": str(tmp_path)},
    )
    assert jobs.ends(number) == ["failed"]
    said = jobs.row(number).reason + jobs.log(number)
    assert "needs podman or apptainer or singularity or docker on this machine" in said
