"""What was done, and its answer was lost: the client asks again, and is not told of an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline.jobs.engines.local import attempt
from drumline.jobs.server.app import team_app
from drumline.jobs.service.connection import RequestRefusedError
from drumline.jobs.service.login import Login
from drumline.jobs.service.remote import RemoteWorkspace
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.conftest import Team, end_supervisors
from tests.jobs.server.serving import serving


class _Cutting:
    """An application whose answers to what changes something are cut once each, after headers."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.cut: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked = f"{scope['method']} {scope['path']}"
        cuts = scope["method"] != "GET" and asked not in self.cut

        async def sending(message: Any) -> None:
            if cuts and message["type"] == "http.response.body":
                self.cut.append(asked)
                return  # uvicorn closes a connection whose answer has no end.
            await send(message)

        await self._app(scope, receive, sending)


@pytest.fixture
def cutting(tmp_path: Path) -> Iterator[tuple[_Cutting, RemoteWorkspace, Team]]:
    (tmp_path / "server").mkdir(mode=0o700)
    team = Team(tmp_path / "server")
    app = _Cutting(team_app(team.server))
    with contextlib.closing(team.server), serving(app) as port:
        team.member("ada", role="admin")
        login = Login(f"http://127.0.0.1:{port}", team.tokens["ada"], "vision")
        yield app, RemoteWorkspace(login), team
    end_supervisors(tmp_path / "server")


def test_what_is_repeated_is_no_error(
    cutting: tuple[_Cutting, RemoteWorkspace, Team], tmp_path: Path
) -> None:
    app, remote, team = cutting
    service, _, _ = team.server.workspace("vision")
    remote.set_secret("key", "value")
    remote.save("code", "trainer", {"git": "https://example.org/x.git"}, tmp_path)
    record = {"kind": "slurm", "settings": {}}
    (service.home / "engines").mkdir(mode=0o700)
    attempt.write(service.home / "engines" / "there.json", record)
    (tmp_path / "code").mkdir()
    fields = {"command": ["sleep", "600"], "workers": {"cpus": 0.1}}
    number = remote.run_fields(fields, tmp_path / "code", "test")
    assert [row.id for row in service.rows(9)] == [number], "it was submitted once"
    wait_until(lambda: service.row(number).state == "running", 120)
    remote.remove_secret("key")
    remote.remove_saved("code", "trainer")
    remote.remove_engine("there")
    remote.cancel(number)
    wait_until(lambda: service.row(number).state == "cancelled", 120)
    assert len(app.cut) == 8 and remote.secrets() == {"secrets": []}
    # Each of them was the first of its kind, and is an error by now.
    for again in (
        lambda: remote.remove_secret("key"),
        lambda: remote.remove_saved("code", "trainer"),
        lambda: remote.remove_engine("there"),
        lambda: remote.cancel(number),
    ):
        with pytest.raises(RequestRefusedError):
            again()


def test_a_job_that_has_ended_by_the_first_try(
    cutting: tuple[_Cutting, RemoteWorkspace, Team],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is cancelled, and has ended before it is asked once more."""
    _, remote, team = cutting
    service, _, _ = team.server.workspace("vision")
    (tmp_path / "code").mkdir()
    fields = {"command": ["sleep", "600"], "workers": {"cpus": 0.1}}
    number = remote.run_fields(fields, tmp_path / "code", "test")
    first, cancel = [True], service.cancel

    def cancel_and_wait(job: int) -> None:
        cancel(job)
        if first.pop() if first else False:
            wait_until(lambda: service.row(job).state == "cancelled", 120)

    monkeypatch.setattr(service, "cancel", cancel_and_wait)
    remote.cancel(number)
    assert service.row(number).state == "cancelled"
