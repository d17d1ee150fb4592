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


def private(path: str, flags: int) -> int:
    """Open a file that its user alone can read, as ``open`` takes it for its `opener`."""
    file = os.open(path, flags, 0o600)
    with contextlib.suppress(PermissionError):  # another user's, who lets us write to it
        os.fchmod(file, 0o600)  # it may be there already, of an earlier run
    return file


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
        """Remove what an earlier job in this directory has written."""
        self._result.unlink(missing_ok=True)

    def write_result(self, result: Mapping[str, object]) -> None:
        """Write how the job ended to ``result.json``, ``result-1.json`` on host 1; whole or not."""
        partial = self._result.with_suffix(".part")
        try:
            with open(partial, "w", opener=private) as file:
                json.dump(result, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._result)
        except OSError as error:
            raise LaunchError(f"{self._result} cannot be written: {error.strerror}.") from None

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
        directory.mkdir(mode=0o700, exist_ok=True)
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
_LONGEST_LINE = 64 * 1024
_CHUNK = 256 * 1024


def printable(line: str) -> str:
    """What a terminal would show of `line` in the end: no escapes, and its last redrawing only.

    Control characters are dropped, so that a log cannot steer the terminal of who watches.
    """
    redrawn = [part for part in _ESCAPES.sub("", line).split("\r") if part.strip()]
    last = redrawn[-1] if redrawn else ""
    return "".join(c for c in last.replace("\t", "    ") if c.isprintable()).rstrip()


def last_lines(log: Path, count: int) -> list[str]:
    """The last `count` lines of `log` that are not blank."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 32 * 1024))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [printable(line) for line in text.split("\n")]
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
        self._log = log
        self._position = 0
        self._rest = b""

    def new_lines(self, *, ended: bool = False) -> list[str]:
        """The lines finished since the last call; with `ended` an unfinished one as well."""
        lines: list[str] = []
        for chunk in self._chunks():
            *finished, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > _LONGEST_LINE:
                finished, self._rest = [*finished, self._rest], b""
            lines += [printable(line.decode(errors="replace")) for line in finished]
        unfinished = printable(self._rest.decode(errors="replace"))
        if ended and unfinished:
            lines, self._rest = [*lines, unfinished], b""
        shown = [line for line in (*lines, unfinished) if line]
        self.last = shown[-1] if shown else self.last
        return lines

    def _chunks(self) -> list[bytes]:
        chunks = []
        try:
            with self._log.open("rb") as file:
                file.seek(self._position)
                while chunk := file.read(_CHUNK):
                    chunks.append(chunk)
        except OSError:  # deleted while the job runs: nothing new to show
            return []
        self._position += sum(map(len, chunks))
        return chunks
