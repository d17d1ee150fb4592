"""Members in SQLite and in PostgreSQL: alike, moved with all there is, through lost connections."""

from __future__ import annotations

import contextlib
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from drumline.jobs.server import app, identity
from drumline.jobs.server.app import TeamServer, team_app
from drumline.jobs.server.identity import (
    LIMITS,
    ROLES,
    Grant,
    IdentityError,
    TeamMember,
    TeamMembers,
)
from drumline.jobs.store import moving
from drumline.jobs.store.connection import StoreError
from drumline.jobs.store.moving import move_tables
from drumline.jobs.store.workspace import database_url, write_database_url
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.conftest import Team, end_supervisors
from tests.jobs.server.serving import serving
from tests.jobs.store.cluster import PostgresCluster

NAMES = st.sampled_from(["ada", "bob", "Eve", "", "a\0b", "\ud800", "vision", "text"])
AMOUNTS = st.sampled_from([0, 1, 2.5, 1e30])
NUMBERS = st.none() | st.integers(0, 5) | st.sampled_from([2**63, 10**30])


class Alike(RuleBasedStateMachine):
    """The same is done to both, and gives the same."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self._folders = [tempfile.TemporaryDirectory() for _ in range(2)]
        homes = [Path(each.name) for each in self._folders]
        write_database_url(homes[1], self.url)
        self._made, self._now = 0, 1e9
        self._patches = contextlib.ExitStack()
        clock = types.SimpleNamespace(time=lambda: self._now)
        chance = types.SimpleNamespace(token_urlsafe=lambda size: f"{self._made:043}")
        self._patches.enter_context(mock.patch.object(identity, "time", clock))
        self._patches.enter_context(mock.patch.object(identity, "secrets", chance))
        self.members = [TeamMembers(home) for home in homes]
        self.tokens = ["drumline_1_" + "x" * 43]

    def teardown(self) -> None:
        self._patches.close()
        for each in self.members:
            each.close()
        for folder in self._folders:
            folder.cleanup()

    def both(self, ask: Callable[[TeamMembers], object]) -> Any:
        self._now += 7
        self._made += 1

        def answer(members: TeamMembers) -> object:
            try:
                return ask(members)
            except IdentityError as error:
                return str(error)

        first, second = (answer(members) for members in self.members)
        assert first == second
        return first

    def keep(self, token: object) -> None:
        if str(token).startswith("drumline_"):
            self.tokens.append(str(token))

    @rule(name=NAMES, admin=st.booleans())
    def add_member(self, name: str, admin: bool) -> None:
        self.keep(self.both(lambda members: members.add_member(name, admin)))

    @rule(name=NAMES)
    def remove_member(self, name: str) -> None:
        self.both(lambda members: members.remove_member(name))

    @rule(name=NAMES, label=st.text(max_size=5))
    def add_token(self, name: str, label: str) -> None:
        self.keep(self.both(lambda members: members.add_token(name, label)))

    @rule(name=NAMES, number=NUMBERS)
    def revoke(self, name: str, number: int | None) -> None:
        self.both(lambda members: members.revoke(name, number))

    @rule(name=NAMES)
    def add_workspace(self, name: str) -> None:
        self.both(lambda members: members.add_workspace(name))

    @rule(workspace=NAMES, name=NAMES, role=st.sampled_from(ROLES), priority=st.integers(0, 10),
          limits=st.dictionaries(st.sampled_from(LIMITS), AMOUNTS))  # fmt: skip
    def set_grant(
        self, workspace: str, name: str, role: str, priority: int, limits: dict[str, float]
    ) -> None:
        self.both(lambda members: members.set_grant(Grant(workspace, name, role, priority, limits)))

    @rule(workspace=NAMES, name=NAMES)
    def remove_grant(self, workspace: str, name: str) -> None:
        self.both(lambda members: members.remove_grant(workspace, name))

    @rule(name=NAMES, what=st.text(max_size=300) | st.sampled_from(["\0", "\ud800", "100 %s ?"]))
    def record(self, name: str, what: str) -> None:
        self.both(lambda members: members.record("ada", name, "save", what, "::1"))

    @rule(before=st.none() | st.integers(0, 9), limit=st.integers(1, 4))
    def page(self, before: int | None, limit: int) -> None:
        self.both(lambda members: members.audit(before, limit))

    @rule(workspace=NAMES, name=NAMES)
    def look(self, workspace: str, name: str) -> None:
        self.both(lambda members: members.tokens(name))
        self.both(lambda members: members.grants_in(workspace))

    @invariant()
    def all_is_the_same(self) -> None:
        self.both(lambda members: (members.members(), members.workspaces()))
        for token in self.tokens[-3:]:
            member = self.both(lambda members, token=token: members.member_of(token))
            for each in filter(None, [member, TeamMember("bob", False)]):
                self.both(lambda members, each=each: members.grants_of(each))
                for name in ("vision", "text", "a\0b"):
                    self.both(lambda members, each=each, name=name: members.grant(name, each))


def test_members_are_alike_in_both(postgresql: PostgresCluster) -> None:
    class Machine(Alike):
        url = postgresql.database()

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )


def everything(members: TeamMembers) -> object:
    listed = members.members()
    tokens = [members.tokens(str(each["name"])) for each in listed]
    return listed, tokens, members.workspaces(), members.audit(limit=1000)


def filled(folder: Path) -> tuple[TeamMembers, dict[str, str]]:
    members = TeamMembers(folder)
    tokens = {name: members.add_member(name, name == "root") for name in ("root", "ada", "gone")}
    members.remove_member("gone")  # whose token's number is not given again
    members.add_workspace("vision")
    members.set_grant(Grant("vision", "ada", "member", 5, {"cpus": 2, "jobs": 3}))
    members.revoke("root")
    tokens["root"] = members.add_token("root", "laptop")
    members.record("ada", "vision", "submit", "job 1", "::1")
    return members, tokens


def test_members_are_moved_with_all_there_is_of_postgresql(
    tmp_path: Path, postgresql: PostgresCluster
) -> None:
    opened, tokens = filled(tmp_path)
    before, url = everything(opened), postgresql.database()
    with contextlib.closing(TeamServer(tmp_path, url)) as team:
        members = team.identity
        assert everything(members) == before
        assert members.member_of(tokens["ada"]) == TeamMember("ada", False, 2)
        assert members.member_of(tokens["gone"]) is None
        assert database_url(tmp_path) == url == database_url(tmp_path / "workspaces" / "vision")
        assert not (tmp_path / "server.sqlite").exists()
        assert (tmp_path / "database.json").stat().st_mode & 0o777 == 0o600
        with pytest.raises(StoreError, match="moved to PostgreSQL; try again"):
            opened.revoke("ada")
        assert members.add_token("ada").startswith("drumline_5_")
        members.record("ada", "vision", "submit", "job 2", "::1")
        assert [each["number"] for each in members.audit()] == [2, 1]
    # Where they are is known without being said again; another place is refused.
    with contextlib.closing(TeamServer(tmp_path)) as team:
        team.identity.add_workspace("text")
        team.workspace("text")
        assert database_url(tmp_path / "workspaces" / "text") == url
    with pytest.raises(StoreError, match="the list of members of .* is in another database"):
        TeamServer(tmp_path, f"{url}&application_name=x")
    TeamServer(tmp_path, url).close()  # A refused one has left no lock.
    opened.close()


def test_a_move_of_members_that_was_killed_is_continued_in_postgresql(
    tmp_path: Path, postgresql: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, tokens = filled(tmp_path)
    before, url = everything(opened), postgresql.database()
    with monkeypatch.context() as patched:
        patched.setattr(moving, "write_database_url", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move_tables(tmp_path, url, identity.MEMBERS)
    assert everything(opened) == before and database_url(tmp_path) is None, "it is where it was"
    # Meanwhile it has gone on in SQLite: what was copied is old, and not taken for whole.
    opened.revoke("ada")
    with pytest.raises(StoreError, match=r"\(schema drumline_server_\w+\) has rows .*drop the"):
        move_tables(tmp_path, url, identity.MEMBERS)
    opened._db.execute("update tokens set revoked=null where member='ada'")
    assert everything(opened) == before
    move_tables(tmp_path, url, identity.MEMBERS)
    with contextlib.closing(TeamMembers(tmp_path)) as members:
        assert everything(members) == before
        assert members.member_of(tokens["ada"]) is not None
    opened.close()


@pytest.fixture
def away(
    tmp_path: Path, postgresql: PostgresCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Team]:
    """A team whose database is killed and comes back; it looks after its workspaces often."""
    monkeypatch.setattr(app, "_SUPERVISOR_SECONDS", 0.1)
    folder = tmp_path / "server"
    folder.mkdir(mode=0o700)
    write_database_url(folder, postgresql.database())
    team = Team(folder)
    team.server.start()
    with serving(team_app(team.server)) as port:
        team.port = port
        yield team
    team.server.close()
    end_supervisors(folder)


def test_a_postgresql_that_goes_away_and_comes_back(
    away: Team,
    postgresql: PostgresCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ada = away.member("ada")
    assert ada("GET", "/jobs").status == 200
    postgresql.cut()
    assert ada("GET", "/jobs").status == 200, "a connection that was cut is made again"
    monkeypatch.setattr("drumline.jobs.store.postgresql._PATIENCE_SECONDS", 0.2)
    looked = mock.Mock(side_effect=away.server.identity.workspaces)
    monkeypatch.setattr(away.server.identity, "workspaces", looked)
    postgresql.kill()
    try:
        for method, path in (("GET", "/jobs"), ("POST", "/secrets")):
            answer = ada(method, path, {"name": "key", "value": "x"})
            assert answer.status == 503 and "list of members is away" in answer.json["error"]
            assert str(postgresql.port) not in answer.json["error"], "where it is, is not said"
        asked = looked.call_count
        wait_until(lambda: looked.call_count > asked + 1, 60)
    finally:
        postgresql.start()
    assert ada("GET", "/secrets").json == {"secrets": []}, "nothing was done by whom is not known"
    # Whoever looks after the supervisors has not ended by it.
    asked = looked.call_count
    wait_until(lambda: looked.call_count > asked + 1, 60)
    said = [line.split(" ", 2)[2] for line in capfd.readouterr().err.splitlines()]
    assert f"127.0.0.1:{postgresql.port}" in said[0] or str(postgresql.folder) in said[0]
    mine = [line.removeprefix("the server ") for line in said if line.startswith("the server ")]
    assert all(line.startswith("waits: ") for line in mine[:-1]) and mine[-1] == "continues"
    assert len(set(said)) == len(said), "each reason is said once"
    assert away.root()("DELETE", "/members/ada/tokens").json == {"revoked": 1}
    assert ada("GET", "/jobs").status == 401
