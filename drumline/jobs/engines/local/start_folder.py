"""What is asked of the folder of a start that a keeper looks after, and done with it.

This machine's engine and the program on an SSH host do it in the same way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.children import collect_children, start_child
from drumline.jobs.engines.engine import Status
from drumline.jobs.engines.launchers import LAUNCHER_KILLED
from drumline.jobs.engines.launching import KILL_SECONDS
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.preparing import not_uploaded
from drumline.jobs.file.model import RESOURCES
from drumline.jobs.sources.preparation import NOT_UPLOADED, read_notes

KEEPER = (sys.executable, "-P", "-m", "drumline_command.job_process", "keeper")


def machine() -> dict[str, float]:
    """What this machine has, by the names in `RESOURCES`."""
    from drumline.jobs.launch.environment import visible_gpus

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    amounts = (len(os.sched_getaffinity(0)), memory, len(visible_gpus(os.environ)))
    return dict(zip(RESOURCES, map(float, amounts), strict=True))


def start_keeper(
    folder: Path,
    lock: int,
    described: Mapping[str, Any],
    secrets: Mapping[str, str],
    keeper: Sequence[str] = KEEPER,
    reached: Callable[[str], None] = lambda step: None,
) -> None:
    """Write down what a start is, and start its keeper.

    Args:
        folder: of the start.
        lock: the descriptor of its `alive.lock`, which the keeper holds from now on.
        described: ``argv``, ``cwd`` and ``env`` of the launcher, ``gpus`` and what else is known;
            ``wakes``, the workspace whose supervisor the keeper wakes when something has happened.
        secrets: further variables, which the keeper reads and removes.
        keeper: its command, to which the folder and the lock are added.
        reached: is called with the name of each step that is done.

    Raises:
        OSError: it cannot be written or started.
    """
    if secrets:
        attempt.write(folder / attempt.SECRETS, dict(secrets))
    attempt.write(folder / attempt.START, {**described, "boot": attempt.boot()})
    reached("described")
    with open(folder / attempt.KEEPER_LOG, "ab") as log:
        start_child([*keeper, str(folder), str(lock)], lock, output=log)


def held_gpus(folders: Iterable[Path]) -> set[str]:
    """The GPUs of those starts that are alive, by their folders."""
    held: set[str] = set()
    for folder in folders:
        if attempt.is_alive(folder):
            held |= set((attempt.read(folder / attempt.START) or {}).get("gpus", ()))
    return held


def kept_status(folder: Path, locked: bool = False) -> Status:
    """What has become of a start; `locked` says that the caller itself holds its lock."""
    return dataclasses.replace(_status(folder, locked), notes=read_notes(folder))


def _status(folder: Path, locked: bool) -> Status:
    collect_children()
    # What is asked first may happen between: an end is asked for again once none is alive.
    if not (folder / attempt.EXIT).exists() and not locked and attempt.is_alive(folder):
        known = (folder / attempt.RUNNING).exists()
        return Status("running" if known else "starting")
    # A launcher of host 1 writes result-1.json.
    results = map(attempt.read, (folder / attempt.LOGS).glob("result*.json"))
    result = next(filter(None, results), None)
    exited = attempt.read(folder / attempt.EXIT)
    if exited is None and result and result["code"] == 0 and not_uploaded(folder):
        # The keeper was killed, and what uploads, too.
        return Status("ended", NOT_UPLOADED, "what was written is not uploaded yet")
    if ended := exited or result:
        code = ended["code"]
        reason = (result or {}).get("reason") or (
            LAUNCHER_KILLED
            if code == -signal.SIGKILL
            else _last_words(folder / attempt.LAUNCHER_LOG)
        )
        hung = bool((result or {}).get("hung"))
        said = "" if code == 0 else reason or f"exit code {code}"
        return Status("ended", code, said, hung=hung)
    # The launcher makes its folder of logs before it starts anything.
    if not (folder / attempt.LOGS).exists():
        return Status("absent")
    if (attempt.read(folder / attempt.START) or {}).get("boot") != attempt.boot():
        return Status("gone", None, "the machine was restarted")
    return Status("ended", None, LAUNCHER_KILLED)


def stop_kept(folder: Path) -> None:
    """Ask a start's launcher to end, and kill it if it has not in time; call it again and again."""
    asked = folder / "stopping.json"
    since = (attempt.read(asked) or {}).get("time")
    late = since is not None and time.time() - since > KILL_SECONDS
    if (since is not None and not late) or not attempt.is_alive(folder):
        return
    launcher = _launcher(folder)
    if launcher is None:
        return
    # Written first: two signals would be worse than one that comes with the killing.
    if since is None:
        attempt.write(asked, {"time": time.time()})
    with contextlib.suppress(ProcessLookupError):
        os.kill(launcher, signal.SIGKILL if late else signal.SIGTERM)


def _last_words(log: Path) -> str:
    """The last line of a log that is not empty."""
    with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _launcher(folder: Path) -> int | None:
    """The launcher's process number, if it runs."""
    if running := attempt.read(folder / attempt.RUNNING):
        pid = int(running["pid"])
        return pid if attempt.started_at(pid) == running["started"] else None
    # Its keeper has not written it down. If that was killed, who holds the lock are the launcher
    # and its guardian, which is younger.
    if any(_is_keeper(pid) for pid in _holders(folder)):
        return None
    alive = [(started, pid) for pid in _holders(folder) if (started := attempt.started_at(pid))]
    return min(alive)[1] if alive else None


def _is_keeper(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"keeper" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def _holders(folder: Path) -> Iterator[int]:
    """Processes that have the attempt's lock open."""
    lock = (folder / attempt.LOCK).stat()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for file in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.samestat(file.stat(), lock):
                        yield int(process.name)
                        break
