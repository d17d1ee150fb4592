"""What `drumline login` has stored: a server's address and a member's token."""

from __future__ import annotations

import dataclasses
import json
import os
import urllib.parse
from pathlib import Path

from drumline.jobs.store.workspace import WorkspaceError, workspaces_folder

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclasses.dataclass(frozen=True)
class Login:
    """What `drumline login` has stored.

    Attributes:
        url: of the server.
        token: of a member.
        workspace: the one in use.
        ca: a file with certificates that are trusted beside the system's; empty for none.
    """

    url: str
    token: str
    workspace: str
    ca: str = ""


def login_file() -> Path:
    """Where the login is, for its user alone."""
    return workspaces_folder().parent / "login.json"


def read_login() -> Login | None:
    """The login, or None.

    Raises:
        WorkspaceError: its file is damaged.
    """
    try:
        return Login(**json.loads(login_file().read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise WorkspaceError(f"{login_file()} is damaged ({error}): log in again.") from None


def write_login(login: Login) -> None:
    """Store a login in the place of another."""
    path = login_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".new")
    partial.unlink(missing_ok=True)
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w") as stream:
        json.dump(dataclasses.asdict(login), stream)
    partial.replace(path)


def checked_url(url: str, insecure: bool = False) -> str:
    """A server's address without a slash at its end.

    Raises:
        WorkspaceError: it is none, or the token would be sent in clear over a network.
    """
    parts = urllib.parse.urlsplit(url)
    try:
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        good = False
    if not good or parts.username or parts.query or parts.fragment:
        raise WorkspaceError(f"{url!r} is no server's address; it is as https://jobs.example.com")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not insecure:
        raise WorkspaceError(
            f"{url} has no TLS: the token could be read on its way. Use https://, or say "
            "--insecure where the network is your own."
        )
    return url.rstrip("/")
