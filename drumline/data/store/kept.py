"""A directory that a later process may go on with."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from drumline._forks import finalize
from drumline.data.store.abandoned import delete_abandoned
from drumline.data.store.unfinished import DESCRIPTION, UnfinishedDirectory, new_directory

_MARK = ".resumable-"


class KeptDirectory(UnfinishedDirectory):
    """An unfinished directory that stays when it is abandoned.

    Args:
        place: where it will be.
        path: of one that ``begun`` found; ``None`` makes one, and deletes those that others began
            and nobody writes any longer.

    Raises:
        RuntimeError: another process writes there.
        OSError: it cannot be made, or opened.
    """

    def __init__(self, place: Path, path: Path | None = None):
        self._place = place
        if path is None:
            delete_abandoned(place, _MARK, DESCRIPTION)
            path = new_directory(place, _MARK)
        self.path = path
        self._lock(_locked(path))
        self._closers: list[Callable[[], None]] = []
        self._abandoned = finalize(self, _close, self._closers)


def begun(place: Path, name: str) -> Path | None:
    """The directory of that name which was to become ``place``, if it is still there."""
    path = place.with_name(name)
    return path if name.startswith(place.name + _MARK) and path.is_dir() else None


def _locked(path: Path) -> int:
    """Marks a directory as in use for as long as the returned descriptor is open."""
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
