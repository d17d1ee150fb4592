"""Workspaces: folders, each with jobs and secrets of its own.

The current one is what ``DRUMLINE_HOME`` names; otherwise the workspace that was chosen by
``drumline workspace use``, and at first ``default``, beneath
``~/.local/share/drumline/workspaces``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from pathlib import Path

HOME_VARIABLE = "DRUMLINE_HOME"
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
