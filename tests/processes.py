"""What the kernel says of processes that tests start."""

from __future__ import annotations

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
