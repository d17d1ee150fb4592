"""Who is refused: foreign names, other sites, those without the token; and what a page may do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.console.fabricated import workspace
from tests.jobs.console.serving import NAME, TOKEN, Console, console

CANCEL = f"/api/v1/workspaces/{NAME}/jobs/1/cancel"
STATIC = Path("drumline/jobs/console/static")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("console") / "home"
    workspace(home).close()
    with console(home, home) as made:
        yield made


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", ""])
def test_foreign_host(served: Console, host: str) -> None:
    for path in ("/", "/api/v1/me", "/static/x/main.js"):
        status, _, body = served.ask(path, Host=host)
        assert status == 421
        assert b"name" in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9", "[::1]:80"])
def test_names_of_loopback(served: Console, host: str) -> None:
    assert served.ask("/api/v1/me", Host=host)[0] == 200


@pytest.mark.parametrize("token", [None, "", "another-token-0123456789", TOKEN[:-1], "é"])
def test_without_the_token(served: Console, token: str | None) -> None:
    paths = ("/jobs", "/jobs/30", "/jobs/30/logs/worker:0", "/stream?jobs=1", "/secrets")
    more = ("/jobs/30/checkpoints", "/jobs/30/logs/worker:0/whole", "/jobs/30/metrics")
    more += ("/jobs/30/logs/worker:0/search?text=loss",)
    given = None if token is None else token.encode().decode("latin-1")
    for path in (*paths, *more):
        status, _, body = served.ask(f"/api/v1/workspaces/{NAME}{path}", token=given)
        assert (status, "token" in json.loads(body)["error"]) == (401, True), path


def test_session(served: Console) -> None:
    plain = {"X-Drumline": "1", "token": None}
    status, headers, _ = served.ask("/session", "POST", {"token": TOKEN}, **plain)  # type: ignore[arg-type]
    cookie = headers["set-cookie"]
    assert status == 200
    assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    mine = {"Cookie": cookie.partition(";")[0], "token": None}
    assert served.ask("/api/v1/me", **mine)[0] == 200  # type: ignore[arg-type]
    # A cookie alone changes nothing: another site's form sends it, too, where SameSite is not kept.
    assert served.ask(CANCEL, "POST", {}, **mine)[0] == 403  # type: ignore[arg-type]
    wrong = served.ask("/session", "POST", {"token": "wrong" * 5}, **plain)  # type: ignore[arg-type]
    assert wrong[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_change_nothing(served: Console, headers: dict[str, str]) -> None:
    before = served.api("/jobs")["counts"]
    status, _, body = served.ask(CANCEL, "POST", {}, **headers, **{"X-Drumline": "1"})
    assert (status, b"other sites" in body) == (403, True)
    assert served.api("/jobs")["counts"] == before


def test_headers_that_protect_a_page(served: Console) -> None:
    for path in ("/", "/api/v1/me", "/nowhere", f"/api/v1/workspaces/{NAME}/jobs"):
        _, headers, _ = served.ask(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert "unsafe" not in policy and "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_no_other_files(served: Console) -> None:
    names = ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "index.html/..", "pages")
    for name in names:
        assert served.ask(f"/static/x/{name}", token=None)[0] in (404, 200)
        assert b"console_app" not in served.ask(f"/static/x/{name}", token=None)[2]


def test_nothing_from_elsewhere_and_no_markup_from_text() -> None:
    for path in STATIC.rglob("*"):
        if path.suffix in (".js", ".html", ".css"):
            text = path.read_text()
            addresses = re.findall(
                r"(?:https?:)?//[a-z][\w.-]+\.\w+", re.sub(r"(?m)^\s*//.*$", "", text)
            )
            allowed = ("//www.w3.org", "//git.example.com")
            assert not [each for each in addresses if not each.endswith(allowed)], path
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text
            )


def test_page_is_small(served: Console) -> None:
    _, headers, page = served.ask("/", token=None)
    assert headers["cache-control"] == "no-cache"
    loaded = re.findall(rb'"(static/[^"]+)"', page)
    sizes = [len(page)]
    for each in loaded:
        status, headers, body = served.ask(f"/{each.decode()}", token=None, Accept_Encoding="gzip")
        assert (status, headers["content-encoding"]) == (200, "gzip")
        assert "immutable" in headers["cache-control"]
        sizes.append(len(body))
    listed = served.ask(f"/api/v1/workspaces/{NAME}/jobs")[2]
    assert len(loaded) > 8
    assert sum(sizes) + len(listed) < 150_000


def test_bad_questions_have_clear_answers(served: Console) -> None:
    for query in (
        "job=x",
        "job=-1",
        "events=1.5",
        "log=30",
        "log=30/a",
        "log=30/../x@1",
        f"job={9**40}",
    ):
        status, _, body = served.ask(f"/api/v1/workspaces/{NAME}/stream?{query}")
        assert status == 400, query
        assert "must be" in json.loads(body)["error"]
    for query in ("", "text=", f"text={'x' * 201}", "text=a%0Ab", "text=a&from=-1", "text=a&from=x",
                  "text=a&limit=1001", "text=a&back=2"):  # fmt: skip
        path = f"/api/v1/workspaces/{NAME}/jobs/30/logs/worker:0/search?{query}"
        status, _, body = served.ask(path)
        assert (status, "must be" in json.loads(body)["error"]) == (400, True), query
    for path in (
        "/jobs/999/logs/x/search?text=a",
        "/jobs/999/checkpoints",
        "/jobs/30/logs/nothing/whole",
        "/jobs/999/logs/x/whole",
    ):
        status, _, body = served.ask(f"/api/v1/workspaces/{NAME}{path}")
        assert (
            status,
            "there is no job" in str(json.loads(body)) or "has no log" in str(body),
        ) == (
            404,
            True,
        )
    assert served.ask("/api/v1/workspaces/another/jobs")[0] == 404


def test_an_answer_of_a_search(served: Console) -> None:
    log = served.ask(f"/api/v1/workspaces/{NAME}/jobs/30/logs/worker:0")[2]
    found = served.api("/jobs/30/logs/worker:0/search?text=WARNING&limit=5")
    at = log.index(b"\x1b[33mWARNING")
    assert found["lines"] == [[at, log.index(b"\n", at) + 1]]
    assert (found["from"], found["to"], found["size"]) == (0, len(log), len(log))
    back = served.api(f"/jobs/30/logs/worker:0/search?text=epoch&back=1&from={at}")
    assert log[slice(*back["lines"][0])].endswith(b"Epoch 21/60\x1b[0m\n")
