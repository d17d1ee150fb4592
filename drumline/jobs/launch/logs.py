"""Where the logs of a job and its processes' failure records are kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import IO

from drumline._local_path import local_path
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.tasks import Task


def default_log_dir() -> Path:
    """A new name beneath ``drumline-logs``, by the time and this process."""
    return Path("drumline-logs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


class LogDir:
    """A directory that one launcher at a time writes to.

    Args:
        path: made if absent.
        node: the number of this host, since several may share the directory over a network.

    Raises:
        LaunchError: if it is a URL, cannot be written, or another launcher is using it.
    """

    def __init__(self, path: Path, node: int) -> None:
        try:
            self.path = Path(local_path(path, "--log-dir", "the directory of logs")).absolute()
        except ValueError as error:
            raise LaunchError(str(error)) from None
        self._node = node
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked(self.path / f".lock-{node}")
        except OSError as error:
            raise LaunchError(
                f"the log directory {path} cannot be written: {error.strerror}. "
                f"Choose another by --log-dir."
            ) from None

    def close(self) -> None:
        """Let others use it."""
        self._lock.close()

    def log(self, task: Task, attempt: int) -> Path:
        """The log of `task`: ``worker-0.log``, and of a restart ``worker-0.restart-1.log``."""
        return self.path / f"{task.file_stem}{_suffix(attempt)}.log"

    def failures(self, attempt: int) -> Path:
        """A directory for the failure records of this host's processes, empty."""
        directory = self.path / f"failures-{self._node}{_suffix(attempt)}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(exist_ok=True)
        return directory

    def _locked(self, path: Path) -> IO[str]:
        lock = path.open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise LaunchError(
                f"the log directory {self.path} is in use by another launch. Choose another by "
                f"--log-dir, or leave it out for a new one."
            ) from None
        return lock


def shown(path: Path) -> str:
    """`path` as the user would write it: from the current directory if it lies beneath."""
    inside = path.is_relative_to(Path.cwd())
    return os.path.relpath(path) if inside else str(path)


def _suffix(attempt: int) -> str:
    return f".restart-{attempt}" if attempt else ""
