"""The directories beside a checkpoint's file, in which keepers save values."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from pathlib import Path

from drumline.training.checkpoint.file_format import file_of

SUFFIX = ".servers"


def new_directory(path: str) -> Path:
    """Make a new directory for a checkpoint that is about to be saved as `path`."""
    directory = Path(os.path.abspath(path + SUFFIX)) / secrets.token_hex(6)
    directory.mkdir(parents=True)
    return directory


def remove(directory: Path) -> None:
    """Remove the directory of a save, and the one that it is in if that is empty then."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.parent.is_dir() and not any(directory.parent.iterdir()):
        directory.parent.rmdir()


def remove_others(path: str, current: Path | None) -> None:
    """Remove what other saves to `path`, finished or not, have left."""
    beside = Path(os.path.abspath(path + SUFFIX))
    for directory in beside.iterdir() if beside.is_dir() else ():
        if directory != current:
            remove(directory)


def remove_unfinished(prefix: str) -> None:
    """Remove the directories of numbered checkpoints whose files were never written."""
    for found in glob.glob(f"{glob.escape(prefix)}-*{SUFFIX}"):
        path = found.removesuffix(SUFFIX)
        if path[len(prefix) + 1 :].isdecimal() and not file_of(path).exists():
            remove_others(path, None)
