"""A server with its members, which are in SQLite or in PostgreSQL, as the lists of jobs are."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumline.jobs.server.app import TeamServer, team_app
from drumline.jobs.server.identity import Grant
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.serving import Client, serving


class Team:
    """A server in a thread, with the workspaces ``vision`` and ``text``."""

    def __init__(self, folder: Path) -> None:
        self.server = TeamServer(folder)
        self.port = 0
        self.tokens = {"root": self.server.identity.add_member("root", admin=True)}
        for name in ("vision", "text"):
            self.server.identity.add_workspace(name)

    def member(self, name: str, workspace: str = "vision", role: str = "member") -> Client:
        if name not in self.tokens:
            self.tokens[name] = self.server.identity.add_member(name)
        self.server.identity.set_grant(Grant(workspace, name, role))
        return self.client(name, workspace)

    def client(self, name: str, workspace: str = "vision") -> Client:
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        return Client(self.port, f"/api/v1/workspaces/{workspace}", headers)

    def root(self) -> Client:
        return Client(self.port, "/api/v1", {"Authorization": f"Bearer {self.tokens['root']}"})


def end_supervisors(folder: Path) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"supervisor" in words and any(w.startswith(os.fsencode(folder)) for w in words):
            os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def team(tmp_path: Path, database: Callable[[Path], Path]) -> Iterator[Team]:
    (tmp_path / "server").mkdir(mode=0o700)
    made = Team(database(tmp_path / "server"))
    with serving(team_app(made.server)) as port:
        made.port = port
        yield made
    services = [made.server.workspace(name)[0] for name in made.server.identity.workspaces()]
    for service in services:
        for row in service.store.open_jobs():
            with contextlib.suppress(RuntimeError):  # It has ended meanwhile.
                service.cancel(row.id)

    def over() -> bool:
        for service in services:
            service.wake_if_open()
        return not any(service.store.open_jobs() for service in services)

    wait_until(over, 60)
    made.server.close()
    end_supervisors(tmp_path / "server")
