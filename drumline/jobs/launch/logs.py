"""The logs of a job and its failure records: their directory, and reading them as they grow."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from drumline._local_path import local_path
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.tasks import LaunchedTask
from drumline.jobs.logs.reading import LogReader
from drumline.jobs.logs.writing import private
from drumline.jobs.metrics.usage import PROCESSES


def make_private(directory: Path) -> None:
    """Make a directory, and those above it that are missing, for its user alone.

    Raises:
        OSError: if it cannot be made, or is a file.
    """
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)
    directory.mkdir(exist_ok=True)  # what is no directory is refused here


def default_log_dir() -> Path:
    """A new name beneath ``drumline-logs``, by the time and this process."""
    return Path("drumline-logs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


class LogDir:
    """A directory that one launcher at a time writes to.

    Args:
        path: made if absent, for its user alone. So is each file in it, also where others can list
            the directory.
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
            make_private(self.path)
            self._lock = self._locked(self.path / f".lock-{node}")
        except OSError as error:
            raise LaunchError(
                f"the log directory {path} cannot be written: {error.strerror}. "
                f"Choose another by --log-dir."
            ) from None

    @property
    def _result(self) -> Path:
        return self.path / (f"result-{self._node}.json" if self._node else "result.json")

    def clear_result(self) -> None:
        """Remove what an earlier job in this directory has written, and reserve room for another.

        So the reason of an end is written down on a disk that is full by then, too.
        """
        self._result.unlink(missing_ok=True)
        with (
            contextlib.suppress(OSError),  # there is no room now, but may be later
            open(self._result.with_suffix(".part"), "wb", opener=private) as file,
        ):
            os.posix_fallocate(file.fileno(), 0, _RESERVED)

    def write_result(self, result: Mapping[str, object]) -> None:
        """Write how the job ended to ``result.json``, ``result-1.json`` on host 1; whole or not."""
        partial = self._result.with_suffix(".part")
        try:
            # Not emptied first, which would give up what is reserved.
            with open(private(str(partial), os.O_WRONLY | os.O_CREAT), "w") as file:
                json.dump(result, file)
                file.truncate()
                os.fsync(file.fileno())
            partial.replace(self._result)
        except OSError as error:
            raise LaunchError(f"{self._result} cannot be written: {error.strerror}.") from None

    def write_processes(self, processes: Mapping[str, object]) -> None:
        """Write which processes there are by now, for whoever looks at what they use."""
        path = self.path / PROCESSES
        if self._node:
            path = path.with_stem(f"{path.stem}-{self._node}")
        with contextlib.suppress(OSError):  # as of a full disk: then nothing is known of them
            with open(path.with_suffix(".new"), "w", opener=private) as file:
                json.dump(processes, file)
            path.with_suffix(".new").replace(path)

    def close(self) -> None:
        """Let others use it."""
        self._lock.close()

    def log(self, task: LaunchedTask, attempt: int) -> Path:
        """The log of `task`: ``worker-0.log``, and of a restart ``worker-0.restart-1.log``."""
        return self.path / f"{task.file_stem}{_suffix(attempt)}.log"

    def failures(self, attempt: int) -> Path:
        """A directory for the failure records of this host's processes, empty."""
        directory = self.path / f"failures-{self._node}{_suffix(attempt)}"
        shutil.rmtree(directory, ignore_errors=True)
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LaunchError(f"{directory} cannot be made: {error.strerror}.") from None
        return directory

    def _locked(self, path: Path) -> IO[str]:
        lock = os.fdopen(private(str(path), os.O_CREAT | os.O_APPEND | os.O_WRONLY), "a")
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


_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")
_RESERVED = 64 << 10


def printable(line: str) -> str:
    """What a terminal would show of `line` in the end: no escapes, and its last redrawing only.

    Control characters are dropped, so that a log cannot steer the terminal of who watches.
    """
    redrawn = [part for part in _ESCAPES.sub("", line).split("\r") if part.strip()]
    last = redrawn[-1] if redrawn else ""
    return "".join(c for c in last.replace("\t", "    ") if c.isprintable()).rstrip()


def last_lines(end: bytes, count: int) -> list[str]:
    """The last `count` lines of the end of a log that are not blank."""
    lines = [printable(line) for line in end.decode(errors="replace").split("\n")]
    return [line for line in lines if line][-count:]


class LogTail:
    """What is new in a log since one last looked.

    Args:
        log: the file; it need not exist yet.

    Attributes:
        last: the newest line that is not blank, finished or not.
    """

    def __init__(self, log: Path) -> None:
        self.last = ""
        self._reader = LogReader(log)

    def new_lines(self, *, ended: bool = False) -> list[str]:
        """The lines finished since the last call; with `ended` an unfinished one as well."""
        lines = [printable(line.decode(errors="replace")) for line in self._reader.lines(ended)]
        unfinished = printable(self._reader.unfinished.decode(errors="replace"))
        shown = [line for line in (*lines, unfinished) if line]
        self.last = shown[-1] if shown else self.last
        return lines
