"""Code from git over HTTP with a token and from folders, and secrets."""

from __future__ import annotations

import base64
import contextlib
import http.server
import os
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.sources import code
from drumline.jobs.sources.code import CodeError, checkout, resolve, snapshot
from drumline.jobs.sources.secrets import (
    Masking,
    SecretError,
    read_secret,
    remove_secret,
    secret_names,
    write_secret,
)

PASSWORD = "pa$$ word'\"\\x"


def git(*arguments: str, cwd: Path) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *names, *arguments], cwd=cwd, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    work = tmp_path / "served" / "r"
    work.mkdir(parents=True)
    git("init", "-q", cwd=work)
    for content in ("first", "second"):
        (work / "t.py").write_text(content)
        git("add", ".", cwd=work)
        git("commit", "-qm", content, cwd=work)
        git("tag", "-am", content, content, cwd=work)
    git("branch", "side", "first", cwd=work)
    return work


@contextlib.contextmanager
def git_over_http(root: Path, user: str, password: str) -> Iterator[str]:
    """Git's own program for serving over HTTP, behind Basic authentication; for pushing, too."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            right = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
            if self.headers.get("Authorization") != right:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            url = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            env = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": url.path,
                "QUERY_STRING": url.query,
                "REQUEST_METHOD": self.command,
                "REMOTE_USER": user,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
            head, _, rest = done.stdout.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().splitlines():
                name, _, value = line.partition(": ")
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(rest)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{serving.server_port}"
        finally:
            serving.shutdown()
            thread.join()


@pytest.fixture
def server(repository: Path) -> Iterator[str]:
    with git_over_http(repository.parent, "ada", PASSWORD) as url:
        yield f"{url}/r/.git"


def test_a_branch_becomes_a_commit_and_its_files(
    server: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    real = subprocess.run

    def spy(command: list[str], **settings: object) -> object:
        seen.append(command)
        seen.append(settings.get("env"))
        return real(command, **settings)  # type: ignore[call-overload]

    monkeypatch.setattr(code.subprocess, "run", spy)
    second, first = git("log", "--format=%H", cwd=repository).split()
    for name, expected in [("main", second), (None, second), ("side", first), ("first", first),
                           (first, first)]:  # fmt: skip
        assert resolve(server, name, "ada", PASSWORD) == expected
    checkout(server, first, "side", tmp_path / "out", "ada", PASSWORD)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["t.py"]
    assert (tmp_path / "out" / "t.py").read_text() == "first"
    assert seen and PASSWORD not in repr(seen) and repr(PASSWORD)[1:-1] not in repr(seen)


def test_a_commit_that_the_server_gives_only_by_its_branch(
    server: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = code._git

    def old(*arguments: str, **credentials: str | None) -> str:
        if "--depth=1" in arguments:
            raise CodeError("Server does not allow request for unadvertised object")
        return real(*arguments, **credentials)

    monkeypatch.setattr(code, "_git", old)
    first = git("rev-parse", "first^{commit}", cwd=repository)
    checkout(server, first, "main", tmp_path / "out", "ada", PASSWORD)
    assert (tmp_path / "out" / "t.py").read_text() == "first"


def test_what_cannot_be_fetched_is_named_without_credentials(server: str, tmp_path: Path) -> None:
    with pytest.raises(CodeError, match="no branch or tag 'none'; its branches are main, side"):
        resolve(server, "none", "ada", PASSWORD)
    for token in ("wrong token", None):
        with pytest.raises(CodeError, match="Authentication failed|could not read Username") as no:
            resolve(server, "main", "ada", token)
        assert "wrong token" not in str(no.value)
    with pytest.raises(CodeError, match="nowhere"):
        resolve(str(tmp_path / "nowhere"), None)


def test_local_repositories_need_no_credentials(repository: Path, tmp_path: Path) -> None:
    commit = resolve(str(repository), "side")
    checkout(str(repository), commit, "side", tmp_path / "out")
    assert (tmp_path / "out" / "t.py").read_text() == "first"


def test_a_folder_is_copied_without_what_git_ignores(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitignore").write_text("*.big\n")
    (repository / "new file\n.py").write_text("new")
    (repository / "data.big").write_text("big")
    (repository / "link").symlink_to("t.py")
    (repository / "gone").write_text("")
    git("add", "gone", cwd=repository)
    (repository / "gone").unlink()
    assert snapshot(repository, tmp_path / "copy") == 4
    found = {p.name for p in (tmp_path / "copy").iterdir()}
    assert found == {".gitignore", "new file\n.py", "link", "t.py"}
    assert (tmp_path / "copy" / "link").is_symlink()


def test_a_plain_folder_is_copied_without_environments(tmp_path: Path) -> None:
    for name in ("a/b.py", ".venv/x", "a/__pycache__/y", ".git/z"):
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / name).write_text("")
    (tmp_path / "f" / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "f" / "pipe")
    snapshot(tmp_path / "f", tmp_path / "copy")
    found = {str(p.relative_to(tmp_path / "copy")) for p in (tmp_path / "copy").rglob("*")}
    assert found == {"a", "a/b.py", "loop"}


def test_a_large_folder_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for name, size in (("weights.h5", 3 << 20), ("small", 10)):
        (tmp_path / "f" / name).write_bytes(b"x" * size)
    with pytest.raises(CodeError, match=r"at most 2 MiB\. The largest: weights\.h5 \(3\.0 MiB\)"):
        snapshot(tmp_path / "f", tmp_path / "copy", largest=2 << 20)
    assert not (tmp_path / "copy").exists()


def test_secrets_are_private_and_masked(tmp_path: Path) -> None:
    write_secret(tmp_path, "TOKEN", "old")
    write_secret(tmp_path, "TOKEN", "a.b*c\nsecond line")
    write_secret(tmp_path, "SHORT", "abc")
    assert secret_names(tmp_path) == ["SHORT", "TOKEN"]
    assert read_secret(tmp_path, "TOKEN") == "a.b*c\nsecond line"
    assert (tmp_path / "secrets" / "TOKEN").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    mask = Masking(tmp_path)
    assert mask("x a.b*c y second line abc aXbc") == "x *** y *** abc aXbc"
    remove_secret(tmp_path, "TOKEN")
    for wrong in (lambda: read_secret(tmp_path, "TOKEN"), lambda: remove_secret(tmp_path, "TOKEN")):
        with pytest.raises(SecretError, match="no secret TOKEN"):
            wrong()
    for name, value in (("../x", "v"), ("A", ""), ("A", "\0")):
        with pytest.raises(SecretError):
            write_secret(tmp_path, name, value)
