"""Which checkpoints a job has written below its working folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ENDS = (".safetensors", ".keras", ".h5", ".ckpt", ".npz", ".pt", ".pth")
_IGNORED = {".git", ".hg", ".venv", "venv", "__pycache__", "node_modules", "site-packages"}
_MOST_ENTRIES = 50_000
_MOST_LISTED = 100


def checkpoints(folder: Path) -> list[dict[str, Any]]:
    """The files of models and checkpoints below a folder, the newest first, at most 100.

    A folder of Orbax's (its ``_CHECKPOINT_METADATA`` says so) counts as one. Links are not
    followed; of a folder with more than 50,000 entries the rest is not looked at.

    Returns:
        Each with its path, seen from the folder, its bytes and when it was written.
    """
    found = sorted(_found(folder), key=lambda each: (-each["time"], each["path"]))
    return found[:_MOST_LISTED]


def _found(folder: Path) -> Iterator[dict[str, Any]]:
    waiting, looked = [os.fspath(folder)], 0
    while waiting and looked < _MOST_ENTRIES:
        here = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(here) as entries:
            inside = list(entries)
            looked += len(inside)
            if any(entry.name == "_CHECKPOINT_METADATA" for entry in inside):
                yield _document(folder, here, _size(here), os.stat(here).st_mtime)
                continue
            for entry in inside:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _IGNORED:
                            waiting.append(entry.path)
                    elif entry.name.endswith(_ENDS) and entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        yield _document(folder, entry.path, stat.st_size, stat.st_mtime)


def _document(folder: Path, path: str, size: int, time: float) -> dict[str, Any]:
    return {"path": os.path.relpath(path, folder), "size": size, "time": time}


def _size(folder: str) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total
