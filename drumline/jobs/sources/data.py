"""A job's data: what kinds there are, and where what lies on this machine is found."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Literal

from drumline.jobs.file.model import Job
from drumline.jobs.file.mount_paths import is_inside

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class DataError(Exception):
    """Data that cannot be had; the message says why, without credentials."""


def data_kind(source: str) -> Literal["folder", "nfs", "pvc", "dataset", "store"]:
    """What an address stands for; all other schemes are object stores of fsspec's."""
    scheme, separator, _ = source.partition("://")
    if not separator:
        return "folder"
    return scheme if scheme in ("nfs", "pvc", "dataset") else "store"  # type: ignore[return-value]


def folder_of(source: str, mounts: Path = _MOUNTS) -> Path:
    """The folder of this machine with data that need not be fetched.

    Args:
        source: the path of a folder, or ``nfs://host/path``.
        mounts: a table as ``/proc/self/mountinfo``.

    Raises:
        DataError: there is no such folder, or it is not mounted here.
    """
    folder = Path(source)
    if data_kind(source) == "nfs":
        folder = _mounted(source, mounts)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise DataError(f"{folder} cannot be read by {_user()}")
    return folder


def _mounted(source: str, mounts: Path) -> Path:
    """Where a path of an NFS server is mounted on this machine."""
    host, _, rest = source.removeprefix("nfs://").partition("/")
    wanted = f"/{rest.strip('/')}"
    found: list[tuple[int, Path]] = []
    seen = []
    for exported, root, at in nfs_mounts(mounts):
        server, _, path = exported.rpartition(":")
        # A part of it may be mounted alone.
        shown = f"/{path.strip('/')}".rstrip("/") + ("" if root == "/" else root)
        if server.strip("[]").lower() != host.strip("[]").lower():
            seen.append(exported)
        elif is_inside(wanted, shown or "/"):
            inside = wanted[len(shown) :].strip("/")
            found.append((len(shown), Path(at) / inside))
        else:
            seen.append(exported)
    if found:
        return max(found)[1]
    listed = f"; mounted are {', '.join(sorted(set(seen))[:10])}" if seen else ""
    raise DataError(
        f"{source} is not mounted on this machine (/proc/self/mountinfo){listed}. Mount it, as by "
        f"`mount -t nfs {host}:{wanted} /mnt/...`, or ask who looks after the machine"
    )


def nfs_mounts(mounts: Path = _MOUNTS) -> list[tuple[str, str, str]]:
    """What is mounted by NFS: ``host:/path``, the part of it that is mounted, and where."""
    found = []
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        left, separator, right = line.partition(" - ")
        fields, details = left.split(" "), right.split(" ")
        if separator and len(fields) > 4 and len(details) > 1 and details[0] in ("nfs", "nfs4"):
            found.append((_plain(details[1]), _plain(fields[3]), _plain(fields[4])))
    return found


def _plain(field: str) -> str:
    """A field of the table, in which spaces are written as ``\\040``."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)


def hidden_by(path: str, home: Path) -> str:
    """What a job could not run without, and would not see with data at `path`; may be empty."""
    needed = {
        "the workspace": home,
        "this Python": Path(sys.prefix),
        "Python's own files": Path(sys.base_prefix),
        "your home folder": Path.home(),
    }
    real = os.path.realpath(path)
    for what, place in needed.items():
        if is_inside(os.path.realpath(place), real):
            return f"{what}, {place}"
    return ""


def data_problems(job: Job, home: Path) -> list[str]:
    """What can be seen to be wrong with a job's data on this machine, without any network.

    Args:
        job: with the places of its parts.
        home: the workspace.
    """
    problems = []
    for i, each in enumerate(job.data):
        try:
            if data_kind(each.source) == "pvc":
                raise DataError(
                    f"{each.source} is a claim of a Kubernetes cluster, and this job's engine is "
                    f"{job.engine}: give a folder, nfs:// or an object store"
                )
            if each.source.startswith("memory://"):
                raise DataError("memory:// is a store of one process; no job could see it")
            if data_kind(each.source) in ("folder", "nfs"):
                folder = folder_of(each.source)
                if each.write and not os.access(folder, os.W_OK):
                    raise DataError(f"{folder} cannot be written by {_user()}")
        except DataError as error:
            problems.append(job.problem(f"data[{i}].from", str(error)))
        if each.at and (hidden := hidden_by(each.at, home)):
            problems.append(job.problem(f"data[{i}].at", f"{each.at} would hide {hidden}"))
    if job.code.at and (hidden := hidden_by(job.code.at, home)):
        problems.append(job.problem("code", f"at: {job.code.at} would hide {hidden}"))
    return problems


def _user() -> str:
    return f"user {os.geteuid()}"
