"""Prometheus's text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drumline.data.runtime.meter import BUCKETS, Counts, Meter

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
    """A metric of each kind, with a sample for each stage."""
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
