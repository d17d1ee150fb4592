"""The metrics of a job as arrays: what it uses, and what it has written into files of its own.

A reader keeps its place in each file, so that asking again reads only what is new.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from drumline.jobs.metrics.files import metric_files
from drumline.jobs.metrics.sent import point_files, points_of
from drumline.jobs.metrics.usage import QUANTITIES, usage_files
from drumline.jobs.metrics.written import MetricFile, Point, metric_file, run_of


@dataclasses.dataclass(frozen=True)
class MetricSeries:
    """One metric of a job.

    Attributes:
        steps: int64 (n,). Of what is sampled: whole seconds since the job's first sample.
        values: float64 (n,).
        times: float64 (n,), seconds since the epoch; NaN where the file does not say.
    """

    steps: np.ndarray
    values: np.ndarray
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float:
        """The newest value."""
        return float(self.values[-1])

    def after(self, count: int) -> MetricSeries:
        """Return all but the first so many points."""
        return MetricSeries(self.steps[count:], self.values[count:], self.times[count:])


class _GrowingFile:
    """Lines of a file that grows, is replaced at times, and may have a last line that is torn."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._offset = 0
        self.replaced = False

    def new_lines(self) -> list[bytes]:
        """The whole lines since the last call; all of them if the file is another one."""
        self.replaced = False
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._offset:
                self.replaced, self._inode, self._offset = True, found.st_ino, 0
            file.seek(self._offset)
            whole = file.read().rpartition(b"\n")[0]
            self._offset += len(whole) + 1 if whole else 0
            return whole.split(b"\n") if whole else []
        return []


class _Usage:
    def __init__(self, path: Path) -> None:
        self._file = _GrowingFile(path)
        self.samples: dict[str, list[tuple[float, float]]] = {}
        self.tasks: dict[int, str] = {}

    def read(self) -> None:
        lines = self._file.new_lines()
        if self._file.replaced:
            self.samples.clear()
        for line in lines:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                self.tasks |= {pid: task for task, pid in found.pop("pids", {}).items()}
                moment = found.pop("t", None)
                for task, values in found.items():
                    for quantity, value in zip(QUANTITIES, values, strict=True):
                        if value is not None:
                            name = f"{quantity}/{task}"
                            self.samples.setdefault(name, []).append((moment, float(value)))


class _SentPoints:
    """What a process on another machine has sent of its metric files."""

    def __init__(self, path: Path) -> None:
        self._file = _GrowingFile(path)
        self.points: dict[str, list[Point]] = {}

    def read(self) -> None:
        for line in self._file.new_lines():
            for name, points in points_of(line):
                self.points.setdefault(name, []).extend(points)


class MetricReader:
    """Reads the metrics of a job, again and again.

    Args:
        work: its working folder.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._usage: dict[Path, _Usage] = {}
        self._files: dict[str, MetricFile] = {}
        self._sent: dict[Path, _SentPoints] = {}

    def read(self, starts: Iterable[Path]) -> dict[str, MetricSeries]:
        """All metrics by their names, sorted.

        Args:
            starts: the folders of its starts, where samples of what it used are, and what was sent
                of metric files on other machines.
        """
        starts = list(starts)
        found: dict[str, list[Point]] = {}
        samples: dict[str, list[tuple[float, float]]] = {}
        tasks: dict[int, str] = {}
        for folder in starts:
            for path in usage_files(folder):
                usage = self._usage.setdefault(path, _Usage(path))
                usage.read()
                tasks |= usage.tasks
                for name, taken in usage.samples.items():
                    samples.setdefault(name, []).extend(taken)
        began = min((taken[0][0] for taken in samples.values()), default=0.0)
        for name, taken in samples.items():
            found[name] = [(int(moment - began), value, moment) for moment, value in taken]
        writers: dict[str, list[str]] = {}
        for name, writer, points in itertools.chain(self._written(tasks), self._sent_by(starts)):
            others = writers.setdefault(name, [])
            if writer not in others:
                others.append(writer)
            # Of several processes that write the same, all but the first are named.
            own = name if writer == others[0] else f"{name} ({writer or 'another'})"
            found.setdefault(own, []).extend(points)
        return {name: _series(found[name]) for name in sorted(found)}

    def _written(self, tasks: dict[int, str]) -> Iterator[tuple[str, str, list[Point]]]:
        """Each series of a file here: its name, who has written it, and its points."""
        for entry in metric_files(self._work):
            file = self._files.get(entry.path)
            if file is None:
                file = self._files[entry.path] = metric_file(Path(entry.path))
            with contextlib.suppress(OSError):  # removed since
                file.read()
            run = run_of(entry.path, self._work)
            for tag, points in file.points.items():
                yield f"{run}/{tag}" if run else tag, tasks.get(file.pid, ""), points

    def _sent_by(self, starts: Iterable[Path]) -> Iterator[tuple[str, str, list[Point]]]:
        for folder in starts:
            for path, writer in point_files(folder):
                sent = self._sent.setdefault(path, _SentPoints(path))
                sent.read()
                for name, points in sent.points.items():
                    yield name, writer, points


def _series(points: list[Point]) -> MetricSeries:
    table = np.asarray(points, np.float64).reshape(-1, 3)
    times = table[:, 2]
    if not np.isnan(times).any():
        table = table[np.argsort(times, kind="stable")]
    return MetricSeries(table[:, 0].astype(np.int64), table[:, 1], table[:, 2])
