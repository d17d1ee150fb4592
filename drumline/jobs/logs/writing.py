"""Writing a log within a limit.

A log is one file until an eighth of its limit is reached. Then a second *part* is begun beside it,
``worker-0.log.1``, and so on; no part is renamed, and a part is complete once there is a later one.
When all together would exceed the limit, the oldest parts but the first make room: the last of them
is replaced by a *mark*, a line that says how much is missing. So the beginning of a log stays
(versions, settings), and its end; what reads the parts in the order of their numbers misses no line
but those that a mark counts.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path

DEFAULT_LIMIT = 64 << 20
"""Bytes of the log of one process."""

LEAST_LIMIT = 4 << 10

_PARTS = 8
_TAIL = 32 << 10


def private(path: str, flags: int) -> int:
    """Open a file that its user alone can read, as ``open`` takes it for its `opener`."""
    file = os.open(path, flags, 0o600)
    with contextlib.suppress(PermissionError):  # another user's, who lets us write to it
        os.fchmod(file, 0o600)  # it may be there already, of an earlier run
    return file


def part_path(log: Path, number: int) -> Path:
    """The file of a part: the log itself is part 0."""
    return log.with_name(f"{log.name}.{number}") if number else log


def part_numbers(log: Path) -> list[int]:
    """The numbers of the parts that are there but 0, in order."""
    prefix = f"{log.name}."
    with contextlib.suppress(FileNotFoundError):
        ends = (name[len(prefix) :] for name in os.listdir(log.parent) if name.startswith(prefix))
        return sorted(int(end) for end in ends if end.isdecimal() and end.isascii())
    return []


class LogWriter:
    """Writes one log; the only one to do so.

    Nothing that goes wrong with the disk ends what is logged: what cannot be written is counted,
    and a mark says so as soon as there is room.

    Args:
        log: the file of its first part.
        limit: bytes of all its parts together, at least 4 KiB.
        append: continue a file that is there; else all its parts are removed first.

    Attributes:
        tail: the last 32 KiB that were to be written, whether they were or not.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, log: Path, limit: int = DEFAULT_LIMIT, append: bool = False) -> None:
        self.tail = b""
        self._log = log
        self._limit = limit
        self._part_size = limit // _PARTS
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if not append:
            for number in part_numbers(log):
                part_path(log, number).unlink(missing_ok=True)
            flags |= os.O_TRUNC
        self._file = private(str(log), flags)
        self._number = 0
        self._size = os.fstat(self._file).st_size
        self._lines = 0
        self._last = b"\n"
        self._first: tuple[int, bool] | None = None
        self._kept: deque[tuple[int, int, int]] = deque()
        self._dropped = [0, 0]
        self._mark_number = 0
        self._unwritten = [0, 0]
        self._error = ""

    def write(self, data: bytes) -> None:
        """Append `data`; see the class for what cannot be written."""
        self.tail = (self.tail + data[-_TAIL:])[-_TAIL:]
        try:
            self._say_unwritten()
            while data:
                count, full = self._fitting(data)
                if full and not count:
                    self._begin_part()
                    continue
                self._append(data[:count])
                data = data[count:]
                if full:
                    self._begin_part()
        except _NotWritten as stopped:
            data = data[stopped.written :]
            self._unwritten[0] += data.count(b"\n")
            self._unwritten[1] += len(data)

    def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            with contextlib.suppress(_NotWritten):
                self._say_unwritten()
            os.close(self._file)
            self._file = -1

    def _fitting(self, data: bytes) -> tuple[int, bool]:
        """How much of `data` goes into this part, and whether it is full then."""
        room = max(0, self._part_size - self._size)
        if len(data) <= room:
            return len(data), False
        # Bars of progress are redrawn in one line, which may never end.
        ends = data.rfind(b"\n", 0, room)
        ends = data.rfind(b"\r", 0, room) if ends < 0 else ends
        if ends < 0 and self._size and self._last in b"\r\n":
            return 0, True
        return (ends + 1 if ends >= 0 else room), True

    def _append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._error = error.strerror or str(error)
            raise _NotWritten(written) from error
        finally:
            if written:
                self._size += written
                self._lines += data.count(b"\n", 0, written)
                self._last = data[written - 1 : written]

    def _say_unwritten(self) -> None:
        lines, size = self._unwritten
        if not size:
            return
        said = f"[drumline: {_amount(lines, size)} could not be written here: {self._error}]\n"
        if self._size and self._size + len(said) > self._part_size:
            self._begin_part()
        before = self._size
        try:
            self._append((said if self._last == b"\n" else f"\n{said}").encode())
        except _NotWritten:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
                self._size = before
            raise _NotWritten(0) from None
        self._unwritten = [0, 0]

    def _begin_part(self) -> None:
        number = self._number + 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            file = private(str(part_path(self._log, number)), flags)
        except OSError as error:
            self._error = error.strerror or str(error)
            raise _NotWritten(0) from error
        os.close(self._file)
        if self._first is None:
            self._first = self._size, self._last == b"\n"
        else:
            self._kept.append((self._number, self._size, self._lines))
        self._file, self._number, self._size, self._lines = file, number, 0, 0
        with contextlib.suppress(OSError):  # Of a full disk; it is tried again with the next part.
            self._make_room()

    def _make_room(self) -> None:
        """Remove the oldest parts but the first, so that the one that has begun has room."""
        assert self._first is not None
        held = self._first[0] + self._part_size + sum(size for _, size, _ in self._kept)
        lines, dropped = self._dropped
        last = 0
        for number, size, count in self._kept:
            if held <= self._limit:
                break
            held, dropped, lines, last = held - size, dropped + size, lines + count, number
        if not last:
            return
        said = (
            f"[drumline: {_amount(lines, dropped)} were dropped here: a log has at most "
            f"{_bytes(self._limit)}]\n"
        )
        fresh = self._log.with_name(f"{self._log.name}.new")
        with open(fresh, "wb", opener=private) as file:
            file.write((said if self._first[1] else f"\n{said}").encode())
        fresh.replace(part_path(self._log, last))
        gone = [number for number, _, _ in self._kept if number < last]
        for number in filter(None, (self._mark_number, *gone)):
            part_path(self._log, number).unlink(missing_ok=True)
        while self._kept and self._kept[0][0] <= last:
            self._kept.popleft()
        self._dropped, self._mark_number = [lines, dropped], last


class _NotWritten(Exception):
    """So many bytes of what was being appended were written, and no more can be."""

    def __init__(self, written: int) -> None:
        self.written = written


def _amount(lines: int, size: int) -> str:
    # All digits of the bytes: by them what follows keeps its place (`reading.LogBytes`).
    return f"{lines:,} line{'' if lines == 1 else 's'} ({size:,} byte{'' if size == 1 else 's'})"


def _bytes(count: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} bytes"
