"""Reading a log while it is written."""

from __future__ import annotations

import re
from pathlib import Path

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
