"""The metrics of a job as JSON, thinned for a page, and the way back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from drumline.jobs.metrics.series import MetricSeries
from drumline.jobs.metrics.usage import QUANTITIES

_SAMPLED = re.compile(rf"({'|'.join(QUANTITIES)})/([a-z]+:\d+)")


def metrics(series: Mapping[str, MetricSeries], points: int) -> dict[str, Any]:
    """What a job has reported, and what its processes use.

    Args:
        series: by their names, as `JobHandle.metrics` has them.
        points: of each at most so many; 0 for all.
    """
    reported: dict[str, Any] = {}
    usage: dict[str, dict[str, Any]] = {}
    for name, each in series.items():
        chosen = _thinned(each.values, points)
        table = {
            "step": each.steps[chosen].tolist(),
            "time": _numbers(each.times[chosen]),
            "value": _numbers(each.values[chosen]),
        }
        if sampled := _SAMPLED.fullmatch(name):
            usage.setdefault(sampled[2], {})[sampled[1]] = table
        else:
            reported[name] = table
    return {"series": reported, "usage": usage}


def series_of(document: Mapping[str, Any]) -> dict[str, MetricSeries]:
    """The metrics of which `metrics` has made a document."""
    found = dict(document["series"])
    for process, quantities in document["usage"].items():
        found |= {f"{quantity}/{process}": table for quantity, table in quantities.items()}
    return {
        name: MetricSeries(
            np.asarray(found[name]["step"], np.int64),
            np.asarray(found[name]["value"], np.float64),
            np.asarray(found[name]["time"], np.float64),
        )
        for name in sorted(found)
    }


def _thinned(values: np.ndarray, points: int) -> np.ndarray:
    """Which values are shown: of each part of a long curve its lowest and its highest."""
    count = len(values)
    if not points or count <= points:
        return np.arange(count)
    edges = np.linspace(0, count, max(1, points // 2) + 1).astype(int)
    kept = {0, count - 1}
    for first, end in itertools.pairwise(edges):
        part = values[first:end]
        if np.isnan(part).all():
            kept.add(int(first))
        else:
            kept |= {int(first + np.nanargmin(part)), int(first + np.nanargmax(part))}
    return np.unique([*sorted(kept)[: points - 1], count - 1])


def _numbers(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON has them: those that are none, or infinite, are null."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
