"""An attempt's folder: the truth of one start, whichever of its processes is killed.

`start.json` says what to run. `alive.lock` is locked by the supervisor, inherited by the keeper and
from it by the launcher, so it is held exactly as long as one of them may still act: the kernel
gives it back however they end, and no number of a process is trusted alone. `running.json` names
the launcher. `exit.json` has its exit code; if the keeper was killed, the launcher's own
`logs/result.json` has it, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from drumline.jobs.store import workspace

START, RUNNING, EXIT, SECRETS = "start.json", "running.json", "exit.json", "secrets.json"
LOCK, LOGS, LAUNCHER_LOG, KEEPER_LOG = "alive.lock", "logs", "launch.log", "keeper.log"

_RESERVED = 4096


def reserve(path: Path) -> None:
    """Take room for what `write` will write there, so that it can on a disk that is full by then.

    Raises:
        OSError: there is no room now.
    """
    file = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, _RESERVED)
    finally:
        os.close(file)


def write(path: Path, value: Any) -> None:
    """Write JSON that is there whole or not at all, also after a loss of power."""
    partial = path.with_suffix(".new")
    # Not emptied first, which would give up what is reserved.
    file = os.open(partial, os.O_WRONLY | os.O_CREAT, 0o600)
    with open(file, "w") as stream:
        json.dump(value, stream)
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path) -> dict[str, Any] | None:
    """What `write` has written, or None."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else None
    return None


def take_lock(folder: Path) -> int | None:
    """The locked descriptor of an attempt, or None while others hold it."""
    return workspace.take_lock(folder / LOCK)


def is_alive(folder: Path) -> bool:
    """Whether its keeper or its launcher is running, or is being started."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two who ask at once do not see each other as alive.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def boot() -> str:
    """The identity of this start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started_at(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was, or None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold anything.
    return int(stat.rpartition(")")[2].split()[19])
