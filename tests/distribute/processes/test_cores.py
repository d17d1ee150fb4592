"""Processes on one machine divide its cores."""

from __future__ import annotations

import os

import jax
import pytest

from drumline import config
from drumline.distribute.cluster_resolver import ClusterSpec, SimpleClusterResolver
from drumline.distribute.processes import environment
from drumline.distribute.processes.cores import share_cores
from drumline.distribute.processes.group import ProcessGroup, group_of

WORKERS = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "10.0.0.1:3"]


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("NPROC", "99")
    monkeypatch.delenv("NPROC")


def group(task_id: int) -> ProcessGroup:
    spec = ClusterSpec({"worker": WORKERS})
    return group_of(SimpleClusterResolver(spec, task_type="worker", task_id=task_id))


@pytest.mark.parametrize(("task_id", "threads"), [(0, "2"), (1, None), (3, "2")])
def test_a_process_takes_its_share(
    task_id: int, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "logical_cpu_devices", lambda: 1)
    environment.share_the_cores(group(task_id))
    assert os.environ.get("NPROC") == threads


def test_a_process_of_several_devices_takes_all() -> None:
    assert config.logical_cpu_devices() == len(jax.devices("cpu")) > 1
    environment.share_the_cores(group(0))
    assert "NPROC" not in os.environ


def test_there_is_at_least_one_thread() -> None:
    share_cores(100)
    assert os.environ["NPROC"] == "1"


def test_settings_of_the_environment_prevail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "3")
    share_cores(2)
    assert os.environ["NPROC"] == "3"
