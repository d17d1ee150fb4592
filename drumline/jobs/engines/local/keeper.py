"""The keeper of one attempt: starts the launcher, waits for it, and writes down how it ended.

Meanwhile it samples what the job's processes use.

It has its own session and outlives the supervisor and the terminal. It imports the standard library
only, since there is one for each running job.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.children import SignalRelay
from drumline.jobs.engines.local import attempt
from drumline.jobs.metrics.usage import PROCESSES, USAGE, UsageSampler
from drumline.jobs.store.waking import wake


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
    signals = SignalRelay((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    # A disk that is full later is no reason to end the job, nor to lose how it has ended.
    for path in (folder / attempt.RUNNING, folder / attempt.EXIT):
        with contextlib.suppress(OSError):
            attempt.reserve(path)
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
            _write(folder / attempt.EXIT, {"code": 127, "time": time.time()})
            return
    reached("launched")
    wakes = Path(start["wakes"]) if "wakes" in start else None
    running = {"pid": launcher.pid, "started": attempt.started_at(launcher.pid)}
    _write(folder / attempt.RUNNING, running)
    _wake(wakes)
    reached("running")
    signals.begin(lambda _: launcher.send_signal(signal.SIGTERM))
    processes = start.get("processes", PROCESSES)
    usage = UsageSampler(folder / USAGE, folder / attempt.LOGS / processes)
    code = _wait(launcher, usage)
    reached("ended")
    # If it cannot be written, the launcher's own result says the same.
    _write(folder / attempt.EXIT, {"code": code, "time": time.time()})
    _wake(wakes)
    reached("written")


def _wait(launcher: subprocess.Popen[bytes], usage: UsageSampler) -> int:
    """The launcher's exit code; what its processes use is sampled meanwhile."""
    ended = os.pidfd_open(launcher.pid)
    while not select.select([ended], [], [], usage.seconds)[0]:
        usage.sample()
    os.close(ended)
    return launcher.wait()


def _wake(home: Path | None) -> None:
    if home is not None:  # On an SSH host there is no supervisor.
        wake(home)


def _write(path: Path, value: dict[str, Any]) -> None:
    try:
        attempt.write(path, value)
    except OSError as error:
        with contextlib.suppress(OSError):  # of the same disk
            print(f"{path.name} cannot be written: {error}", file=sys.stderr, flush=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def main(arguments: Sequence[str]) -> None:
    """The program of a keeper: its folder, and the number of the lock's descriptor."""
    folder, lock = arguments
    keep(Path(folder), int(lock))
