"""Every route with every role, and the audit line of every change."""

from __future__ import annotations

import http.client
import itertools
from pathlib import Path

import pytest
import typer
from starlette.routing import Route
from typer.testing import CliRunner

from drumline.jobs.commands.server import register
from drumline.jobs.console import stream
from drumline.jobs.console.pages import ConsoleRoutes
from drumline.jobs.file.model import Job
from drumline.jobs.server import identity
from drumline.jobs.server.app import team_app
from drumline.jobs.server.identity import Grant, TeamMember
from drumline.jobs.service.workspace_service import WorkspaceService
from drumline.jobs.supervisor.limits import read_limits
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.conftest import Team
from tests.jobs.server.serving import Client, serving
from tests.jobs.server.test_team import archive, submit

WORKSPACE = "/api/v1/workspaces/{workspace}"
ROLES = ("eve", "vera", "max", "amy", "root")
"""Of another workspace, viewer, member, admin of this one, admin of the server."""

LEAST = {
    "vera": [
        *("GET /jobs", "POST /jobs/check", "GET /jobs/{job}", "GET /jobs/{job}/events"),
        *("GET /jobs/{job}/logs", "GET /jobs/{job}/logs/{name}", "GET /jobs/{job}/metrics"),
        *("GET /code", "GET /data", "GET /secrets", "GET /engines", "GET /members"),
        *(
            "GET /stream",
            "GET /jobs/{job:int}/checkpoints",
            "GET /jobs/{job:int}/logs/{name}/whole",
            "GET /jobs/{job:int}/logs/{name}/search",
        ),
    ],
    "max": [
        *("POST /jobs", "POST /jobs/{job}/cancel", "POST /jobs/{job}/rerun", "POST /uploads"),
        *("POST /code", "POST /data", "POST /secrets"),
        *("DELETE /code/{name}", "DELETE /data/{name}", "DELETE /secrets/{name}"),
    ],
    "amy": [
        *("POST /engines", "DELETE /engines/{name}"),
        *("POST /members", "DELETE /members/{member}"),
    ],
}
OF_THE_SERVER = [
    *("GET /api/v1/members", "POST /api/v1/members", "DELETE /api/v1/members/{member}"),
    *(f"{verb} /api/v1/members/{{member}}/tokens" for verb in ("GET", "POST", "DELETE")),
    *("DELETE /api/v1/members/{member}/tokens/{number:int}", "POST /api/v1/workspaces"),
    "GET /api/v1/audit",
]
OF_ALL = [
    *("POST /session", "DELETE /session", "GET /api/v1/me"),
    *("GET /", "GET /favicon.ico", "GET /static/{version}/{path:path}"),
]
FILLED = {"{workspace}": "vision", "{job}": "999", "{job:int}": "999", "{name}": "none",
          "{member}": "nemo", "{number:int}": "1"}  # fmt: skip


def people(team: Team) -> dict[str, Client]:
    team.member("eve", "text", "admin")
    for name, role in (("vera", "viewer"), ("max", "member"), ("amy", "admin")):
        team.member(name, role=role)
    return {name: Client(team.port, "", team.client(name).headers) for name in ROLES}


def test_each_route_asks_for_a_role(team: Team) -> None:
    pages = ConsoleRoutes(team.server.admit).routes()
    app = team_app(team.server, pages=pages)
    routes = [
        f"{verb} {route.path}"
        for route in app.routes
        if isinstance(route, Route)
        for verb in (route.methods or set()) - {"HEAD"}
    ]
    inside = {
        f"{verb} {WORKSPACE}{path}": least
        for least, asked in LEAST.items()
        for verb, path in (each.split() for each in asked)
    }
    least = {**inside, **dict.fromkeys(OF_THE_SERVER, "root")}
    assert sorted([*least, *OF_ALL]) == sorted(routes), "each has its row"
    with serving(app) as port:
        team.port = port
        clients, wrong = people(team), []
        for route, role in least.items():
            verb, path = route.split()
            for name, value in FILLED.items():
                path = path.replace(name, value)
            for name in ROLES:
                allowed = ROLES.index(name) >= ROLES.index(role)
                if path.endswith("/stream") and allowed:
                    continue  # which has no end
                answer = clients[name](verb, path, {} if verb != "GET" else None)
                if (answer.status != 403) != allowed:
                    wrong.append((name, route, answer.status))
            bare = Client(port)(verb, path, headers={"X-Drumline": "1"})
            if bare.status != 401:
                wrong.append(("without a token", route, bare.status))
    assert wrong == []


