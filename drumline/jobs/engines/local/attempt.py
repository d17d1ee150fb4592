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

START, RUNNING, EXIT, SECRETS = "start.json", "running.json", "exit.json", "secrets.json"
LOCK, LOGS, LAUNCHER_LOG, KEEPER_LOG = "alive.lock", "logs", "launch.log", "keeper.log"


def write(path: Path, value: Any) -> None:
    """Write JSON that is there whole or not at all, also after a loss of power."""
    partial = path.with_suffix(".new")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(file, "w") as stream:
        json.dump(value, stream)
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
    file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


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
