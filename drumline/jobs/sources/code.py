"""A job's code, copied when the job is submitted: from a git repository, or from a folder.

Credentials are given to git, or to ssh, by a file that its user alone can read, which is removed
afterwards: they are in no command line, in no environment and in no repository's configuration.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from drumline.jobs.file.model import over_ssh

LARGEST_COPY = 64 << 20
"""Bytes of a folder that is copied with a job."""

_GIT_SECONDS = 600
_LEFT_OUT = {".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", "drumline-logs"}
_ASKED = """#!/bin/sh
case "$1" in Username*) sed -n 1p "{file}";; *) sed 1d "{file}";; esac
"""


class CodeError(Exception):
    """Code that cannot be had; the message says why, without credentials."""


def resolve(url: str, name: str | None, user: str | None = None, token: str | None = None) -> str:
    """The commit that a branch, a tag or a commit stands for now; without one, that of HEAD.

    Args:
        url: the repository.
        name: a branch, a tag or a whole commit.
        user: for HTTP.
        token: the password or token; over SSH the private key.

    Raises:
        CodeError: the repository cannot be read, or has none of that name.
    """
    if name is not None and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name):
        return name
    listed = _git("ls-remote", "--", url, user=user, token=token, url=url)
    lines = (line.split("\t", 1) for line in listed.splitlines() if "\t" in line)
    commits = {ref: commit for commit, ref in lines}
    if name is None:
        wanted = ["HEAD"]
    else:
        wanted = [f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}"]
    for each in wanted:
        if each in commits:
            return commits[each]
    if not commits:
        raise CodeError(f"{url} is empty: it has no commit")
    branches = sorted(each[11:] for each in commits if each.startswith("refs/heads/"))
    raise CodeError(
        f"{url} has no branch or tag {name!r}; its branches are {', '.join(branches[:10])}"
        f"{' and more' if len(branches) > 10 else ''} (a commit must have all its digits)"
    )


def checkout(
    url: str, commit: str, name: str | None, into: Path,
    user: str | None = None, token: str | None = None,
) -> None:  # fmt: skip
    """Put the files of a commit into a new folder, without the repository's history.

    Args:
        url: the repository.
        commit: all its digits.
        name: the branch or tag it was found by, for servers that give no single commits.
        into: the folder, which must not exist.
        user: for HTTP.
        token: the password or token; over SSH the private key.

    Raises:
        CodeError: it cannot be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="drumline-git-") as temporary:
        _git("init", "-q", "--", temporary)
        # The address is given, not stored as a remote.
        fetch = ("-C", temporary, "fetch", "-q", "--no-tags")
        try:
            _git(*fetch, "--depth=1", "--", url, commit, user=user, token=token, url=url)
        except CodeError:
            ref = "HEAD" if name is None or name == commit else name
            _git(*fetch, "--", url, ref, user=user, token=token, url=url)
        try:
            _git("-C", temporary, "checkout", "-q", "--detach", commit)
        except CodeError as error:
            raise CodeError(f"{url} gives no commit {commit}: {error}") from None
        shutil.rmtree(Path(temporary, ".git"))
        into.mkdir(parents=True)
        for each in Path(temporary).iterdir():
            shutil.move(each, into / each.name)


def copied_files(folder: Path, largest: int = LARGEST_COPY) -> list[str]:
    """The files of a folder that `snapshot` copies, as paths in it.

    Raises:
        CodeError: they are larger than `largest` together. The largest files are named.
        OSError: it cannot be read.
    """
    names = sorted(set(_tracked(folder)))
    sizes = {name: (folder / name).lstat().st_size for name in names}
    if (total := sum(sizes.values())) > largest:
        worst = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
        listed = ", ".join(f"{name} ({sizes[name] / 2**20:.1f} MiB)" for name in worst)
        raise CodeError(
            f"{folder} has {total / 2**20:.1f} MiB in {len(names)} files, and a job's copy has "
            f"at most {largest / 2**20:g} MiB. The largest: {listed}. Add what the job does "
            "not need to .gitignore, or give the folder of the code alone."
        )
    return names


def snapshot(folder: Path, into: Path, largest: int = LARGEST_COPY) -> int:
    """Copy a folder, without what git ignores; return how many files it has.

    Outside a git repository, environments and caches are left out (`.venv`, `__pycache__` and the
    like).

    Args:
        folder: what is copied.
        into: the copy, which must not exist.
        largest: how many bytes it may have.

    Raises:
        CodeError: it is larger, or cannot be read. The largest files are named.
    """
    try:
        names = copied_files(folder, largest)
        into.mkdir(parents=True)
        for name in names:
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / name, target, follow_symlinks=False)
    except OSError as error:
        raise CodeError(f"{folder} cannot be copied: {error}") from error
    return len(names)


