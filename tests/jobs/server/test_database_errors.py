"""What is told of a database that cannot be used: to members, to an admin, and in the log."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.server import app
from drumline.jobs.server.app import TroubleLog, team_app
from drumline.jobs.store.connection import StoreLostError, StoreUnavailable
from drumline.jobs.store.workspace import DATABASE_FILE, opened, write_database_url
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.conftest import Team
from tests.jobs.server.serving import Client, serving
from tests.ports import free_port

PLACE = re.compile("keeper|sesame|127.0.0.1|joblist|postgresql|/tmp")


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """A team of whose workspace ``vision`` the database does not answer."""
    pytest.importorskip("psycopg")
    monkeypatch.setattr(app, "_SUPERVISOR_SECONDS", 0.05)
    (tmp_path / "server").mkdir(mode=0o700)
    team = Team(tmp_path / "server")
    home = opened(tmp_path / "server" / "workspaces" / "vision")
    write_database_url(home, f"postgresql://keeper:sesame@127.0.0.1:{free_port()}/joblist")
    with contextlib.closing(team.server), serving(team_app(team.server)) as port:
        team.port = port
        yield team


def test_members_are_not_told_where_the_database_is(
    sealed: Team, capfd: pytest.CaptureFixture[str]
) -> None:
    ada, amy = sealed.member("ada"), sealed.member("amy", role="admin")
    for client in (ada, amy):
        for method, path in (
            ("GET", "/jobs"), ("GET", "/jobs/1"), ("GET", "/jobs/1/logs"), ("POST", "/jobs"),
            ("POST", "/jobs/check"), ("POST", "/jobs/1/cancel"), ("POST", "/uploads"),
            ("GET", "/secrets"), ("GET", "/engines"),
        ):  # fmt: skip
            answer = client(method, path, {"yaml": "command: true"})
            assert answer.status == 503, path
            assert answer.json == {
                "error": "the workspace 'vision': its database cannot be reached."
            }
    # Who looks after the server is told all but the password, and so is its log, once.
    root = Client(sealed.port, "/api/v1/workspaces/vision", sealed.root().headers)
    whole = root("GET", "/jobs").json["error"]
    assert "the list of jobs in postgresql://keeper@127.0.0.1:" in whole and "refused" in whole
    said = capfd.readouterr().err
    assert said.count(whole) == 1 and said.count("\n") == 1 and "sesame" not in said + whole
    assert sealed.client("ada", "text")("GET", "/jobs").status == 403
    assert sealed.member("bob", "text")("GET", "/jobs").status == 200, "another is not concerned"


def test_a_workspace_whose_database_comes_back(
    sealed: Team, capfd: pytest.CaptureFixture[str]
) -> None:
    sealed.server.start()
    said: list[str] = []

    def lines() -> list[str]:
        said.extend(line.split(" ", 2)[2] for line in capfd.readouterr().err.splitlines())
        return said

    wait_until(lines, 60)
    (sealed.server.folder / "workspaces" / "vision" / DATABASE_FILE).unlink()
    wait_until(lambda: "the workspace 'vision' continues" in lines(), 60)
    assert len(said) == 2, said
    assert said[0].startswith(
        "the workspace 'vision' waits: the list of jobs in postgresql://keeper@"
    )
    assert sealed.member("ada")("GET", "/jobs").status == 200


def test_what_is_shown_of_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of the list of members, when it goes away after it was asked who asks."""
    team = Team(tmp_path)
    ada, text = team.member("ada"), "postgresql://keeper@127.0.0.1/joblist was lost"
    with contextlib.closing(team.server), serving(team_app(team.server)) as port:
        team.port = ada.port = port
        for error in (StoreUnavailable(text), StoreLostError(text)):

            def fail(*_: object, error: Exception = error) -> None:
                raise error

            monkeypatch.setattr(team.server.identity, "grant", fail)
            monkeypatch.setattr(team.server.identity, "grants_of", fail)
            me = Client(port, "/api/v1", ada.headers)
            for answer in (ada("GET", "/jobs"), me("GET", "/me")):
                assert answer.status == 503 and not PLACE.search(answer.json["error"])
            assert me("GET", "/me").json == {"error": f"the server: {error.shown}."}
            assert team.root()("GET", "/me").json == {"error": text}
    busy = StoreUnavailable("job 7 is still being submitted; ask again", "job 7 is; ask again")
    assert busy.shown == "job 7 is; ask again"


def test_a_request_that_fails_is_said_once_a_minute(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TroubleLog()
    for _ in range(3):
        log.failed("the server", "the disk is full")
        log.failed("the workspace 'vision'", "the disk is full")
    assert capfd.readouterr().err.count("the disk is full") == 2
    monkeypatch.setattr(app, "_AGAIN_SECONDS", 0.0)
    log.failed("the server", "the disk is full")
    with log.waiting("the server"):
        raise OSError("the disk is full")
    log.failed("the server", "the disk is full")
    with log.waiting("the server"):
        pass
    said = [line.split(" ", 2)[2] for line in capfd.readouterr().err.splitlines()]
    assert said == [
        "the server: the disk is full",
        "the server waits: the disk is full",
        "the server continues",
    ]
