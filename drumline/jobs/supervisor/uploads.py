"""What killed jobs have left to upload: programs that do it once the jobs have ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

from drumline.jobs.engines.local import attempt
from drumline.jobs.sources.preparation import PROGRAM
from drumline.jobs.sources.secrets import SecretError, read_secret
from drumline.jobs.sources.spool import expected_uploads, spools
from drumline.jobs.store.database import ENDED, JobRow, Store

_PERIOD_SECONDS = 1.0
_PAUSES = (5.0, 30.0, 120.0, 300.0)
"""After each failure; then it is left to the next supervisor."""


class Uploads:
    """The uploads of a workspace's ended jobs.

    Args:
        store: the jobs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marks = expected_uploads(store.home)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._failures: dict[int, int] = {}
        self._due: dict[int, float] = {}
        self._next = 0.0

    def step(self) -> int:
        """Do what there is to do now, and return how many wait or run."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD_SECONDS
            with contextlib.suppress(FileNotFoundError):
                for name in filter(str.isdecimal, sorted(os.listdir(self._marks))):
                    self._look(int(name))
        return len(self._running) + len(self._due)

    def _look(self, number: int) -> None:
        row = self._store.job(number)
        if row is None:
            (self._marks / str(number)).unlink()
        elif (process := self._running.get(number)) is not None:
            if process.poll() is not None:
                del self._running[number]
                self._ended(row, process)
        elif row.state in ENDED and time.monotonic() >= self._due.get(number, 0.0):
            if self._failures.get(number, 0) > len(_PAUSES):
                return
            if any(spool.pending() for spool in spools(self._folder(number))):
                self._start(row)
            else:
                # Also by one that was killed when all was done, and was to be repeated.
                self._due.pop(number, None)
                (self._marks / str(number)).unlink()

    def _folder(self, number: int) -> Path:
        """Where a job's spools are: in the workspace, or where its engine's machines reach them."""
        return Path((self._marks / str(number)).read_text())

    def _start(self, row: JobRow) -> None:
        self._due.pop(row.id, None)
        self._running[row.id] = subprocess.Popen(
            [*PROGRAM, "upload", str(self._folder(row.id)), "final"],
            cwd="/",
            env=self._environment(row),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _environment(self, row: JobRow) -> dict[str, str]:
        """What the job itself had, with the credentials for its stores."""
        own = self._store.home / "jobs" / str(row.id)
        env = attempt.read(own / "environment.json") or {}
        env |= row.job.env
        for name in row.job.secrets:
            # It may have been removed since; then the store says what it lacks.
            with contextlib.suppress(SecretError):
                env[name] = read_secret(self._store.home, name)
        return env

    def _ended(self, row: JobRow, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
        process.stderr.close()
        if process.returncode == 0:
            text = "what its last start had written is uploaded"
            (self._marks / str(row.id)).unlink(missing_ok=True)
        else:
            failures = self._failures[row.id] = self._failures.get(row.id, 0) + 1
            text = said[-1] if said else f"uploading ended with exit code {process.returncode}"
            if failures <= len(_PAUSES):
                pause = _PAUSES[failures - 1]
                self._due[row.id] = time.monotonic() + pause
                text += f"; it is tried again in {pause:g} s"
            else:
                text += "; the next supervisor tries it again"
        with self._store.change():
            self._store.add_event(row.id, "data", text)
