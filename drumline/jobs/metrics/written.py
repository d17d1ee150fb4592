"""Files with metrics as points: event files of TensorBoard's, CSV logs, Prometheus's text format.

A reader keeps its place in its file, so that asking again reads only what is new.
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from drumline._core import RecordReader
from drumline._event_messages import scalars_of_event
from drumline.jobs.metrics.files import is_event_file

_CHUNK = 1 << 20
_RECORDS = 4096
_LARGEST_CSV = 64 << 20
_LARGEST_PROMETHEUS = 1 << 20

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'\w+="((?:[^"\\]|\\.)*)"')

Point = tuple[int, float, float]
"""Step, value, time."""


class EventLog:
    """An event file of TensorBoard's, whose last record may be written in part so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = self._number = 0
        self.points: dict[str, list[Point]] = {}

    @property
    def pid(self) -> int:
        """The number of the process that wrote it, by its name; 0 if that does not say."""
        parts = self._path.name.partition(".tfevents.")[2].split(".")
        # events.out.tfevents.<seconds>.<host>.<pid>.<count>[.v2], where a host may have points.
        numbers = [part for part in parts[1:] if part.isdecimal()]
        return int(numbers[-2]) if len(numbers) > 1 else 0

    def read(self) -> None:
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(file).st_size < self._offset:  # another file of that name
                self._offset = self._number = 0
                self.points.clear()
            reader = RecordReader(file, "tfrecord", "", _CHUNK, self._offset, self._number)
            while True:
                records, error = reader.next(_RECORDS)
                for record in records:
                    self._add(record)
                self._offset, self._number = reader.position()
                if error is not None or not len(records):
                    return
        finally:
            os.close(file)

    def _add(self, record: bytes) -> None:
        with contextlib.suppress(ValueError, IndexError, KeyError, struct.error):  # no event
            moment, step, scalars = scalars_of_event(record)
            for tag, value in scalars:
                self.points.setdefault(tag, []).append((step, value, moment))


class CsvLog:
    """What `keras.callbacks.CSVLogger` writes: a header that begins with ``epoch``, and rows."""

    pid = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = -1
        self.points: dict[str, list[Point]] = {}

    def read(self) -> None:
        size = self._path.stat().st_size
        if size == self._size or size > _LARGEST_CSV:
            return
        with open(self._path, newline="", errors="replace") as file:
            first = file.read(6)
            if not (first.startswith("epoch") and first[5:6] in (",", ";")):
                self._size = size
                return
            whole = (first + file.read()).rpartition("\n")[0]
        self._size, self.points = size, {}
        with contextlib.suppress(csv.Error):  # From there on it is none.
            self._read_rows(csv.reader(whole.splitlines(), delimiter=first[5]))

    def _read_rows(self, rows: Iterator[list[str]]) -> None:
        _, *columns = next(rows, ["epoch"])
        for row in rows:
            # A header again is of another start; of a number without an end there is no step.
            with contextlib.suppress(ValueError, IndexError, OverflowError):
                step = int(float(row[0]))
                for name, cell in zip(columns, row[1:], strict=False):
                    with contextlib.suppress(ValueError):
                        self.points.setdefault(name, []).append((step, float(cell), math.nan))


class PrometheusFile:
    """Samples in Prometheus's text format, which `StepProfiler` replaces after each epoch.

    A file has the present ones alone: each time that it is found changed they are a point more.
    Their step is the number of steps that the file itself counts, or else of the change.
    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """

    pid = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = -1
        self._changes = 0
        self.points: dict[str, list[Point]] = {}

    def read(self) -> None:
        found = self._path.stat()
        if found.st_mtime_ns == self._changed or found.st_size > _LARGEST_PROMETHEUS:
            return
        samples = dict(_prometheus_samples(self._path.read_text(errors="replace")))
        counted = next((samples[n] for n in samples if n.endswith("steps_total")), self._changes)
        self._changed, self._changes = found.st_mtime_ns, self._changes + 1
        for name, value in samples.items():
            self.points.setdefault(name, []).append((int(counted), value, found.st_mtime))


def _prometheus_samples(text: str) -> Iterator[tuple[str, float]]:
    """Names, with the values of labels behind them, as ``seconds_total/compute``, and values."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            if found := _SAMPLE.match(line):
                name, labels, value = found.groups()
                values = [each[1] for each in _LABEL.finditer(labels or "")]
                if math.isfinite(number := float(value)):
                    yield "/".join([name, *values]), number


MetricFile = EventLog | CsvLog | PrometheusFile

_KINDS: dict[str, type[EventLog] | type[CsvLog] | type[PrometheusFile]] = {
    "": EventLog,
    ".csv": CsvLog,
    ".prom": PrometheusFile,
}


def metric_file(path: Path) -> MetricFile:
    """What reads a file that `metric_files` has found."""
    return _KINDS[_ending(path.name)](path)


def run_of(path: str, folder: Path) -> str:
    """What the names of a file's metrics begin with: its folder, or the file without its ending."""
    inside = os.path.relpath(path, folder)
    ending = _ending(inside)
    return inside.removesuffix(ending) if ending else os.path.dirname(inside)


def _ending(name: str) -> str:
    return "" if is_event_file(os.path.basename(name)) else os.path.splitext(name)[1]
