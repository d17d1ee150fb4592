"""Workspaces: folders, each with jobs and secrets of its own.

The current one is what ``DRUMLINE_HOME`` names; otherwise the workspace that was chosen by
``drumline workspace use``, and at first ``default``, beneath
``~/.local/share/drumline/workspaces``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
from pathlib import Path

HOME_VARIABLE = "DRUMLINE_HOME"
SQLITE_FILE = "jobs.sqlite"
DATABASE_FILE = "database.json"
_SUPERVISOR_LOCK = "supervisor.lock"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_FIRST = "default"

# Magic numbers of statfs(2): file systems of other machines, over which SQLite's WAL does not work.
_REMOTE = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x01021997: "9P",
    0x5346414F: "AFS",
    0x0BD00BD0: "Lustre",
    0x00C36400: "Ceph",
    0x47504653: "GPFS",
}


class WorkspaceError(Exception):
    """A workspace that cannot be used; the message says why and the remedy."""


def workspaces_folder() -> Path:
    """The folder of all workspaces that have names."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "drumline" / "workspaces"


def current() -> Path:
    """The folder of the workspace in use, made if it is absent.

    Raises:
        WorkspaceError: it cannot be written, or lies on a network file system.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen is not None and not chosen.strip():
        raise WorkspaceError(f"{HOME_VARIABLE} is empty; unset it, or let it name a folder.")
    if chosen:
        return opened(Path(chosen).expanduser().absolute())
    name = current_name()
    if name != _FIRST and not (workspaces_folder() / name).is_dir():
        raise WorkspaceError(
            f"the workspace {name!r} in use does not exist any more. Choose another by "
            f"`drumline workspace use NAME`."
        )
    return opened(workspaces_folder() / name)


def current_name() -> str:
    """The name of the workspace in use; what ``DRUMLINE_HOME`` names goes by its path."""
    if chosen := os.environ.get(HOME_VARIABLE):
        return chosen
    with contextlib.suppress(FileNotFoundError):
        return (workspaces_folder() / ".current").read_text().strip() or _FIRST
    return _FIRST


def create(name: str) -> Path:
    """Make a workspace, and return its folder.

    Raises:
        WorkspaceError: it exists, its name is not allowed, or it cannot be written.
    """
    folder = _folder(name)
    if folder.exists():
        raise WorkspaceError(f"there is a workspace {name!r} already.")
    return opened(folder)


def use(name: str) -> Path:
    """Make a workspace the current one.

    Raises:
        WorkspaceError: there is none of that name, or ``DRUMLINE_HOME`` would hide the choice.
    """
    folder = _folder(name)
    if HOME_VARIABLE in os.environ:
        raise WorkspaceError(f"{HOME_VARIABLE} is set, and chooses the workspace; unset it first.")
    if not folder.is_dir() and name != _FIRST:
        raise WorkspaceError(f"there is no workspace {name!r}; `drumline workspace create {name}`.")
    opened(folder)
    partial = workspaces_folder() / ".current.new"
    partial.write_text(name)
    partial.replace(workspaces_folder() / ".current")
    return folder


def names() -> list[str]:
    """The names of all workspaces."""
    with contextlib.suppress(FileNotFoundError):
        found = (each.name for each in workspaces_folder().iterdir() if each.is_dir())
        return sorted({*found, _FIRST})
    return [_FIRST]


def opened(folder: Path) -> Path:
    """`folder`, made for its user alone if it is absent, once it is seen to be local.

    Raises:
        WorkspaceError: see `current`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "jobs").mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise WorkspaceError(
            f"the workspace {folder} cannot be written: {error.strerror}. Let {HOME_VARIABLE} name "
            "another folder."
        ) from None
    if remote := network_file_system(folder):
        raise WorkspaceError(
            f"the workspace {folder} lies on a network file system ({remote}), where its database "
            f"would be damaged. Let {HOME_VARIABLE} name a folder on a disk of this machine."
        )
    return folder


def identity(home: Path) -> str:
    """A name of the workspace that no other has, for what lies outside of it; made once."""
    path = home / "identity"
    if not path.exists():
        partial = home / f".identity-{os.urandom(4).hex()}"
        partial.touch(mode=0o600)
        partial.write_text(os.urandom(4).hex())
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)  # Another process may have made one meanwhile.
        partial.unlink()
    return path.read_text()


def database_url(home: Path) -> str | None:
    """The address of the database that has the workspace's list of jobs; None for its own file.

    Raises:
        WorkspaceError: what says so cannot be read.
    """
    path = home / DATABASE_FILE
    try:
        return str(json.loads(path.read_text())["url"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WorkspaceError(
            f"{path}, which says where the list of jobs is, cannot be read "
            f'({type(error).__name__}); it is {{"url": "postgresql://..."}}.'
        ) from None


def write_database_url(home: Path, url: str) -> None:
    """Have another database hold the workspace's list of jobs. For its user alone to read."""
    partial = home / f".database-{os.urandom(4).hex()}"
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w") as writing:
        json.dump({"url": url}, writing)
        writing.flush()
        os.fsync(file)
    partial.replace(home / DATABASE_FILE)


def supervisor_lock(home: Path) -> int | None:
    """The descriptor of the lock of the workspace's only supervisor, or None if another has it."""
    return take_lock(home / _SUPERVISOR_LOCK)


def take_lock(path: Path) -> int | None:
    """The descriptor of a file, made if it is absent, that is locked; None while others hold it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def network_file_system(folder: Path) -> str:
    """The name of the network file system that `folder` lies on; empty for a local one."""
    # struct statfs begins with the magic number, as a long; its 120 bytes are no more than this.
    buffer = (ctypes.c_long * 64)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(folder), ctypes.byref(buffer)) != 0:
        number = ctypes.get_errno()
        raise WorkspaceError(f"the workspace {folder} cannot be read: {os.strerror(number)}.")
    return _REMOTE.get(buffer[0] & 0xFFFFFFFF, "")


def _folder(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise WorkspaceError(
            f"a workspace's name has 1 to 40 lower case letters, digits and hyphens, not {name!r}."
        )
    return workspaces_folder() / name
