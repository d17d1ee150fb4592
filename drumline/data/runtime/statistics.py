"""Counters and histograms of stages for programs that watch: Prometheus and TensorBoard."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

import numpy as np

from drumline._event_files import SummaryFile
from drumline._event_messages import histogram_message, scalar_message
from drumline.data.runtime.meter import BUCKETS, Counts, Meter, Observation

_COUNTERS = {
    "calls": ("calls_total", "Blocks asked of a stage."),
    "elements": ("elements_total", "Elements a stage delivered."),
    "nbytes": ("bytes_total", "Bytes of the elements a stage delivered."),
    "seconds": ("seconds_total", "Seconds in a stage, without the stages it pulls from."),
    "work_seconds": ("work_seconds_total", "Seconds of work in a stage's own workers."),
    "work_cpu_seconds": (
        "work_cpu_seconds_total",
        "Processor seconds of a stage's workers, without threads of XLA and other libraries.",
    ),
    "queue_empty": ("queue_empty_total", "Calls that found a stage's queue empty."),
}
_PREFIX = "drumline_data_"


def as_prometheus(dataset: str, meters: Mapping[str, Meter]) -> str:
    """Return a metric of each kind, with a sample for each stage."""
    counts = {label: meter.snapshot() for label, meter in meters.items()}
    lines = [*_counters(dataset, counts), *_histograms(dataset, meters, counts)]
    return "\n".join(lines) + "\n"


def _counters(dataset: str, counts: Mapping[str, Counts]) -> Iterator[str]:
    for field, (name, text) in _COUNTERS.items():
        yield f"# HELP {_PREFIX}{name} {text}"
        yield f"# TYPE {_PREFIX}{name} counter"
        for label, values in counts.items():
            yield f"{_PREFIX}{name}{{{_labels(dataset, label)}}} {getattr(values, field)}"


def _histograms(
    dataset: str, meters: Mapping[str, Meter], counts: Mapping[str, Counts]
) -> Iterator[str]:
    name = f"{_PREFIX}call_seconds"
    yield f"# HELP {name} Duration of single calls, without the stages it pulls from."
    yield f"# TYPE {name} histogram"
    for label, meter in meters.items():
        labels, total = _labels(dataset, label), 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), list(meter.histogram), strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {counts[label].seconds}"
        yield f"{name}_count{{{labels}}} {total}"


def _labels(dataset: str, label: str) -> str:
    place, _, operation = label.partition(" ")
    return f'dataset="{_escaped(dataset)}",place="{place}",stage="{_escaped(operation)}"'


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@dataclasses.dataclass(frozen=True)
class Histogram:
    """How long a stage's calls took, without the stages it pulls from.

    Attributes:
        bounds: upper bounds of the buckets, in seconds, ascending; the last bucket has none.
        counts: calls in each bucket, one more than bounds.
        total: seconds of all calls.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class Statistics:
    """Measurements of the stages of datasets, over all epochs, readable while they run.

    Set one as ``Options.experimental_statistics``. Several datasets may share one if they are to
    be counted together. While ``None`` is set nothing is counted, which costs nothing.

    Args:
        name: of the dataset, in what is exported.
    """

    def __init__(self, name: str = "dataset"):
        self.name = name
        self.observation = Observation()

    def counters(self) -> Mapping[str, Counts]:
        """Return the counts of each stage, by its place and operation (such as ``"0.0 map"``)."""
        return {label: meter.snapshot() for label, meter in self._meters()}

    def histograms(self) -> Mapping[str, Histogram]:
        """Return the durations of the calls of each stage, by name as in ``counters``."""
        return {
            label: Histogram(BUCKETS, tuple(meter.histogram), meter.snapshot().seconds)
            for label, meter in self._meters()
        }

    def prometheus(self) -> str:
        """Return all of it in Prometheus's text format, to be served or written for a collector."""
        return as_prometheus(self.name, dict(self._meters()))

    def write_tensorboard(self, log_dir: str | os.PathLike[str], step: int) -> None:
        """Add all of it to TensorBoard's logs in ``log_dir`` as of ``step``."""
        write_events(self.name, dict(self._meters()), log_dir, step)

    def _meters(self) -> Iterator[tuple[str, Meter]]:
        for (trail, name), meter in sorted(self.observation.meters.items()):
            if meter.counts.calls:
                yield f"{'.'.join(map(str, trail)) or 'end'} {name}", meter

    def __repr__(self) -> str:
        return f"Statistics({self.name!r})"


def write_events(
    dataset: str, meters: Mapping[str, Meter], log_dir: str | os.PathLike[str], step: int
) -> None:
    """Write a scalar for each count of each stage, and the histogram of its calls."""
    file = SummaryFile(log_dir)
    for label, meter in meters.items():
        tag = f"{dataset}/{label.replace(' ', '_')}"
        for name, value in dataclasses.asdict(meter.snapshot()).items():
            file.add(scalar_message(f"{tag}/{name}", value), step)
        # The last bucket has no bound, which TensorBoard cannot draw: it is given the next power.
        edges = [0.0, *BUCKETS, BUCKETS[-1] * 2]
        buckets = np.stack([edges[:-1], edges[1:], list(meter.histogram)], 1)
        file.add(histogram_message(f"{tag}/call_seconds", buckets), step)
    file.close()
