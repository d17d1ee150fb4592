"""How many of the machine's cores a process computes with."""

from __future__ import annotations

import os

import pytest

from drumline._addresses import on_host_of
from drumline.distribute.parameter_server.task import share_cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("NPROC", "99")
    monkeypatch.delenv("NPROC")


@pytest.mark.parametrize(("processes", "threads"), [(1, None), (3, "2"), (100, "1")])
def test_a_process_takes_its_share(processes: int, threads: str | None) -> None:
    share_cores(processes)
    assert os.environ.get("NPROC") == threads


def test_settings_of_the_environment_prevail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "3")
    share_cores(2)
    assert os.environ["NPROC"] == "3"


def test_tasks_of_one_host_are_counted() -> None:
    addresses = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "[::1]:3"]
    assert [on_host_of(each, addresses) for each in addresses] == [2, 1, 2, 1]
