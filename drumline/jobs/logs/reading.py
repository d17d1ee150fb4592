"""Reading a log as it grows, over its parts (`writing.py`)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path

from drumline.jobs.logs.writing import part_numbers, part_path

LONGEST_LINE = 64 << 10
"""A longer line is cut into several."""

_CHUNK = 256 << 10
_MARK = re.compile(rb"\n?\[drumline: [\d,]+ lines? \(([\d,]+) bytes?\) were dropped here: .*\]\n")
_LONGEST_MARK = 300


@dataclasses.dataclass(frozen=True)
class LogPart:
    """Some bytes of a log.

    Attributes:
        data: the bytes.
        start: where the first of them is in all that was ever written.
        size: how many bytes were written so far.
    """

    data: bytes
    start: int
    size: int


class LogBytes:
    """A log as the bytes that were ever written, each of which keeps its number.

    Args:
        log: the file of its first part; it need not exist yet.
    """

    def __init__(self, log: Path) -> None:
        self._log = log

    def size(self) -> int:
        """How many bytes were written, those that were dropped since among them."""
        parts = self._parts()
        return parts[-1][0] + parts[-1][2] if parts else 0

    def read(self, start: int, limit: int) -> LogPart:
        """Some bytes of it.

        Args:
            start: the number of the first byte. A negative one counts from the end. If the log was
                emptied by another start and is shorter, it is read from its beginning; where bytes
                were dropped, from the next one that is there.
            limit: how many at most.
        """
        parts = self._parts()
        size = parts[-1][0] + parts[-1][2] if parts else 0
        if start < 0:
            start = max(0, size + start)
        elif start > size:
            start = 0
        found, at = b"", start
        for first, path, length in parts:
            if first + length <= at:
                continue
            if first > at:
                if found:  # What was dropped is between; the next call reads from there.
                    break
                at = start = first
            with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
                file.seek(at - first)
                piece = file.read(min(limit - len(found), first + length - at))
                found, at = found + piece, at + len(piece)
            if len(found) >= limit or at < first + length:
                break
        return LogPart(found, start, size)

    def _parts(self) -> list[tuple[int, Path, int]]:
        """The number of the first byte, the file and the length of each part."""
        found: list[tuple[int, Path, int]] = []
        at = 0
        numbers = (0, *part_numbers(self._log))
        for number in numbers:
            path = part_path(self._log, number)
            try:
                length = path.stat().st_size
                if 0 < number != numbers[-1] and length < _LONGEST_MARK:
                    mark = _MARK.fullmatch(path.read_bytes())
                    if mark is not None:
                        before = found[0][2] if found else 0
                        at = before + int(mark[1].replace(b",", b""))
                        continue
            except FileNotFoundError:  # it is being removed
                continue
            found.append((at, path, length))
            at += length
        return found


class LogReader:
    """What is new in a log since one last looked.

    Each line is read once. Where parts were removed before they were read, the line that says so
    is read in their place.

    Args:
        log: the file of its first part; it need not exist yet.

    Attributes:
        unfinished: the beginning of a line that is still being written.
    """

    def __init__(self, log: Path) -> None:
        self.unfinished = b""
        self._log = log
        self._number = 0
        self._offset = 0
        self._inode = 0

    def lines(self, ended: bool = False) -> Iterator[bytes]:
        """The lines finished since the last call, without their ends.

        Args:
            ended: nothing more is written; an unfinished line is one as well.
        """
        for chunk in self._chunks():
            *finished, self.unfinished = (self.unfinished + chunk).split(b"\n")
            if len(self.unfinished) > LONGEST_LINE:
                finished, self.unfinished = [*finished, self.unfinished], b""
            yield from finished
        if ended and self.unfinished:
            line, self.unfinished = self.unfinished, b""
            yield line

    def _chunks(self) -> Iterator[bytes]:
        while True:
            # Asked first: once there is a later part, this one grows no more.
            later = next((n for n in part_numbers(self._log) if n > self._number), None)
            yield from self._rest_of_part()
            if later is None:
                return
            self._number, self._offset, self._inode = later, 0, 0

    def _rest_of_part(self) -> Iterator[bytes]:
        with contextlib.ExitStack() as stack:
            try:
                path = part_path(self._log, self._number)
                file = stack.enter_context(open(path, "rb", buffering=0))
            except OSError:  # not there yet, or removed: then a later one begins with a mark
                return
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._offset:
                # A mark is in its place, or another start of the launcher has emptied it.
                self._inode, self._offset = found.st_ino, 0
            file.seek(self._offset)
            while chunk := file.read(_CHUNK):
                self._offset += len(chunk)
                yield chunk
