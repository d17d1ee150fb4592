"""Directories of stored elements: complete or resumable, locked, and cleaned after a kill."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import json
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from drumline._forks import finalize, tell_in_child
from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.storage.store.checksums import CheckedRows, damaged
from drumline.data.storage.store.columns import (
    COMPRESSIONS,
    ColumnWriter,
    compress_arrays,
    read_column,
    spec_from_json,
    spec_to_json,
)
from drumline.data.storage.store.disk_errors import naming

_AGE = 60.0
"""How many seconds old a directory must be: it is locked right after it is made."""


def lock_directory(path: Path) -> int:
    """Mark a directory as in use for as long as the returned descriptor is open.

    Where the file system has no locks, no process has one, and nothing is deleted either.
    """
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # It is complete, or was dropped.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # A file system without locks.
        return False
    finally:
        os.close(descriptor)
    return False


def delete_abandoned(place: Path, mark: str, complete: str) -> None:
    """Delete incomplete directories for ``place`` that no process writes any longer.

    Args:
        place: of directories that are complete.
        mark: what follows its name in theirs.
        complete: a file that complete directories have, which are not deleted: they may hold the
            only copy of the elements.
    """
    if not place.parent.is_dir():
        return
    for name in os.listdir(place.parent):
        path = place.parent / name
        if name.startswith(place.name + mark) and not (path / complete).exists():
            _delete_unlocked(path)


def _delete_unlocked(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime < _AGE:
            return
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Another process was quicker.
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:  # Another process writes there.
        return
    finally:
        os.close(descriptor)


_MARK = ".unfinished-"

DESCRIPTION = "dataset.json"
"""The file by which a complete directory is known."""


class UnfinishedDirectory:
    """Is beside the place where it will be, until ``finish`` moves it there.

    One that is abandoned is deleted; one of a process that was killed, when the next is made.

    Attributes:
        path: where to write meanwhile.

    Args:
        place: where it will be.
        source: what makes the elements, if no other may write any to the same place meanwhile.

    Raises:
        OSError: it cannot be made.
        FileExistsError: another process writes elements of another source to the same place.
    """

    def __init__(self, place: Path, source: str = ""):
        self._place = place
        delete_abandoned(place, _MARK, DESCRIPTION)
        self.path = new_directory(place, _MARK, source)
        self._lock(lock_directory(self.path))
        self._closers: list[Callable[[], None]] = []
        self._abandoned = finalize(self, _delete, self.path, self._closers)
        # Looked for once its own is there: of two that begin at once, one at least sees the other.
        if source and _others_write(place, self.path, source):
            self.drop()
            raise FileExistsError(
                f"cache({str(place)!r}): another process fills it with elements of another "
                "pipeline; give each a directory of its own (one for each shard, for example)"
            )

    def _lock(self, descriptor: int) -> None:
        """Acquire the lock that marks the directory as being written by this process."""
        self._descriptor = descriptor
        self._unlock = finalize(self, os.close, descriptor)
        tell_in_child(self)

    def forked(self) -> None:
        """Release the lock in a forked child, which may outlive the process that writes."""
        if self._unlock.detach():
            os.close(self._descriptor)

    def on_drop(self, close: Callable[[], None]) -> None:
        """Close a file inside before deletion; ``close`` must not refer to this object."""
        self._closers.append(close)

    def finish(self, description: dict[str, Any], replace: bool) -> None:
        """Write the description and move the directory to its place.

        Args:
            description: JSON-able.
            replace: whether elements that are stored there already make way.
        """
        described = self.path / DESCRIPTION
        content = {**description, "crc32": _checksum(description)}
        with naming(described), open(described, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        if replace and is_stored(self._place):
            former = self.path.with_name(self.path.name + ".former")
            os.rename(self._place, former)
            os.rename(self.path, self._place)
            shutil.rmtree(former)
        elif not self._moved():
            self.drop()
        self._abandoned.detach()
        self._unlock()

    def _moved(self) -> bool:
        """Move it to its place, unless another process was quicker."""
        with contextlib.suppress(OSError):
            if is_empty(self._place):
                shutil.copymode(self._place, self.path)
            os.rename(self.path, self._place)
            return True
        if is_stored(self._place):
            return False
        os.rename(self.path, self._place)
        return True

    def drop(self) -> None:
        """Delete what was written."""
        self._abandoned()
        self._unlock()


def new_directory(place: Path, mark: str, source: str = "") -> Path:
    """Make a directory beside ``place``, with a unique name that ends in `source`."""
    ending = f"-{source}" if source else ""
    path = place.with_name(f"{place.name}{mark}{uuid.uuid4().hex[:8]}{ending}")
    path.mkdir(parents=True)
    return path


def _others_write(place: Path, own: Path, source: str) -> bool:
    """Return whether a process writes elements of another source for the same place."""
    for path in place.parent.glob(f"{glob.escape(place.name + _MARK)}*-*"):
        if path != own and path.name.rpartition("-")[2] != source and is_locked(path):
            return True
    return False


def is_stored(path: Path) -> bool:
    """Return whether elements are stored there."""
    return (path / DESCRIPTION).is_file()


def is_empty(path: Path) -> bool:
    """Return whether it is a directory with nothing in it."""
    return path.is_dir() and not any(path.iterdir())


def _delete(path: Path, closers: list[Callable[[], None]]) -> None:
    for close in closers:
        close()
    shutil.rmtree(path, ignore_errors=True)


_PLAIN = 1
_NEWEST = 2
"""The version of what is compressed, or in shards."""


class Written(TypedDict):
    """How far a directory was written; JSON-able.

    Attributes:
        length: the number of elements.
        rows: of the files of each leaf.
    """

    length: int
    rows: list[dict[str, int]]


@dataclasses.dataclass(frozen=True)
class Begun:
    """A directory that an earlier process may have left incomplete.

    Attributes:
        directory: where it wrote.
        written: the position from which to continue; ``None`` begins.
    """

    directory: UnfinishedDirectory
    written: Written | None


class DirectoryWriter:
    """Writes elements beside the place where they will be; ``finish`` moves them there.

    Args:
        path: of the directory to be.
        spec: of the elements.
        compression: ``"GZIP"``, ``"SNAPPY"`` or ``None``.
        begun: the directory to continue in, instead of a new one.
        source: as of an `UnfinishedDirectory`.

    Raises:
        TypeError: such elements cannot be stored.
        OSError: the directory cannot be made, or files of ``begun`` are not there.
        ValueError: they are shorter than they were.
    """

    def __init__(
        self,
        path: Path,
        spec: ElementSpec,
        compression: str | None = None,
        begun: Begun | None = None,
        source: str = "",
    ):
        self._spec = spec
        self._compression = compression
        self._description = {"version": _PLAIN, **spec_to_json(spec)}
        self._directory = UnfinishedDirectory(path, source) if begun is None else begun.directory
        written = None if begun is None else begun.written
        self.length = 0 if written is None else written["length"]
        self._columns: list[ColumnWriter] = []
        for i, leaf in enumerate(spec.leaves):
            rows = None if written is None else written["rows"][i]
            column = ColumnWriter(self._directory.path / str(i), leaf, rows)
            self._directory.on_drop(column.close)
            self._columns.append(column)

    def add(self, block: Block) -> None:
        """Write the elements of a block.

        Raises:
            OSError: the disk is full, for one.
        """
        for writer, column in zip(self._columns, block.columns, strict=True):
            writer.append(column[: block.n])
        self.length += block.n

    def sync(self) -> Written:
        """Flush the elements so far to disk."""
        return {"length": self.length, "rows": [column.sync() for column in self._columns]}

    def finish(self, replace: bool) -> None:
        """Complete the directory and move it to its place.

        Args:
            replace: whether elements that are stored there already make way.
        """
        self._finish_files()
        checksums = [column.checksums() for column in self._columns]
        description = {**self._description, "length": self.length, "checksums": checksums}
        if self._compression is not None:
            # Compressed files have checksums of their formats.
            description["checksums"] = None
            compress_arrays(self._directory.path, self._compression)
            description |= {"version": _NEWEST, "compression": self._compression}
        self._directory.finish(description, replace)

    def elements(self) -> StoredElements:
        """Return all that was written, memory-mapped; no more is written then."""
        self._finish_files()
        columns = [
            read_column(self._directory.path / str(i), leaf, self.length).column
            for i, leaf in enumerate(self._spec.leaves)
        ]
        return StoredElements(self._spec, tuple(columns), self.length)

    def _finish_files(self) -> None:
        for writer in self._columns:
            writer.finish()

    def drop(self) -> None:
        """Delete what was written."""
        self._directory.drop()


@dataclasses.dataclass(frozen=True)
class StoredElements:
    """The content of a directory.

    Attributes:
        spec: of the elements.
        columns: for each leaf an array, a `RaggedArray` or `StoredStrings`, memory-mapped unless it
            is compressed.
        length: the number of elements.
        checks: for each leaf what compares its rows with their checksums, where there are any.
    """

    spec: ElementSpec
    columns: tuple[Any, ...]
    length: int
    checks: tuple[CheckedRows | None, ...] = ()


def read_directory(path: Path, on_damage: Callable[[], None] | None = None) -> StoredElements:
    """Open what a `DirectoryWriter` finished.

    Args:
        path: of the directory.
        on_damage: is called when rows turn out to be damaged, before that is raised.

    Raises:
        FileNotFoundError: nothing is stored there.
        DataLossError: it is damaged.
        ValueError: its elements are in shards, or of a newer version.
    """
    spec, text = read_description(path)
    if not isinstance(text.get("length"), int):
        raise damaged(path / DESCRIPTION, "it says no length: the elements are in shards")
    length, compression = text["length"], text.get("compression")
    checksums = text.get("checksums") or [None] * len(spec.leaves)
    try:
        columns = [
            read_column(path / str(i), leaf, length, compression, checksums[i], on_damage)
            for i, leaf in enumerate(spec.leaves)
        ]
    except (LookupError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
        raise damaged(path / DESCRIPTION, f"it cannot be understood: {error!r}") from error
    found, checks = [each.column for each in columns], [each.check for each in columns]
    return StoredElements(spec, tuple(found), length, tuple(checks))


def _checksum(description: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(description, sort_keys=True).encode()):08x}"


def _checked_description(content: bytes) -> dict[str, Any]:
    """Return a description without its checksum, which older releases did not write."""
    text: dict[str, Any] = json.loads(content)
    expected = text.pop("crc32", None)
    if expected is None and "checksums" in text:
        raise ValueError("it has no checksum of its own")
    if expected is not None and expected != _checksum(text):
        raise ValueError("its checksum differs")
    return text


_NOT_UNDERSTOOD = (
    *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
    *(ArithmeticError, SyntaxError, MemoryError),
)
"""What reading a description raises that says something else than it should."""


def read_description(path: Path) -> tuple[ElementSpec, dict[str, Any]]:
    """Return the spec of the elements in a directory, and its description.

    Raises:
        FileNotFoundError: nothing is stored there.
        DataLossError: the description is damaged.
        ValueError: it is of another version.
    """
    if not is_stored(path):
        raise FileNotFoundError(
            f"no dataset is stored in {str(path)!r} (no file {DESCRIPTION}); Dataset.save(path) "
            "stores one"
        )
    try:
        text = _checked_description((path / DESCRIPTION).read_bytes())
        version, spec = text["version"], spec_from_json(text)
    except _NOT_UNDERSTOOD as error:
        raise damaged(path / DESCRIPTION, f"it cannot be understood: {error!r}") from error
    if version not in (_PLAIN, _NEWEST):
        raise ValueError(
            f"{str(path)!r} was stored in version {version}, this drumline reads up to {_NEWEST}"
        )
    if text.get("compression") not in (None, *COMPRESSIONS):
        raise ValueError(
            f"{str(path)!r} was stored with compression {text['compression']!r:.40}, this drumline "
            f"reads {' and '.join(COMPRESSIONS)}"
        )
    return spec, text


_KEPT_MARK = ".resumable-"


class ResumableDirectory(UnfinishedDirectory):
    """An unfinished directory that stays when it is abandoned.

    Args:
        place: where it will be.
        path: of one that ``begun`` found; ``None`` creates one, and deletes those of other
            processes that have ended.

    Raises:
        RuntimeError: another process writes there.
        OSError: it cannot be made, or opened.
    """

    def __init__(self, place: Path, path: Path | None = None):
        self._place = place
        if path is None:
            delete_abandoned(place, _KEPT_MARK, DESCRIPTION)
            path = new_directory(place, _KEPT_MARK)
        self.path = path
        self._lock(_locked(path))
        self._closers: list[Callable[[], None]] = []
        self._abandoned = finalize(self, _close, self._closers)


def begun(place: Path, name: str) -> Path | None:
    """Return the directory of that name which was to become ``place``, if it is still there."""
    path = place.with_name(name)
    return path if name.startswith(place.name + _KEPT_MARK) and path.is_dir() else None


def _locked(path: Path) -> int:
    """Mark a directory as in use for as long as the returned descriptor is open."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RuntimeError(
            f"save: another process is writing {str(path)!r}; wait for its end, or give each a "
            "directory of its own for checkpoints"
        ) from error
    except OSError:  # A file system without locks.
        pass
    return descriptor


def _close(closers: list[Callable[[], None]]) -> None:
    for close in closers:
        close()
