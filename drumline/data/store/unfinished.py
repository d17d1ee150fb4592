"""A directory that appears when it is complete."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drumline._forks import finalize, tell_in_child
from drumline.data.store.abandoned import delete_abandoned, is_locked, lock_directory
from drumline.data.store.disk_errors import naming

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
        """Holds the lock, by which others know that this process writes here, until it is freed."""
        self._descriptor = descriptor
        self._unlock = finalize(self, os.close, descriptor)
        tell_in_child(self)

    def forked(self) -> None:
        """Lets a child not go on holding the lock, when the process that writes has ended."""
        if self._unlock.detach():
            os.close(self._descriptor)

    def on_drop(self, close: Callable[[], None]) -> None:
        """Has a file inside closed before it is deleted; ``close`` must not hold on to this."""
        self._closers.append(close)

    def finish(self, description: dict[str, Any], replace: bool) -> None:
        """Writes the description and moves the directory to its place.

        Args:
            description: JSON-able.
            replace: whether elements that are stored there already make way.
        """
        described = self.path / DESCRIPTION
        with naming(described), open(described, "w") as file:
            json.dump(description, file)
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
        """Moves it to its place, unless another process was quicker."""
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
        """Deletes what was written."""
        self._abandoned()
        self._unlock()


def new_directory(place: Path, mark: str, source: str = "") -> Path:
    """Makes a directory beside ``place``, whose name is another each time and ends in `source`."""
    ending = f"-{source}" if source else ""
    path = place.with_name(f"{place.name}{mark}{uuid.uuid4().hex[:8]}{ending}")
    path.mkdir(parents=True)
    return path


def _others_write(place: Path, own: Path, source: str) -> bool:
    """Whether somebody writes elements of another source that are to be at the same place."""
    for path in place.parent.glob(f"{glob.escape(place.name + _MARK)}*-*"):
        if path != own and path.name.rpartition("-")[2] != source and is_locked(path):
            return True
    return False


def is_stored(path: Path) -> bool:
    """Whether elements are stored there."""
    return (path / DESCRIPTION).is_file()


def is_empty(path: Path) -> bool:
    """Whether it is a directory with nothing in it."""
    return path.is_dir() and not any(path.iterdir())


def _delete(path: Path, closers: list[Callable[[], None]]) -> None:
    for close in closers:
        close()
    shutil.rmtree(path, ignore_errors=True)