def _tracked(folder: Path) -> Iterator[str]:
    listed = subprocess.run(
        ["git", "-C", str(folder), "ls-files", "-z", "-co", "--exclude-standard"],
        capture_output=True,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    ) if shutil.which("git") else None  # fmt: skip
    if listed is not None and listed.returncode == 0:
        for raw in filter(None, listed.stdout.split(b"\0")):
            name = os.fsdecode(raw)
            # One that was removed is listed still; a repository inside is listed as a folder.
            if (folder / name).is_symlink() or (folder / name).is_file():
                yield name
            elif name.endswith("/"):
                yield from (f"{name}{inside}" for inside in _all_files(folder / name))
        return
    yield from _all_files(folder)


def _all_files(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        # A link to a folder is copied as a link.
        links = [name for name in folders if Path(where, name).is_symlink()]
        folders[:] = [name for name in folders if name not in _LEFT_OUT and name not in links]
        for name in (*files, *links):
            path = Path(where, name)
            if path.is_symlink() or path.is_file():
                yield str(path.relative_to(folder))


def _git(*arguments: str, user: str | None = None, token: str | None = None, url: str = "") -> str:
    """What git says, with the credentials for `url`."""
    if shutil.which("git") is None:
        raise CodeError("git is not installed, and the job's code comes from a git repository")
    own = {k: v for k, v in os.environ.items() if k == "GIT_SSL_CAINFO" or k[:4] != "GIT_"}
    own |= {"GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")}
    env = {**own, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    settings = ["credential.helper=", "protocol.ext.allow=never", "advice.detachedHead=false"]
    command = ["git", *(word for each in settings for word in ("-c", each)), *arguments]
    with tempfile.TemporaryDirectory(prefix="drumline-askpass-") as private:
        if token is not None and over_ssh(url):
            # Its last line has an end, which a secret loses.
            key = _private(Path(private, "key"), token.replace("\r\n", "\n").strip() + "\n")
            env["GIT_SSH_COMMAND"] += f" -o IdentitiesOnly=yes -i {shlex.quote(str(key))}"
        elif token is not None:
            answers = _private(Path(private, "answers"), f"{user or 'git'}\n{token}\n")
            program = Path(private, "ask")
            program.write_text(_ASKED.format(file=answers))
            program.chmod(0o700)
            env["GIT_ASKPASS"] = str(program)
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                env=env,
                stdin=subprocess.DEVNULL,
                timeout=_GIT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise CodeError(f"git {arguments[0]} took longer than {_GIT_SECONDS} s") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        if over_ssh(url) and (remedy := _ssh_remedy(url, said, token is not None)):
            raise CodeError(remedy)
        raise CodeError(said.replace(token, "***") if token else said)
    return done.stdout


def _private(path: Path, text: str) -> Path:
    """A file that its user alone can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    return path


def _ssh_remedy(url: str, said: str, has_key: bool) -> str:
    """What ssh's error means, and what to do; empty if that is not known."""
    parts = urllib.parse.urlsplit(url if "://" in url else f"ssh://{url.replace(':', '/', 1)}")
    host, port = parts.hostname or url, parts.port
    known = host if port in (None, 22) else f"[{host}]:{port}"
    if "IDENTIFICATION HAS CHANGED" in said:
        return (
            f"{url}: {host} shows another host key than before. If its owner says that it is a new "
            f"one: ssh-keygen -R '{known}', and add the new one; else another machine answers"
        )
    if "Host key verification failed" in said:
        scanned = host if port in (None, 22) else f"-p {port} {host}"
        return (
            f"{url}: the host key of {host} is not known. Get it by `ssh-keyscan {scanned}`, "
            "compare it with what the host's owner says, and append it to ~/.ssh/known_hosts"
        )
    if re.search(r"Load key .*(invalid format|error in libcrypto)", said):
        return (
            f"{url}: the secret is no private key as ssh-keygen makes one: store the whole file by "
            "`drumline secret set NAME < ~/.ssh/id_ed25519`"
        )
    if "Permission denied" in said and has_key:
        return (
            f"{url}: {host} does not accept the key, or it has a passphrase, which cannot be asked "
            "for: add the public one there, and store a private one without passphrase"
        )
    if "Permission denied" in said:
        return (
            f"{url}: {host} accepts none of your keys. Add one to ssh-agent, or store a private "
            "key by `drumline secret set NAME < FILE`, and write key: NAME"
        )
    return ""
