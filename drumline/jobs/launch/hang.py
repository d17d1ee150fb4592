"""A job that neither writes to its logs nor to its metrics, and where its processes are then."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from drumline.failure_record import STACKS_SIGNAL
from drumline.jobs.launch.process import Child
from drumline.jobs.metrics.files import last_change
from drumline.jobs.metrics.sessions import SessionUse, use_of

_SPY_SECONDS = 20.0
_DUMP_SECONDS, _DUMP_LOOKS = 1.0, 20
_IDLE_CPUS = 0.02
"""Less than that of a core is what threads take that only look whether there is something."""


class SilenceWatch:
    """How long a job has said nothing.

    Its processes' output counts, and changes of event files of TensorBoard's and of CSV files
    below its working folder. Of how long they have been silent the second half is that in which
    their use of CPUs is measured.

    Args:
        folder: the working folder.
        limit: seconds; the use of CPUs is measured from half of it.
    """

    def __init__(self, folder: Path, limit: float) -> None:
        self._folder = folder
        self._limit = limit
        self._since = time.monotonic()
        self._seen_at = self._since
        self._measured: tuple[float, dict[int, SessionUse]] | None = None

    def seconds(self, children: Sequence[Child], now: float, unwatched: bool) -> float:
        """How long it is silent by now.

        Args:
            children: its processes here.
            now: by ``time.monotonic``.
            unwatched: the launcher has not looked for long, and does not count that time.
        """
        wrote = max((child.output.written_at for child in children), default=0.0)
        if unwatched:
            wrote = now
        if wrote > self._since:
            self._since, self._measured = wrote, None
        silent = now - self._since
        if silent > self._limit / 2 and self._measured is None:
            self._measured = now, use_of([child.pid for child in children])
        if silent >= self._limit:
            # Looked for only now: of a job that prints, its files are none of the launcher's.
            age = max(0.0, time.time() - last_change(self._folder))
            if age < silent:
                self._since, self._measured = now - age, None
                return age
        return silent

    def cpus(self, child: Child, now: float) -> float:
        """How many cores a process and what it has started have used since it was measured."""
        if self._measured is None:
            return math.nan
        since, before = self._measured
        use = use_of([child.pid])[child.pid]
        return use.seconds_since(before.get(child.pid, use)) / max(now - since, 1e-3)


def in_words(seconds: float) -> str:
    """``"30 min"``, ``"2.5 s"``."""
    return f"{seconds / 60:.3g} min" if seconds >= 60 else f"{seconds:.3g} s"


def seen_of(silent: float, cpus: float) -> str:
    """What is seen of a process of a job that hangs, as a clause."""
    lasted = in_words(silent)
    if cpus > _IDLE_CPUS:
        busy = f"it used {cpus:.2g} cpus meanwhile, so it computes, but nothing comes of it"
    else:
        busy = "it used no cpu meanwhile, so it waits for something"
    return f"wrote nothing for {lasted}, nor did the job's metrics change; {busy}"


def write_stacks(children: Iterable[Child]) -> None:
    """Have the stacks of all threads of these processes written into their logs.

    By py-spy if it is installed and may look at them; else by the signal that a process with
    drumline answers. Others write theirs when they are ended: see `ending_signal`.
    """
    asked = []
    for child in children:
        if spied := _spied(child.pid):
            child.output.note(f"\n[drumline: stacks of {child.task} (pid {child.pid})]\n{spied}\n")
            child.stacks_written = True
        elif catches(child.pid, STACKS_SIGNAL):
            child.output.take_rest()
            child.output.note(f"\n[drumline: stacks of {child.task} (pid {child.pid})]\n")
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child.pid, STACKS_SIGNAL)
                child.stacks_written = True
                asked.append(child)
    for _ in range(_DUMP_LOOKS if asked else 0):
        time.sleep(_DUMP_SECONDS / _DUMP_LOOKS)
        for child in asked:
            child.output.take_rest()


def ending_signal(child: Child) -> int:
    """The signal that asks a process of a job that hangs to end.

    One that would only die by SIGTERM is sent SIGABRT if its stacks are not known: Python then
    writes them (``PYTHONFAULTHANDLER``).
    """
    if child.stacks_written or catches(child.pid, signal.SIGTERM):
        return signal.SIGTERM
    return signal.SIGABRT if catches(child.pid, signal.SIGABRT) else signal.SIGTERM


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for a signal."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def _spied(pid: int) -> str:
    """What py-spy says of a process; empty if it is not there, or may not look."""
    beside = Path(sys.executable).with_name("py-spy")
    program = shutil.which("py-spy") or (str(beside) if beside.exists() else None)
    if program is None:
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SPY_SECONDS,
        )
        if done.returncode == 0:
            return done.stdout.decode(errors="replace").strip()
    return ""
