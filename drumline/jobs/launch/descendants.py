"""Finding and killing all that the processes of a job have started themselves."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

MARK = "DRUMLINE_LAUNCH_ID"
"""The environment variable by which a process, however detached, is known to belong to a job."""

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends, so that none is lost."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants(spared: Collection[int]) -> None:
    """Kill all descendants of this process but `spared`, and wait for those it has adopted."""

    def left() -> list[int]:
        return [pid for pid in _descendants(os.getpid()) if pid not in spared]

    _kill_until_none(left)


def reap_adopted(own: Collection[int]) -> None:
    """Forget adopted processes that have ended; those in `own` are waited for elsewhere."""
    with contextlib.suppress(ChildProcessError):
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while (ended := os.waitid(os.P_ALL, 0, flags)) and ended.si_pid not in own:
            os.waitpid(ended.si_pid, 0)


def kill_marked(mark: str) -> None:
    """Kill every process of this user's whose environment has `mark` as its `MARK`."""
    wanted = f"{MARK}={mark}".encode()

    def left() -> list[int]:
        return [pid for pid in _pids() if pid != os.getpid() and wanted in _environment(pid)]

    _kill_until_none(left)


def _kill_until_none(find: Callable[[], list[int]]) -> None:
    """Kill what `find` finds, again and again: a process may have forked before it died."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (pids := find()) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):  # another's child, or reaped already
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in _pids():
        with contextlib.suppress(OSError, IndexError):  # it ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    frontier = [root]
    while frontier:
        frontier = [child for parent in frontier for child in children.get(parent, [])]
        found += frontier
    return found


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it ended, or is another user's
        return []
