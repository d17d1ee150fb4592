"""Points of metric files that are on other machines: sent in lines of a log, and kept in files.

Who has the files sends what is new in them, thinned so that a long training is no longer to send
than its curves are to look at: of each series the first 1,000 points, from there on every second
one until there are 500 more, then every fourth, and so on; at the end the last one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.jobs.metrics.files import is_event_file, metric_files

if TYPE_CHECKING:
    from drumline.jobs.metrics.written import MetricFile, Point

_WHOLE, _MORE = 1000, 500
_MOST_SERIES = 256
_LONGEST_NAME = 200
_LINE = 3000  # With what is around them, what is written to a pipe at once: 4,096 bytes.
_MOST_SENT = 16 << 20
_MOST_KEPT = 32 << 20
_SHORTEST_SECONDS = 2.0
_SHARE = 20
"""Looking for what is new may take a twentieth of the time of one processor."""

_STEM = "points-"


@dataclasses.dataclass
class _Thinned:
    """How far a series is sent."""

    seen: int = 0
    sent: int = 0
    stride: int = 1
    left: Point | None = None

    def takes(self, point: Point) -> bool:
        due = self.seen % self.stride == 0
        self.seen += 1
        self.left = None if due else point
        self.sent += due
        if due and self.sent >= _WHOLE + _MORE * (self.stride.bit_length() - 1):
            self.stride *= 2
        return due


class PointSender:
    """Sends what is new in the metric files below a folder.

    Args:
        folder: the working copy of a job.
        send: takes a record, which fits into a line of 4,096 bytes.
        say: takes a sentence that is for the user.
        mine: whether a file, by its name, is of the processes whose metrics are sent here.
    """

    def __init__(
        self,
        folder: Path,
        send: Callable[[Mapping[str, Any]], None],
        say: Callable[[str], None],
        mine: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._folder = folder
        self._send = send
        self._say = say
        self._mine = mine
        self._files: dict[str, MetricFile] = {}
        self._rows: dict[tuple[str, str], tuple[int, str]] = {}
        self._series: dict[str, _Thinned] = {}
        self._waiting: list[tuple[str, Point]] = []
        self._number = self._bytes = 0
        self._said: set[str] = set()
        self._due = 0.0

    def begin(self) -> None:
        """Take what is there already as sent: it was written by others, or by an earlier start."""
        for _ in self._news():
            pass

    def look(self, end: bool = False) -> None:
        """Send what is new, if it is time to look.

        Args:
            end: nothing more will be written.
        """
        began = time.monotonic()
        if began < self._due and not end:
            return
        for name, points in self._news():
            series = self._series.get(name)
            if series is None:
                if len(name) > _LONGEST_NAME:
                    self._say_once(f"metrics with names of more than {_LONGEST_NAME} characters")
                    continue
                if len(self._series) >= _MOST_SERIES:
                    self._say_once(f"metrics behind the first {_MOST_SERIES} of them")
                    continue
                series = self._series[name] = _Thinned()
            self._waiting += [(name, point) for point in points if series.takes(point)]
        if self._bytes > _MOST_SENT:
            if self._waiting:
                self._say_once(f"points of metrics after {_MOST_SENT >> 20} MiB of them")
            self._waiting.clear()
        if end:
            self._waiting += [(n, each.left) for n, each in self._series.items() if each.left]
        self._flush()
        now = time.monotonic()
        self._due = now + max(_SHORTEST_SECONDS, _SHARE * (now - began))

    def _say_once(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(f"{what} stay where they were written")

    def _news(self) -> Iterator[tuple[str, list[Point]]]:
        """The points of each series that were not there the last time."""
        for entry in metric_files(self._folder):
            if not self._mine(entry.name):
                continue
            # What reads event files needs numpy, without which most pods' own process can be.
            from drumline.jobs.metrics.written import CsvLog, metric_file, run_of

            file = self._files.get(entry.path)
            if file is None:
                file = self._files[entry.path] = metric_file(Path(entry.path))
            with contextlib.suppress(OSError):  # removed since
                file.read()
            run = run_of(entry.path, self._folder)
            for tag, points in file.points.items():
                fresh = self._fresh(entry.path, tag, points) if isinstance(file, CsvLog) else points
                if fresh:
                    yield f"{run}/{tag}" if run else tag, fresh
            if not isinstance(file, CsvLog):
                file.points = {}

    def _fresh(self, path: str, column: str, points: list[Point]) -> list[Point]:
        """Rows of a CSV file, which may have been begun again."""
        count, last = self._rows.get((path, column), (0, ""))
        if count and (len(points) < count or repr(points[count - 1]) != last):
            count = 0
        self._rows[path, column] = len(points), repr(points[-1]) if points else ""
        return points[count:]

    def _flush(self) -> None:
        table: dict[str, list[tuple[int, float, float | None]]] = {}
        size = 0
        for name, (step, value, moment) in self._waiting:
            row = (step, value, None if math.isnan(moment) else moment)
            cost = len(json.dumps(row)) + 2
            cost += 0 if name in table else len(json.dumps(name, ensure_ascii=False).encode()) + 6
            if table and size + cost > _LINE:
                self._send_table(table, size)
                table, size = {}, 0
            table.setdefault(name, []).append(row)
            size += cost
        if table:
            self._send_table(table, size)
        self._waiting.clear()

    def _send_table(self, table: Mapping[str, Any], size: int) -> None:
        self._number += 1
        self._bytes += size
        self._send({"points": table, "number": self._number})


def is_written_by(name: str, host: str, others: str) -> bool:
    """Whether a metric file in a folder that several hosts share is of one of them.

    Args:
        name: of the file; event files have their host in it.
        host: the one.
        others: how the names of the hosts begin; empty on all of them but the first, which has
            the files that do not say their host, too.
    """
    if not is_event_file(name):
        return bool(others)
    written = name.partition(".tfevents.")[2].partition(".")[2]
    return f"{written}.".startswith(f"{host}.") or bool(others and not written.startswith(others))


class PointFile:
    """What one process has sent, a record a line.

    Args:
        path: made when there is something to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = self._size = 0
        with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
            whole = file.read().rpartition(b"\n")[0]
            self._size = len(whole) + bool(whole)
            file.truncate(self._size)  # A last line may be torn.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._last = int(json.loads(whole.rpartition(b"\n")[2])["number"])

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record, unless it is here already, or 32 MiB are.

        Raises:
            OSError: it cannot be written.
            ValueError, TypeError, KeyError, AttributeError, OverflowError: it is none.
        """
        number = int(record["number"])
        if number <= self._last:
            return
        points = {name: list(_rows(rows)) for name, rows in record["points"].items()}
        line = f"{json.dumps({'number': number, 'points': points}, separators=(',', ':'))}\n"
        if self._size + len(line) > _MOST_KEPT:
            return
        with open(self._path, "a", opener=_private) as file:
            file.write(line)
        self._last, self._size = number, self._size + len(line)


def point_path(folder: Path, stem: str) -> Path:
    """The file of a process, in the folder of a start, by the stem of its log: ``"worker-0"``."""
    return folder / f"{_STEM}{stem}.jsonl"


def point_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a start, and whose they are, as ``"worker:0"``."""
    for path in sorted(folder.glob(f"{_STEM}*.jsonl")):
        yield path, path.name.removeprefix(_STEM).partition(".")[0].replace("-", ":")


def points_of(line: bytes) -> Iterator[tuple[str, list[Point]]]:
    """The points in a line of such a file, by the names of series."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        for name, rows in json.loads(line)["points"].items():
            if rows:
                yield name, [(s, v, math.nan if t is None else t) for s, v, t in rows]


def _rows(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, float, float | None]]:
    for step, value, moment in rows:
        if abs(int(step)) >= 1 << 63:
            raise ValueError(f"{step} is no step")
        yield int(step), float(value), None if moment is None else float(moment)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
