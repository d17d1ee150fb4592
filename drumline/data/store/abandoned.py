"""Directories that a killed process left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from pathlib import Path

_AGE = 60.0
"""How many seconds old a directory must be: it is locked right after it is made."""


def lock_directory(path: Path) -> int:
    """Marks a directory as in use for as long as the returned descriptor is open.

    Where the file system has no locks, nobody can have one, and nothing is deleted either.
    """
    descriptor = os.open(path, os.O_RDONLY)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of a directory."""
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
    """Deletes what was to become ``place`` and nobody writes any longer.

    Args:
        place: of directories that are complete.
        mark: what follows its name in theirs.
        complete: a file that those have which may be all there is left of somebody's elements.
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
    except OSError:  # Somebody writes there.
        return
    finally:
        os.close(descriptor)
