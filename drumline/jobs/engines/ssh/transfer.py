"""Folders that are brought to a host before a start, and files that come back after it."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from drumline.jobs.engines.ssh.connection import HostConnection
from drumline.jobs.engines.ssh.files import inside
from drumline.jobs.file.model import Job

_PIECE = 1 << 20  # Bytes of a request, between which others are answered.
_SLOW_SECONDS = 120.0
_UNPACK_SECONDS = 3600.0


def send_folders(
    connection: HostConnection,
    folders: Iterable[Path],
    into: str,
    wanted: Callable[[], bool] = lambda: True,
) -> int:
    """Bring what folders hold to a new folder on a host, unless it is there.

    Args:
        connection: to the host.
        folders: of this machine; a file of a later one replaces that of an earlier one.
        into: the folder there, below the workspace's.
        wanted: whether to continue; asked at each piece.

    Returns:
        Bytes that were sent: of the archive, compressed.

    Raises:
        HostError: the host does not answer, or has no room.
        OSError: a folder cannot be read.
    """
    if not connection.ask("lacks", places=[into])[0]["lacks"]:
        return 0
    name = hashlib.sha256(into.encode()).hexdigest()[:16]
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as files:
            for folder in folders:
                for entry in sorted(os.listdir(folder)):
                    files.add(folder / entry, entry)
        size = archive.seek(0, os.SEEK_END)
        archive.seek(0)
        sent = 0
        while sent < size or not sent:
            piece = archive.read(_PIECE)
            connection.ask("put", piece, _SLOW_SECONDS, name=name, offset=sent)
            sent += len(piece)
            if not wanted():
                return sent
    connection.ask("unpack", seconds=_UNPACK_SECONDS, name=name, into=into)
    return sent


def folder_digest(folder: Path) -> str:
    """By what a copy of a folder is found again: names, sizes and times of all its files.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256(os.fsencode(folder))
    for where, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(where, name)
            found = os.lstat(path)
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(
                errors="surrogateescape"))  # fmt: skip
    return digest.hexdigest()[:32]


def _raise(error: OSError) -> None:
    raise error


def fetch_results(
    job: Job,
    number: int,
    places: Mapping[str, Mapping[str, str]],
    connections: Mapping[str, HostConnection],
    job_folder: Path,
) -> list[str]:
    """Bring the files that a job has written.

    Those of its working copy go to ``work`` in its folder of the workspace, those of data that a
    host did not have and the job may write to where the data come from. Of a file that several
    hosts have written, the first host's is brought.

    Args:
        job: what has ended.
        number: the job's.
        places: where such data are, on each host, by their place in ``data``.
        connections: to the hosts, that of rank 0 first.
        job_folder: the job's in the workspace.

    Returns:
        What was done, in sentences.

    Raises:
        HostError: a host does not answer, or has not got what it has named.
        OSError: a file cannot be written here.
    """
    done: list[str] = []
    taken: set[Path] = set()
    for host, connection in connections.items():
        kinds = [(f"{number}/work", job_folder / "work")]
        kinds += [
            (place, Path(job.data[int(i)].source))
            for i, place in places[host].items()
            if job.data[int(i)].write
        ]
        for place, target in kinds:
            count = size = 0
            for name, length, changed in connection.ask("changed", place=place)[0]["files"]:
                path = inside(target, name)
                if path in taken:
                    continue
                taken.add(path)
                if _is_there(path, length, changed):
                    continue
                _fetch(connection, place, name, path, length, changed)
                count, size = count + 1, size + length
            if count:
                files = "1 file" if count == 1 else f"{count} files"
                done.append(f"{files} ({size / 2**20:.1f} MiB) of {host} are in {target}")
    return done


def _is_there(path: Path, length: int, changed: int) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return (found.st_size, found.st_mtime_ns) == (length, changed)


def _fetch(
    connection: HostConnection, place: str, name: str, path: Path, length: int, changed: int
) -> None:
    """Bring one file, which is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.fetching")
    with open(fresh, "wb") as file:
        at = 0
        while at < length:
            size = min(_PIECE, length - at)
            _, data = connection.ask("read", place=place, name=name, offset=at, length=size)
            if not data:
                break
            file.write(data)
            at += len(data)
    os.utime(fresh, ns=(changed, changed))
    fresh.replace(path)
