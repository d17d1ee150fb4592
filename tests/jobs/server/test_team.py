"""Who may do what on a server: members, roles, tokens, limits; over real connections."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import stat
import tarfile
import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from drumline.jobs.commands.server import register
from drumline.jobs.file.model import Job
from drumline.jobs.server import door
from drumline.jobs.server.answers import LARGEST_BODY
from drumline.jobs.server.app import ServerError, TeamServer
from drumline.jobs.server.door import FailedLogins
from drumline.jobs.server.identity import Grant, TeamMember, TeamMembers
from tests.jobs.launch.launching import wait_until
from tests.jobs.server.conftest import Team
from tests.jobs.server.serving import Client


def archive(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()


def submit(client: Client, script: str = "print(1)", key: str = "", **fields: object) -> int:
    upload = client("POST", "/uploads", data=archive({"t.py": script})).json["upload"]
    job = {"command": "python t.py", "workers": {"cpus": 0.5}, **fields}
    headers = {"Idempotency-Key": key} if key else {}
    answer = client("POST", "/jobs", {"job": job, "upload": upload}, headers=headers)
    assert answer.status == 201, answer.json
    return int(answer.json["id"])


def test_two_share_a_workspace_a_third_is_denied_and_a_token_stops_at_once(team: Team) -> None:
    ada, grace = team.member("ada"), team.member("grace")
    eve = team.member("eve", "text")
    number = submit(ada, "print('hello')")
    wait_until(lambda: grace("GET", f"/jobs/{number}").json["state"] == "succeeded", 90)
    assert grace("GET", f"/jobs/{number}").json["by"] == "ada"
    assert grace("GET", f"/jobs/{number}/logs/worker:0").data == b"hello\n"
    for path in ("/jobs", f"/jobs/{number}", f"/jobs/{number}/logs/worker:0", "/secrets"):
        denied = Client(team.port, "/api/v1/workspaces/vision", eve.headers)("GET", path)
        assert denied.status == 403 and "eve has no role" in denied.json["error"]
        nowhere = Client(team.port, "/api/v1/workspaces/none", eve.headers)("GET", path)
        assert (
            nowhere.status == 403
            and nowhere.json["error"].replace("none", "vision") == (denied.json["error"])
        ), "whether there is such a workspace is not said"
    assert Client(team.port, "/api/v1/workspaces/vision")("GET", "/jobs").status == 401
    assert team.root()("DELETE", "/members/ada/tokens").json == {"revoked": 1}
    assert ada("GET", "/jobs").status == ada("POST", "/jobs", {}).status == 401
    assert grace("GET", "/jobs").status == 200
    team.server.identity.remove_grant("vision", "grace")
    assert grace("GET", "/jobs").status == 403
    actions = [each["action"] for each in team.root()("GET", "/audit").json["audit"]]
    assert {"submit", "revoke", "refuse", "refuse a token"} <= set(actions)


def test_a_token_that_is_revoked_follows_no_further(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    member_of = team.server.identity.member_of

    def looked_up(token: str) -> TeamMember | None:
        found = member_of(token)
        asked.append(found.name if found else "")
        return found

    monkeypatch.setattr(team.server.identity, "member_of", looked_up)
    ada, grace = team.member("ada"), team.member("grace")
    number = submit(ada, "import time; print('x', flush=True); time.sleep(300)")
    wait_until(lambda: ada("GET", f"/jobs/{number}/logs/worker:0").data == b"x\n", 90)
    seen = sum(each["size"] for each in ada("GET", f"/jobs/{number}/logs").json["logs"])
    answers = []

    def follow() -> None:
        answers.append(grace("GET", f"/jobs/{number}/logs?seen={seen}&wait=60"))

    following = threading.Thread(target=follow)
    following.start()
    wait_until(lambda: "grace" in asked, 60)  # It was let in, and waits for what is written.
    team.server.identity.revoke("grace")
    following.join(50)
    assert not following.is_alive() and answers[-1].status == 401
    assert ada("POST", f"/jobs/{number}/cancel").status == 200


def test_tokens_are_stored_as_digests_and_shown_once(team: Team, tmp_path: Path) -> None:
    ada = team.member("ada")
    made = ada_root = Client(team.port, "/api/v1", ada.headers)
    token = made("POST", "/members/ada/tokens", {"label": "laptop"}).json["token"]
    listed = ada_root("GET", "/members/ada/tokens").json["tokens"]
    assert [each["label"] for each in listed] == ["", "laptop"] and listed[0]["used"] > 0
    secret = token.split("_", 2)[2]
    for path in (tmp_path / "server").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert secret.encode() not in data, path
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    stored = team.server.identity._db.execute("select * from tokens")
    assert len(stored) == 3 and all(secret not in str(row) for row in stored)
    assert all(re.fullmatch("[0-9a-f]{64}", row["hash"]) for row in stored)
    assert ada_root("DELETE", "/members/ada/tokens/3").json == {"revoked": 1}
    assert ada_root("DELETE", "/members/ada/tokens/3").status == 400
    for number in ("0", "1", str(2**63), "9" * 400):  # of none, of another's
        assert ada_root("DELETE", f"/members/ada/tokens/{number}").status == 400
    assert ada_root("GET", "/members/root/tokens").status == 403
    assert ada_root("GET", "/members").status == ada_root("GET", "/audit").status == 403


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "drumline_1_" + "a" * 43,
        "drumline_99_" + "a" * 43,
        "drumline_0_" + "é" * 43,
        "a" * 9000,
    ],
)
def test_foreign_tokens(team: Team, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
    answer = Client(team.port, "/api/v1", headers)("GET", "/me")
    assert answer.status == 401 and "token" in answer.json["error"]


def test_too_many_wrong_tokens_are_not_looked_at(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(team.server.door, "_failures", FailedLogins(lambda: now[0]))
    ada, grace = team.member("ada"), team.member("grace")
    assert ada("GET", "/jobs").status == 200
    wrong = Client(team.port, "/api/v1", {"Authorization": "Bearer wrong"})
    found = [wrong("GET", "/me").status for _ in range(door.MOST_FAILURES + 3)]
    assert found == [401] * door.MOST_FAILURES + [429] * 3
    assert ada("GET", "/jobs").status == 200, "who was right before is not locked out"
    assert grace("GET", "/jobs").status == 429
    now[0] = door.FAILURE_SECONDS + 1
    assert grace("GET", "/jobs").status == 200


def test_roles(team: Team) -> None:
    viewer, member = team.member("vera", role="viewer"), team.member("max")
    admin, other = team.member("amy", role="admin"), team.member("oto")
    number = submit(member, "import time; time.sleep(60)")
    assert viewer("GET", f"/jobs/{number}").status == 200
    for method, path in (
        ("POST", "/jobs"), ("POST", f"/jobs/{number}/cancel"), ("POST", f"/jobs/{number}/rerun"),
        ("POST", "/uploads"), ("POST", "/secrets"), ("DELETE", "/code/x"),
    ):  # fmt: skip
        assert viewer(method, path, {}).status == 403, path
    assert member("POST", "/engines", {"name": "k", "kind": "slurm"}).status == 403
    assert member("POST", "/members", {"member": "oto", "role": "admin"}).status == 403
    answer = other("POST", f"/jobs/{number}/cancel")
    assert answer.status == 403 and "of max" in answer.json["error"]
    assert admin("POST", f"/jobs/{number}/cancel").status == 200
    assert admin("POST", "/members", {"member": "oto", "role": "king"}).status == 400
    assert admin("POST", "/members", {"member": "oto", "role": "viewer"}).status == 201
    assert other("POST", "/jobs", {}).status == 403
    me = Client(team.port, "/api/v1", admin.headers)("GET", "/me").json
    assert me["member"] == "amy" and me["roles"] == {"vision": "admin"}


def test_limits_of_members(team: Team) -> None:
    """The highest priority, the jobs open, and what running jobs hold together."""
    ada, grace = team.member("ada"), team.member("grace")
    root = Client(team.port, "/api/v1/workspaces/vision", team.root().headers)
    fields = {"member": "ada", "role": "member", "priority": 5, "limits": {"cpus": 0.5, "jobs": 2}}
    assert root("POST", "/members", fields).status == 201
    for wrong in ({"limits": {"cpus": "x"}}, {"limits": {"disk": 1}}, {"priority": 10}):
        assert root("POST", "/members", {**fields, **wrong}).status == 400
    upload = ada("POST", "/uploads", data=archive({"t.py": "pass"})).json["upload"]
    job = {"command": "python t.py", "workers": {"cpus": 0.5}}
    answer = ada("POST", "/jobs", {"job": {**job, "priority": 6}, "upload": upload})
    assert answer.status == 400 and "priority: must be at most 5" in answer.json["error"]
    answer = ada("POST", "/jobs", {"job": {**job, "workers": {"cpus": 1}}, "upload": upload})
    assert answer.status == 400 and "may hold 0.5 cpus" in answer.json["error"]
    assert ada("POST", "/jobs", {"job": job, "upload": upload}).status == 201, "it was not used up"
    # One that runs on, and one that waits for it although there is room.
    long = submit(grace, "import time; time.sleep(60)", workers={"cpus": 0.1})
    first = ada("POST", "/jobs", {"job": job, "upload": "0" * 32})
    assert first.status == 409 and "send the folder again" in first.json["error"]
    wait_until(lambda: ada("GET", "/jobs/1").json["state"] == "succeeded", 90)
    holds = submit(ada, "import time; time.sleep(60)")
    waits = submit(ada, "pass")
    wait_until(lambda: "may hold" in ada("GET", f"/jobs/{waits}").json["reason"], 90)
    assert ada("GET", f"/jobs/{waits}").json["reason"] == (
        "waits for 0.5 cpus of the 0.5 cpus that jobs of ada may hold; 0.5 cpus are held"
    )
    answer = ada("POST", f"/jobs/{holds}/rerun")
    assert answer.status == 400 and "2 jobs of yours are open, and 2 may be" in answer.json["error"]
    # The limit is lifted: it need not wait for another change.
    assert root("POST", "/members", {**fields, "limits": {}}).status == 201
    wait_until(lambda: ada("GET", f"/jobs/{waits}").json["state"] == "succeeded", 90)
    for client, number in ((ada, holds), (grace, long)):
        assert client("POST", f"/jobs/{number}/cancel").status == 200


def test_hosts_in_a_members_file_are_refused(team: Team) -> None:
    """The server would log in to them with keys of its own."""
    ada, amy = team.member("ada"), team.member("amy", role="admin")
    text = "command: 'true'\ncode: {git: 'https://example.com/x'}\nengine: {ssh: [node1]}\n"
    for yaml, line in ((text, 3), (f"name: x\n{text}", 4)):
        (problem,) = ada("POST", "/jobs/check", {"yaml": yaml}).json["problems"]
        assert problem["line"] == line and "hosts are not named by members" in problem["text"]
        answer = ada("POST", "/jobs", {"yaml": yaml})
        assert answer.status == 400 and "drumline engine add NAME --kind" in answer.json["error"]
    assert ada("GET", "/jobs").json["jobs"] == []
    assert amy("POST", "/jobs/check", {"yaml": text}).json["problems"] == []
    # A job of an admin's is not repeated by a member, either.
    store, job = team.server.workspace("vision")[0].store, Job("x", ("true",), engine="ssh:node1")
    number = store.submit(job, "amy")
    with store.change():
        store.set_state(number, "failed")
    answer = ada("POST", f"/jobs/{number}/rerun")
    assert answer.status == 400 and "hosts are not named by members" in answer.json["error"]
    assert "hosts are" not in amy("POST", f"/jobs/{number}/rerun").json["error"]
    team.server._member_hosts = True
    assert ada("POST", "/jobs/check", {"yaml": text}).json["problems"] == []


def test_options_of_the_server_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    def refuse(*arguments: object) -> None:
        made.append(arguments)
        raise ServerError("enough")

    monkeypatch.setattr("drumline.jobs.server.app.TeamServer", refuse)
    commands = typer.Typer()
    register(commands)
    where = ["server", "--folder", str(tmp_path), "--port", "0"]
    for more in ([], ["--member-hosts"], ["--database", "postgresql://h/d"]):
        said = CliRunner().invoke(commands, [*where, *more])
        assert said.exit_code == 2 and said.output == "drumline: enough\n", said.exception
    assert made == [
        (tmp_path, None, False),
        (tmp_path, None, True),
        (tmp_path, "postgresql://h/d", False),
    ]


def test_what_is_done_in_the_folder_is_in_the_audit_log(tmp_path: Path) -> None:
    commands = typer.Typer()
    register(commands)
    for words in (
        "add ada -w vision", "role ada viewer -w vision --limits cpus=2", "token ada --label pc",
        "revoke ada 1", "role ada none -w vision", "add root --admin", "remove ada", "remove ada",
    ):  # fmt: skip
        said = CliRunner().invoke(commands, ["member", *words.split(), "--folder", str(tmp_path)])
        token = said.stdout.split()[-1] if "add" in words else "none"
    assert said.exit_code == 2 and "there is no member 'ada'" in said.output
    with contextlib.closing(TeamMembers(tmp_path)) as members:
        rows = members.audit()
    assert all((row["member"], row["address"]) == ("", "folder") for row in rows)
    assert [(row["workspace"], row["action"], row["target"]) for row in reversed(rows)] == [
        ("vision", "add workspace", "vision"),
        ("", "add member", "ada"),
        ("vision", "set role", "ada: member, priority 9, no limits"),
        ("vision", "set role", "ada: viewer, priority 9, {'cpus': 2.0}"),
        ("", "add token", "ada pc"),
        ("", "revoke", "ada: token 1"),
        ("vision", "remove role", "ada"),
        ("", "add admin", "root"),
        ("", "remove member", "ada"),
    ]
    assert token not in str(rows)


def test_a_repeated_request_submits_once(team: Team) -> None:
    ada, grace = team.member("ada"), team.member("grace")
    first = submit(ada, "print(1)", key="the-very-same")
    again = ada(
        "POST", "/jobs", {"job": {"command": "true"}, "upload": "gone"},
        headers={"Idempotency-Key": "the-very-same"},
    )  # fmt: skip
    assert again.status == 201 and again.json["id"] == first
    assert submit(grace, "print(1)", key="the-very-same") != first, "another's is another"
    # Many at the same time.
    upload = ada("POST", "/uploads", data=archive({"t.py": "pass"})).json["upload"]
    found: list[object] = []

    def ask() -> None:
        job = {"command": "python t.py", "workers": {"cpus": 0.5}}
        answer = ada(
            "POST",
            "/jobs",
            {"job": job, "upload": upload},
            headers={"Idempotency-Key": "at-once-8"},
        )
        found.append(answer.json.get("id", answer.json))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = {each for each in found if isinstance(each, int)}
    assert len(numbers) == 1, found
    assert ada("GET", "/jobs").json["counts"].get("submitting") is None
    assert len(ada("GET", "/jobs").json["jobs"]) == 3


def test_pages_have_a_cookie_and_other_sites_nothing(team: Team) -> None:
    ada = team.member("ada")
    bare = Client(team.port)
    assert bare("POST", "/session", {"token": team.tokens["ada"]}).status == 403, "no X-Drumline"
    ours = {"X-Drumline": "1"}
    answer = bare("POST", "/session", {"token": team.tokens["ada"]}, headers=ours)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    page = {"Cookie": cookie.split(";")[0]}
    path = "/api/v1/workspaces/vision/jobs"
    assert bare("GET", path, headers=page).status == 200
    assert bare("POST", f"{path}/check", {"yaml": ""}, headers=page).status == 403
    assert bare("POST", f"{path}/check", {"yaml": ""}, headers={**page, **ours}).status == 200
    for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = bare("POST", f"{path}/check", {"yaml": ""}, headers={**page, **ours, **foreign})
        assert answer.status == 403
    assert ada("GET", "/jobs", headers={"Host": "evil.example"}).status == 421
    assert "access-control-allow-origin" not in ada("GET", "/jobs").headers
    team.server.identity.revoke("ada")
    assert bare("GET", path, headers=page).status == 401


def test_a_client_that_says_nothing_is_not_waited_for(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drumline.jobs.server import answers

    ada = team.member("ada")
    monkeypatch.setattr(answers, "BODY_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", team.port), timeout=60) as slow:
        head = f"POST /api/v1/workspaces/vision/jobs HTTP/1.1\r\nHost: 127.0.0.1:{team.port}\r\n"
        head += f"Authorization: {ada.headers['Authorization']}\r\nContent-Length: 100\r\n\r\n"
        slow.sendall(head.encode() + b"{")
        assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")
    assert ada("GET", "/jobs").json["jobs"] == []


def test_a_body_without_a_length_has_a_limit(team: Team) -> None:
    ada = team.member("ada")
    document = json.dumps({"yaml": "x" * LARGEST_BODY}).encode()
    pieces = (document[i : i + (64 << 10)] for i in range(0, len(document), 64 << 10))
    with contextlib.closing(HTTPConnection("127.0.0.1", team.port, timeout=60)) as connection:
        path = "/api/v1/workspaces/vision/jobs/check"
        connection.request("POST", path, pieces, ada.headers, encode_chunked=True)
        answer = connection.getresponse()
        assert answer.status == 413 and b"more than 1048576 bytes" in answer.read()
    assert ada("POST", "/jobs/check", data=document).status == 413


def test_one_server_for_a_folder(team: Team, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="another server uses"):
        TeamServer(tmp_path / "server")
    with pytest.raises(ValueError, match="there is no member"):
        team.server.identity.set_grant(Grant("vision", "none", "member"))
    with pytest.raises(ValueError, match="last admin"):
        team.server.identity.remove_member("root")
