"""A server that is killed at each step of a submission: the job is there once, or not at all."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drumline.jobs.server.identity import Grant, TeamMembers
from drumline.jobs.service import connection
from drumline.jobs.service.login import Login
from drumline.jobs.service.remote import RemoteWorkspace
from drumline.jobs.service.workspace_service import WorkspaceService
from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.server.conftest import end_supervisors
from tests.jobs.server.killed_server import STEPS
from tests.ports import free_port


def start(folder: Path, port: int, step: str) -> subprocess.Popen[bytes]:
    program = ROOT / "tests" / "jobs" / "server" / "killed_server.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(program), str(folder), str(port), step]
    return subprocess.Popen(command, env=env)


def prepared(folder: Path, database: Callable[[Path], Path]) -> tuple[str, int]:
    """A server's folder with one member: their token, and a port for it."""
    folder.mkdir(mode=0o700)
    with contextlib.closing(TeamMembers(database(folder))) as members:
        token = members.add_member("ada")
        members.add_workspace("vision")
        members.set_grant(Grant("vision", "ada", "member"))
    return token, free_port()


def test_one_submission_survives_a_kill_at_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Callable[[Path], Path]
) -> None:
    """One client asks for one job, while server after server dies a step later than the last."""
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 300.0)
    folder, ran = tmp_path / "server", tmp_path / "ran"
    token, port = prepared(folder, database)
    code = tmp_path / "code"
    code.mkdir()
    (code / "t.py").write_text(f"open({str(ran)!r}, 'a').write('ran\\n')\n")
    remote = RemoteWorkspace(Login(f"http://127.0.0.1:{port}", token, "vision"))
    numbers: list[int] = []

    def ask() -> None:
        fields = {"command": ["python", "t.py"], "workers": {"cpus": 0.5}}
        numbers.append(remote.run_fields(fields, code, "test"))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    home = folder / "workspaces" / "vision"
    servers: list[subprocess.Popen[bytes]] = []
    queued = list(STEPS).index("it is queued")
    try:
        for step in STEPS:
            server = start(folder, port, step)
            servers.append(server)
            assert server.wait(200) == -signal.SIGKILL, step
            if (home / "jobs.sqlite").exists() or (home / "database.json").exists():
                with contextlib.closing(WorkspaceService(home)) as service:
                    listed = service.jobs()["jobs"]
                    assert len(listed) == (list(STEPS).index(step) >= queued), step
        server = start(folder, port, "-")
        servers.append(server)
        asking.join(200)
        assert numbers, "no answer"
        with contextlib.closing(WorkspaceService(home)) as service:
            (job,) = service.jobs()["jobs"]
            assert job["id"] == numbers[0] and job["by"] == "ada"
            wait_until(lambda: service.row(job["id"]).state == "succeeded", 120)
            assert [path.name for path in (home / "jobs").iterdir()] == [str(job["id"])]
            assert ran.read_text() == "ran\n"
            assert list((home / "uploads").iterdir()) == []
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) in (0, -signal.SIGTERM)
    finally:
        for each in servers:
            each.kill()
            each.wait()
        end_supervisors(folder)


@pytest.mark.thorough
def test_kills_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Callable[[Path], Path]
) -> None:
    """Four clients submit 200 jobs, while the server is killed again and again: each runs once."""
    monkeypatch.setattr(connection, "_RETRY_SECONDS", 600.0)
    folder, ran = tmp_path / "server", tmp_path / "ran"
    token, port = prepared(folder, database)
    code = tmp_path / "code"
    code.mkdir()
    remote = RemoteWorkspace(Login(f"http://127.0.0.1:{port}", token, "vision"))
    command = ["sh", "-c", f"echo $DRUMLINE_JOB >> {ran}"]
    asked: list[tuple[str, int]] = []
    refused: list[Exception] = []

    def ask(who: int) -> None:
        try:
            for i in range(50):
                name = f"job-{who}-{i}"
                fields = {"command": command, "name": name, "workers": {"cpus": 0.1}}
                asked.append((name, remote.run_fields(fields, code, "test")))
        except Exception as error:
            refused.append(error)

    asking = [threading.Thread(target=ask, args=[who], daemon=True) for who in range(4)]
    for thread in asking:
        thread.start()
    chance, kills = random.Random(26), 0

    def asks() -> bool:
        return any(thread.is_alive() for thread in asking)

    servers = []
    try:
        while asks() and kills < 60:
            servers.append(server := start(folder, port, "-"))
            if chance.random() < 0.3:
                wait_until(lambda: _listens(port), 200)  # It has not begun to answer.
            else:
                # However slow the machine is, something is done between two kills.
                known = len(asked)
                wait_until(lambda known=known: len(asked) > known or not asks(), 200)
            time.sleep(chance.uniform(0.0, 0.7))
            server.kill()
            server.wait()
            kills += 1
        servers.append(start(folder, port, "-"))
        for thread in asking:
            thread.join(600)
        assert refused == []
        with contextlib.closing(WorkspaceService(folder / "workspaces" / "vision")) as service:
            listed = service.jobs(limit=1000)["jobs"]
            assert sorted((job["name"], job["id"]) for job in listed) == sorted(asked)
            assert len(asked) == 200 and kills > 5
            wait_until(lambda: service.jobs()["counts"] == {"succeeded": 200}, 1200)
            numbers = sorted(number for _, number in asked)
            assert sorted(map(int, ran.read_text().split())) == numbers, "each has run once"
            uploads = folder / "workspaces" / "vision" / "uploads"
            assert list(uploads.iterdir()) == [], "each was taken over by its job, or removed"
    finally:
        for each in servers:
            each.kill()
            each.wait()
        end_supervisors(folder)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
