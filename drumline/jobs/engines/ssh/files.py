"""Files of a start on a host, and their copies in the workspace.

On the host each process has a folder of its own; in the workspace all files of a start lie in one,
as those of Slurm's jobs do.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.launchers import launcher_log
from drumline.jobs.engines.local import attempt
from drumline.jobs.metrics.files import metric_files
from drumline.jobs.metrics.usage import PROCESSES, USAGE

MOST_BYTES = 1 << 20
"""Of files in one answer."""

WORK = "work/"
"""With which the names of files of the working copy begin."""

_PROCESSES = Path(PROCESSES).stem
_LEFT_OUT = {".git", "__pycache__", ".venv", "venv", "node_modules"}
_OWN = re.compile(rf"{re.escape(attempt.LAUNCHER_LOG)}(\.\d+)?")

Have = Mapping[str, Sequence[int]]
"""How much is known of each file: the number of its inode on the host, and bytes."""


class HostFiles:
    """What the processes of a start write on this host.

    Args:
        folder: of the start.
        ranks: of its processes here.
    """

    def __init__(self, folder: Path, ranks: Sequence[str]) -> None:
        self._folder = folder
        self._ranks = ranks

    def paths(self) -> Iterator[tuple[str, Path]]:
        """Their names in the workspace, and where they are."""
        for rank in self._ranks:
            own = self._folder / f"rank-{rank}"
            for path in sorted(own.glob(f"{attempt.LAUNCHER_LOG}*")):
                if found := _OWN.fullmatch(path.name):
                    name = launcher_log(Path(), int(rank)).name
                    yield f"{name}{found[1] or ''}", path
            yield f"usage-{rank}.jsonl", own / USAGE
            yield f"keeper-{rank}.log", own / attempt.KEEPER_LOG
            for path in sorted((own / attempt.LOGS).glob("*")):
                if path.suffix != ".new" and not path.name.startswith(_PROCESSES):
                    yield f"{attempt.LOGS}/{path.name}", path
        if self._ranks:
            work = self._folder.parent / "work"
            for entry in metric_files(work):
                yield WORK + os.path.relpath(entry.path, work), Path(entry.path)

    def news(self, have: Have) -> tuple[dict[str, Any], bytes]:
        """What is new since.

        Returns:
            ``files``: the name of each, its inode, the offset and the length of what is new;
            ``gone``: those that are not there any more; ``more``: whether this is not all. And the
            bytes of all, one after another.
        """
        files: list[tuple[str, int, int, int]] = []
        parts: list[bytes] = []
        room, seen = MOST_BYTES, set()
        for name, path in self.paths():
            with contextlib.suppress(FileNotFoundError, IsADirectoryError), open(path, "rb") as f:
                status = os.fstat(f.fileno())
                seen.add(name)
                inode, offset = have.get(name, (0, 0))
                if inode != status.st_ino or status.st_size < offset:
                    offset = 0
                elif status.st_size == offset:
                    continue
                if not room:
                    break
                f.seek(offset)
                data = f.read(room)
                room -= len(data)
                files.append((name, status.st_ino, offset, len(data)))
                parts.append(data)
        gone = [] if not room else [n for n in have if n not in seen and not n.startswith(WORK)]
        return {"files": files, "gone": gone, "more": not room}, b"".join(parts)


class CopiedFiles:
    """The copies in the workspace of what a start writes on one host.

    Args:
        folder: of the start in the workspace.
        name: of the host, in a file name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._known = folder / f"copied-{name}.json"
        self.have: dict[str, list[int]] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            self.have = json.loads(self._known.read_text())

    def add(self, news: Mapping[str, Any], data: bytes, taken: Collection[str] = ()) -> None:
        """Write what `HostFiles.news` has answered, but for files that another host has written.

        Bytes are written at their place: those that come a second time, since a supervisor was
        killed before it noted them, change nothing.
        """
        at = 0
        for name, inode, offset, length in news["files"]:
            at += length
            self.have[name] = [inode, offset + length]
            if name in taken:
                continue
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if offset == 0:
                # Another file of that name: who reads it has to notice.
                fresh = path.with_name(f"{path.name}.copying")
                _write_at(fresh, 0, data[at - length : at])
                fresh.replace(path)
            else:
                _write_at(path, offset, data[at - length : at])
        for name in news["gone"]:
            self._path(name).unlink(missing_ok=True)
            self.have.pop(name, None)
        if news["files"] or news["gone"]:
            fresh = self._known.with_suffix(".new")
            fresh.write_text(json.dumps(self.have))
            fresh.replace(self._known)

    def _path(self, name: str) -> Path:
        if name.startswith(WORK):
            return inside(self._folder.parent / "work", name.removeprefix(WORK))
        return inside(self._folder, name)


def inside(folder: Path, name: str) -> Path:
    """A file below a folder; a host may not name another."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise ValueError(f"{name!r} is no file of the job's folder")
    path = folder.joinpath(*parts)
    if path.parent.exists() and not path.parent.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} is behind a link")
    return path


def _write_at(path: Path, offset: int, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.pwrite(file, data, offset)
        os.ftruncate(file, offset + len(data))
    finally:
        os.close(file)


def write_manifest(folder: Path, manifest: Path) -> None:
    """Note what a folder holds, so that `changed_files` knows what is new."""
    attempt.write(manifest, dict(_stamps(folder)))


def changed_files(folder: Path, manifest: Path) -> list[tuple[str, int, int]]:
    """Files below a folder that are new or changed since: names, sizes, times in nanoseconds."""
    known = attempt.read(manifest) or {}
    found = ((name, stamp) for name, stamp in _stamps(folder) if known.get(name) != stamp)
    return [(name, stamp[0], stamp[1]) for name, stamp in found]


def _stamps(folder: Path) -> Iterator[tuple[str, list[int]]]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(path) and os.path.isfile(path):
                    found = os.stat(path)
                    yield os.path.relpath(path, folder), [found.st_size, found.st_mtime_ns]
