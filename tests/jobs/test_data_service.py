"""``drumline data-service``: what it has Ray do, and what it says."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from typer.testing import CliRunner

from drumline.jobs.commands import data_service

SAID = """
2026-01-01 00:00:00,000 INFO scripts.py:1092 -- To add another node to this Ray cluster, run
2026-01-01 00:00:00,000 INFO scripts.py:1095 --   ray start --address='10.0.0.1:6379'
"""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Ray's command, as if it were installed; the calls of it."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command[3:])
        failed = "--address=nowhere:1" in command
        return subprocess.CompletedProcess(command, int(failed), "cannot" if failed else SAID)

    monkeypatch.setattr(data_service.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(data_service.subprocess, "run", run)
    return calls


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(data_service.app, arguments)
    return done.exit_code, done.output


def test_a_new_cluster(ray):
    code, said = invoke("start", "--num-cpus", "3", "--port", "0")
    assert code == 0
    (command,) = ray
    assert command[0] == "start"
    assert {"--head", "--port=0", "--num-cpus=3"} <= set(command)
    assert 'dataset.distribute(address="10.0.0.1:6379")' in said


def test_one_more_machine(ray):
    code, said = invoke("start", "--address", "10.0.0.7:1234")
    assert code == 0 and "10.0.0.7:1234" in said
    assert "--address=10.0.0.7:1234" in ray[0] and "--head" not in ray[0]
    code, said = invoke("start", "--address", "nowhere:1")
    assert code == 1 and "cannot" in said


def test_a_cluster_that_asks_for_a_token(ray, monkeypatch):
    assert "RAY_AUTH_MODE" not in invoke("start")[1]
    said = "Token authentication is enabled for this Ray cluster." + SAID

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if "--head" in command:
            return subprocess.CompletedProcess(command, 0, said)
        return subprocess.CompletedProcess(command, 1, "ray.exceptions.AuthenticationError: RPC")

    monkeypatch.setattr(data_service.subprocess, "run", run)
    code, said = invoke("start")
    assert code == 0 and "set RAY_AUTH_MODE=token wherever the address is used" in said
    code, said = invoke("start", "--address", "10.0.0.7:1234")
    assert code == 1 and "asks for a token: set RAY_AUTH_MODE=token" in said


def test_stop(ray):
    code, said = invoke("stop")
    assert code == 0 and ray == [["stop"]]
    assert said == "  ray start --address='10.0.0.1:6379'\n"


def test_without_ray(monkeypatch):
    monkeypatch.setattr(data_service.importlib.util, "find_spec", lambda name: None)
    for command in ("start", "status", "stop"):
        code, said = invoke(command)
        assert code == 2 and "pip install 'drumline[ray]'" in said
