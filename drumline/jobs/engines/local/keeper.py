"""The keeper of one attempt: starts the launcher, waits for it, and writes down how it ended.

It has its own session and outlives the supervisor and the terminal. It imports the standard library
only, since there is one for each running job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from drumline.jobs.engines.local import attempt


def _nothing(step: str) -> None:
    pass


def keep(folder: Path, lock: int, reached: Callable[[str], None] = _nothing) -> None:
    """Run the launcher of an attempt.

    Args:
        folder: the attempt's.
        lock: the descriptor of its `alive.lock`, which the launcher inherits.
        reached: is called with the name of each step that is done; tests kill the keeper there.
    """
    start = attempt.read(folder / attempt.START)
    assert start is not None
    env = dict(start["env"])
    if secrets := attempt.read(folder / attempt.SECRETS):
        env |= secrets
        (folder / attempt.SECRETS).unlink()
    launcher: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(signum: int, frame: FrameType | None) -> None:
        if launcher is None:
            early.append(signum)
        else:
            launcher.send_signal(signal.SIGTERM)

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, pass_on)
    reached("read")
    with open(folder / attempt.LAUNCHER_LOG, "ab", opener=_private) as log:
        try:
            launcher = subprocess.Popen(
                start["argv"],
                cwd=start["cwd"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
            )
        except OSError as error:
            log.write(f"drumline: {start['argv'][0]} cannot be started: {error}\n".encode())
            attempt.write(folder / attempt.EXIT, {"code": 127, "time": time.time()})
            return
    reached("launched")
    running = {"pid": launcher.pid, "started": attempt.started_at(launcher.pid)}
    attempt.write(folder / attempt.RUNNING, running)
    reached("running")
    if early:
        launcher.send_signal(signal.SIGTERM)
    code = launcher.wait()
    reached("ended")
    attempt.write(folder / attempt.EXIT, {"code": code, "time": time.time()})
    reached("written")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def main(arguments: Sequence[str]) -> None:
    """The program of a keeper: its folder, and the number of the lock's descriptor."""
    folder, lock = arguments
    keep(Path(folder), int(lock))
