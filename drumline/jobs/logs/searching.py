"""Finding text in a log of any length, some of it at a time.

What is searched is what a terminal would show: without colours, and of a progress bar that is
written over its end only. Letters count in either case.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator

from drumline.jobs.logs.reading import LogPart

LONGEST_TEXT = 200
"""Characters of a text that is searched."""

MOST_BYTES = 32 << 20
"""Of a log that one search looks at; who asks continues from there."""

_PIECE = 1 << 20
_CONTROL = re.compile(r"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?")
_WRITTEN_OVER = re.compile(r"[^\n]*\r(?=[^\r\n])")


@dataclasses.dataclass(frozen=True)
class FoundLines:
    """Lines of a log that have a text.

    Attributes:
        lines: the first byte of each and the byte after it, in the order in which they were
            looked for.
        start: the first byte that was looked at.
        end: the byte after the last one. A line that is still being written is looked at, and is
            after it, so that it is looked at again.
        size: how many bytes the log has.
    """

    lines: list[tuple[int, int]]
    start: int
    end: int
    size: int


class LogSearch:
    """Looks for a text in a log.

    Args:
        text: of one line.
        read: some bytes of the log: from which on, and how many at most; see `LogBytes.read`.

    Raises:
        ValueError: such a text cannot be looked for.
    """

    def __init__(self, text: str, read: Callable[[int, int], LogPart]) -> None:
        if not text or len(text) > LONGEST_TEXT or not text.isprintable():
            raise ValueError(f"text must be 1 to {LONGEST_TEXT} characters of one line")
        self._text = text.lower()
        self._read = read
        self._size = read(0, 1).size

    def after(
        self, start: int, most: int, aligned: bool = True, look_at: int = MOST_BYTES
    ) -> FoundLines:
        """The next lines with the text.

        Args:
            start: the byte from which on.
            most: lines at most.
            aligned: whether a line begins there; if not, the next one is the first.
            look_at: bytes at most; a line, and a piece of a longer one, is looked at whole.
        """
        at, found = min(max(0, start), self._size), list[tuple[int, int]]()
        begin = at = at if aligned else self._line_start(at, self._size)
        while len(found) < most and at - begin < look_at:
            data, first, after = self._lines_from(at, self._size)
            if not data:
                break  # It may also be that a secret's beginning is held back.
            found += itertools.islice(self._matches(data, first), most - len(found))
            if len(found) == most:
                at = found[-1][1]
            elif after < self._size or data.endswith(b"\n"):
                at = after
            else:
                unfinished = len(data) - data.rfind(b"\n") - 1
                at = after if unfinished >= _PIECE else after - unfinished
                break
        return FoundLines(found, begin, at, self._size)

    def before(self, end: int, most: int, look_at: int = MOST_BYTES) -> FoundLines:
        """The last lines with the text before a byte, the nearest first; see `after`."""
        end = min(max(0, end), self._size)
        at, found = end, list[tuple[int, int]]()
        while at > 0 and len(found) < most and end - at < look_at:
            start = self._line_start(max(0, at - _PIECE), at)
            here, following = list[tuple[int, int]](), start
            while following < at:
                data, first, following = self._lines_from(following, at)
                if not data:
                    break
                here += self._matches(data, first)
            found += here[::-1][: most - len(found)]
            at = found[-1][0] if len(found) == most else start
        return FoundLines(found, at, end, self._size)

    def _line_start(self, at: int, end: int) -> int:
        """Where the first line begins from a byte on; there, if none does before `end`."""
        if at == 0:
            return 0
        part = self._read(at - 1, end - at)
        found = part.data.find(b"\n")
        if part.start > at - 1:  # It was dropped: what is left begins there, if before `end`.
            return part.start if part.start < end else at
        first = part.start + found + 1
        return at if found < 0 or first >= end else first  # A longer line is taken in pieces.

    def _lines_from(self, at: int, end: int) -> tuple[bytes, int, int]:
        """Some lines, their first byte, and where the next ones begin."""
        part = self._read(at, min(_PIECE, end - at))
        data = part.data if part.start < end else b""
        whole = data.rfind(b"\n") + 1
        if whole and part.start + len(data) < end:
            data = data[:whole]
        return data, part.start, part.start + len(data)

    def _matches(self, data: bytes, first: int) -> Iterator[tuple[int, int]]:
        """The lines of some bytes that have the text: where each begins, and the next one."""
        seen = _shown(data).lower()
        at, line, counted = seen.find(self._text), 0, 0
        ends: list[int] = []
        while at >= 0:
            ends = ends or [each.end() for each in re.finditer(b"\n", data)]
            line += seen.count("\n", counted, at)
            counted = at
            begins = ends[line - 1] if line else 0
            yield first + begins, first + (ends[line] if line < len(ends) else len(data))
            over = seen.find("\n", at)
            at = seen.find(self._text, over) if over >= 0 else -1


def _shown(data: bytes) -> str:
    """What a terminal shows, with as many lines."""
    text = data.decode(errors="replace")
    if "\x1b" in text:
        text = _CONTROL.sub("", text)
    if "\r" in text:
        text = _WRITTEN_OVER.sub("", text)
    return text
