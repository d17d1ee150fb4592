"""What the kernel says of processes that tests start."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


def state_of(pid: int) -> str:
    """The letter that ``/proc`` has for a process, such as ``"T"``; ``""`` once it is reaped.

    A process may be reaped between opening its file and reading it, which is another error than
    that there is no file.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have asked for its exit code yet."""
    return state_of(pid) in ("", "Z", "X")


def open_files() -> Counter[tuple[str, int]]:
    """The files and memory that this process has open, by name and inode: no sockets, no pipes.

    What earlier tests left is closed whenever Python collects it, so a test compares what it opened
    itself, ``after - before``, and not how many there are.
    """
    found: Counter[tuple[str, int]] = Counter()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            inode = os.fstat(int(descriptor)).st_ino
        except OSError:
            continue  # closed since it was listed, as the listing's own is
        if name.startswith("/") and not name.startswith("/proc/"):
            found[name, inode] += 1
    return found
