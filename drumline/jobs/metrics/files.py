"""Which files below a job's working folder hold metrics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_IGNORED = {".git", ".hg", ".venv", "venv", "__pycache__", "node_modules", "site-packages"}
_MOST_ENTRIES = 50_000
_ENDINGS = (".csv", ".prom")


def metric_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Event files of TensorBoard, CSV and Prometheus files below a folder, ordered by their paths.

    Of a folder with more than 50,000 entries the rest is not looked at; links are not followed.
    """
    waiting = [os.fspath(folder)]
    looked = 0
    while waiting and looked < _MOST_ENTRIES:
        found: list[os.DirEntry[str]] = []
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        looked += len(found)
        inner = []
        for entry in found:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _IGNORED:
                        inner.append(entry.path)
                elif is_event_file(entry.name) or entry.name.endswith(_ENDINGS):
                    if entry.is_file(follow_symlinks=False):
                        yield entry
        waiting += reversed(inner)


def is_event_file(name: str) -> bool:
    """Whether this is the name of an event file of TensorBoard's."""
    return ".tfevents." in name


def last_change(folder: Path) -> float:
    """When the newest of these files has changed, in seconds since the epoch; 0 without any."""
    newest = 0.0
    for entry in metric_files(folder):
        with contextlib.suppress(OSError):
            newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
    return newest