def test_a_stream_ends_with_its_token(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_ALIVE_SECONDS", 600.0)  # nothing is said but news
    ada, grace = team.member("ada"), team.member("grace")
    pages = ConsoleRoutes(team.server.admit)
    with serving(team_app(team.server, pages=pages.routes())) as port:
        opened = []
        for client in (ada, grace):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
            path = "/api/v1/workspaces/vision/stream?jobs=1"
            connection.request("GET", path, headers=client.headers)
            opened.append((connection, connection.getresponse()))
            assert opened[-1][1].readline() == b"retry: 1000\n"
        team.server.identity.revoke("ada")
        (_, of_ada), (_, of_grace) = opened
        of_ada.read()  # to its end
        job = Job("later", ("true",))
        store = team.server.workspace("vision")[0].store
        number = store.submit(job)
        with store.change():
            store.set_state(number, "failed")
        while b"later" not in of_grace.readline():
            pass
        for connection, _ in opened:
            connection.close()
        pages.end()


def test_each_change_is_in_the_audit_log(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("add_engine", "remove_engine"):
        monkeypatch.setattr(WorkspaceService, name, lambda self, what: None)
    ada, root = team.member("ada", role="admin"), team.root()
    number = submit(ada, "pass")
    changes = [
        (ada, "POST", f"/jobs/{number}/rerun", None),
        (ada, "POST", "/code", {"name": "mine", "git": "https://example.com/x"}),
        (ada, "POST", "/data", {"name": "mine", "from": "/tmp"}),
        (ada, "POST", "/secrets", {"name": "KEY", "value": "tops3cret"}),
        (ada, "POST", "/engines", {"name": "lab", "kind": "ssh", "settings": {"hosts": ["a"]}}),
        *((ada, "DELETE", f"/{kind}/mine", None) for kind in ("code", "data")),
        (ada, "DELETE", "/secrets/KEY", None),
        (ada, "DELETE", "/engines/lab", None),
        (root, "POST", "/members", {"name": "bob"}),
        (root, "POST", "/members", {"name": "boss", "admin": True}),
        (root, "POST", "/workspaces", {"name": "sound"}),
        (ada, "POST", "/members", {"member": "bob", "role": "viewer", "limits": {"cpus": 2}}),
        (ada, "DELETE", "/members/bob", None),
        (root, "POST", "/members/bob/tokens", {"label": "pc"}),
        (root, "DELETE", "/members/bob/tokens/3", None),
        (root, "DELETE", "/members/bob/tokens", None),
        (root, "DELETE", "/members/bob", None),
    ]
    for client, verb, path, fields in changes:
        answer = client(verb, path, fields)
        assert answer.status in (200, 201), (path, answer.json)
    wait_until(lambda: ada("GET", f"/jobs/{number}").json["state"] == "succeeded", 90)
    long = submit(ada, "import time; time.sleep(300)")
    assert ada("POST", f"/jobs/{long}/cancel").status == 200
    ours = {"X-Drumline": "1"}
    page = Client(team.port)("POST", "/session", {"token": team.tokens["ada"]}, headers=ours)
    assert page.status == 200
    for path in ("/api/v1/audit", "/api/v1/workspaces/text/jobs"):
        assert Client(team.port, "", ada.headers)("GET", path).status == 403
    assert Client(team.port, "", {"Authorization": "Bearer x"})("GET", "/api/v1/me").status == 401
    rows = root("GET", "/audit").json["audit"][::-1]
    told = [(row["member"], row["workspace"], row["action"], row["target"]) for row in rows]
    assert told == [
        ("ada", "vision", "submit", "job 1"),
        ("ada", "vision", "rerun", "job 1 as job 2"),
        ("ada", "vision", "save code", "mine"),
        ("ada", "vision", "save data", "mine"),
        ("ada", "vision", "set secret", "KEY"),
        ("ada", "vision", "add engine", "lab"),
        ("ada", "vision", "remove code", "mine"),
        ("ada", "vision", "remove data", "mine"),
        ("ada", "vision", "remove secret", "KEY"),
        ("ada", "vision", "remove engine", "lab"),
        ("root", "", "add member", "bob"),
        ("root", "", "add admin", "boss"),
        ("root", "sound", "add workspace", "sound"),
        ("ada", "vision", "set role", "bob: viewer, priority 9, {'cpus': 2}"),
        ("ada", "vision", "remove role", "bob"),
        ("root", "", "add token", "bob pc"),
        ("root", "", "revoke", "bob: token 3"),
        ("root", "", "revoke", "bob: all"),
        ("root", "", "remove member", "bob"),
        ("ada", "vision", "submit", "job 3"),
        ("ada", "vision", "cancel", "job 3"),
        ("ada", "", "sign in", ""),
        ("ada", "", "refuse", "GET /api/v1/audit"),
        ("ada", "text", "refuse", "GET /api/v1/workspaces/text/jobs"),
        ("", "", "refuse a token", ""),
    ]
    assert {row["address"] for row in rows} == {"127.0.0.1"}
    assert all(row["time"] <= after["time"] for row, after in itertools.pairwise(rows))


def test_who_is_removed_leaves_no_token_and_no_role(team: Team) -> None:
    ada, root = team.member("ada"), team.root()
    other = Client(team.port, "/api/v1", ada.headers)
    assert root("DELETE", "/members/ada").status == 200
    assert ada("GET", "/jobs").status == 401
    fresh = root("POST", "/members", {"name": "ada"}).json["token"]
    assert other("GET", "/me").status == 401, "the token of one who had the name before"
    again = Client(team.port, "/api/v1", {"Authorization": f"Bearer {fresh}"})
    assert again("GET", "/me").json["roles"] == {}


def test_limits_go_with_the_role_that_had_them(team: Team) -> None:
    team.member("ada")
    root = Client(team.port, "/api/v1/workspaces/vision", team.root().headers)
    home = team.server.workspace("vision")[0].home
    fields = {"member": "ada", "role": "member", "limits": {"cpus": 2, "jobs": 5}}
    assert root("POST", "/members", fields).status == 201
    assert read_limits(home) == {"ada": {"cpus": 2}}
    assert root("DELETE", "/members/ada").status == 200
    assert read_limits(home) == {}
    assert root("POST", "/members", fields).status == 201
    assert team.root()("DELETE", "/members/ada").status == 200
    assert read_limits(home) == {}


def test_members_see_their_own_limits(team: Team) -> None:
    ada, amy = team.member("ada"), team.member("amy", role="admin")
    seen = [
        [each["member"] for each in client("GET", "/members").json["members"]]
        for client in (ada, amy)
    ]
    assert seen == [["ada"], ["ada", "amy"]]


def test_a_token_takes_as_long_to_compare_whatever_is_wrong_with_it(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `hmac.compare_digest`, of as many characters, also where no token has that number."""
    compared = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    token = team.server.identity.add_member("ada")
    number, end = token.split("_")[1], token[-43:]
    monkeypatch.setattr(identity.hmac, "compare_digest", compare)
    wrong = ["", "x", f"drumline_99_{end}", f"drumline_{number}_{end[:-1]}!", f"{token}x"]
    for each in (token, f"drumline_{number}_{'a' * 43}", *wrong):
        found = team.server.identity.member_of(each)
        assert found == (TeamMember("ada", False, int(number)) if each == token else None)
    assert compared == [(64, 64)] * 7


def test_the_cookie_of_a_server_with_tls_is_sent_by_tls_alone(team: Team) -> None:
    team.member("ada")
    for secure in (False, True):
        with serving(team_app(team.server, secure=secure)) as port:
            ours = {"X-Drumline": "1"}
            answer = Client(port)("POST", "/session", {"token": team.tokens["ada"]}, headers=ours)
            assert ("secure" in answer.headers["set-cookie"].lower()) == secure


def test_a_role_in_one_workspace_is_none_in_another(team: Team) -> None:
    ada = team.member("ada", "vision", "admin")
    team.server.identity.set_grant(Grant("text", "ada", "viewer"))
    text = Client(team.port, "/api/v1/workspaces/text", ada.headers)
    assert text("GET", "/jobs").status == 200
    assert text("POST", "/secrets", {"name": "KEY", "value": "x"}).status == 403
    assert ada("POST", "/secrets", {"name": "KEY", "value": "x"}).status == 201
    assert text("GET", "/secrets").json == {"secrets": []}
    upload = ada("POST", "/uploads", data=archive({"t.py": "pass"})).json["upload"]
    team.server.identity.set_grant(Grant("text", "ada", "member"))
    answer = text("POST", "/jobs", {"job": {"command": "python t.py"}, "upload": upload})
    assert answer.status == 409 and "no such upload" in answer.json["error"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "can be reached from other machines: give --cert and --key"),
        (["--cert", "c.pem"], "--cert and --key belong together"),
        (["--key", "k.pem"], "--cert and --key belong together"),
        (["--cert", "c.pem", "--key", "k.pem"], "there is no file c.pem"),
        (["--host", "192.0.2.1", "--insecure"], "192.0.2.1 cannot be used: "),
        (["--database", "mysql://u:tops3cret@h/d"], "postgresql://USER@HOST"),
    ],
)
def test_a_server_that_is_not_started(tmp_path: Path, options: list[str], said: str) -> None:
    commands = typer.Typer()
    register(commands)
    words = ["server", "--folder", str(tmp_path / "team"), "--port", "0", *options]
    answer = CliRunner().invoke(commands, words)
    assert answer.exit_code == 2 and said in answer.output, answer.exception
    assert "tops3cret" not in answer.output
