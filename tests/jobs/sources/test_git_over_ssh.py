"""Code from git over SSH: a real server, whose key is known or not, and a key that is a secret."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumline.jobs.file.reading import make_job
from drumline.jobs.file.values import JobFileError
from drumline.jobs.service.submission import submit
from drumline.jobs.sources.code import CodeError, checkout, resolve
from drumline.jobs.sources.secrets import write_secret
from tests.jobs.engines.test_job_engine import Workspace, jobs
from tests.jobs.sources.ssh_server import SshServer, new_key, ssh_server
from tests.jobs.sources.test_job_sources import git, repository

__all__ = ["jobs", "repository"]


@pytest.fixture
def server(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshServer]:
    """One that gives who has the key ``allowed`` git alone."""
    (tmp_path / "ssh").mkdir()
    shell = shutil.which("git-shell")
    assert shell is not None
    with ssh_server(tmp_path / "ssh") as found:
        key = new_key(found.folder / "allowed")
        found.allow(key, f'restrict,command="{shell} -c \\"$SSH_ORIGINAL_COMMAND\\""')
        monkeypatch.setenv("GIT_SSH_COMMAND", found.client(found.known_hosts))
        yield found


def address(server: SshServer, repository: Path) -> str:
    return f"ssh://{server.user}@127.0.0.1:{server.port}{repository}"


def test_a_key_that_is_a_secret_and_never_shown(
    server: SshServer, repository: Path, jobs: Workspace
) -> None:
    private = (server.folder / "allowed").read_text()
    # As standard input of `drumline secret set`, of which the last line's end is removed.
    write_secret(jobs.home, "GIT_KEY", private.removesuffix("\n"))
    (repository / "t.py").write_text("print('from git')\n")
    git("commit", "-qam", "prints", cwd=repository)
    code = {"git": address(server, repository), "commit": "main", "key": "GIT_KEY"}
    number = jobs.submit("", code=code)
    row = jobs.row(number)
    assert row.job.code.commit == git("rev-parse", "main", cwd=repository)
    git("commit", "--allow-empty", "-qm", "later", cwd=repository)
    jobs.supervise(number)
    log = jobs.folder(number) / "logs" / "worker-0.log"
    assert (jobs.row(number).state, log.read_text()) == ("succeeded", "from git\n")
    middle = private.splitlines()[2]
    for path in jobs.home.rglob("*"):
        if path.is_file() and path.parent.name != "secrets":
            assert middle.encode() not in path.read_bytes(), path


def test_keys_of_the_user_need_no_secret(
    server: SshServer, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = server.client(server.known_hosts)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{known} -i {server.folder / 'allowed'}")
    url = address(server, repository)
    commit = resolve(url, "side")
    assert commit == git("rev-parse", "side", cwd=repository)
    checkout(url, commit, "side", tmp_path / "out")
    assert (tmp_path / "out" / "t.py").read_text() == "first"


def test_what_ssh_refuses_is_said_with_its_remedy(
    server: SshServer, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, key = address(server, repository), (server.folder / "allowed").read_text()
    other = new_key(tmp_path / "other").read_text()
    locked = new_key(tmp_path / "locked", passphrase="words of it").read_text()
    server.allow(tmp_path / "locked")
    for given, problem in [
        (None, "accepts none of your keys.*drumline secret set NAME < FILE`, and write key: NAME"),
        (other, "does not accept the key, or it has a passphrase"),
        (locked, "does not accept the key, or it has a passphrase"),
        ("no key at all", "the secret is no private key as ssh-keygen makes one"),
    ]:
        with pytest.raises(CodeError, match=problem) as refused:
            resolve(url, "main", None, given)
        assert str(refused.value).startswith(url) and "BEGIN" not in str(refused.value)
    monkeypatch.setenv("GIT_SSH_COMMAND", server.client())
    scan = f"`ssh-keyscan -p {server.port} 127.0.0.1`, compare .* append it to ~/.ssh/known_hosts"
    with pytest.raises(CodeError, match=f"the host key of 127.0.0.1 is not known.* {scan}"):
        resolve(url, "main", None, key)
    # It is not added by itself, and another key than the known one is never taken.
    changed = tmp_path / "changed_hosts"
    public = (tmp_path / "other.pub").read_text()
    changed.write_text(f"[127.0.0.1]:{server.port} {public}")
    monkeypatch.setenv("GIT_SSH_COMMAND", server.client(changed))
    with pytest.raises(CodeError, match=r"another host key than before.*-R '\[127.0.0.1\]:\d+'"):
        resolve(url, "main", None, key)
    assert changed.read_text().count("\n") == 1


def test_keys_belong_to_ssh_and_tokens_to_http(jobs: Workspace) -> None:
    for url, part, problem in [
        ("https://a/b", "key", "code.key: is used over SSH; over http and https there is token"),
        ("git@a:b.git", "token", "code.token: is used over http and https; over SSH there is key"),
    ]:
        with pytest.raises(JobFileError, match=problem):
            make_job({"command": "a", "code": {"git": url, part: "NAME"}}, jobs.code)
    job = make_job({"command": "a", "code": {"git": "git@a:b", "key": "NONE"}}, jobs.code)
    assert (job.code.git, job.code.token) == ("git@a:b", "NONE")
    with pytest.raises(JobFileError, match="code: there is no secret NONE"):
        submit(jobs.store, jobs.engine(), job)
