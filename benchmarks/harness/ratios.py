"""Ratios between contenders that ran side by side.

The machine's speed drifts from minute to minute, so two contenders are compared within a
round, where they ran in turn; the ratio reported is the median over the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.measurement import Measurement


@dataclass(frozen=True)
class Spread:
    """Least, middle and greatest of a series."""

    low: float
    median: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The spread of a series that is not empty."""
    if not values:
        raise ValueError("no values to take the spread of")
    return Spread(min(values), statistics.median(values), max(values))


def speeds(runs: Sequence[Measurement | None], metric: str) -> Spread | None:
    """The spread of a contender's speeds over the rounds it finished, if any."""
    finished = [run.speed(metric) for run in runs if run is not None]
    return spread(finished) if finished else None


def ratio(
    ours: Sequence[Measurement | None], theirs: Sequence[Measurement | None], metric: str
) -> Spread | None:
    """The spread of our speed over theirs, each ratio taken within one round.

    Rounds in which either side is missing do not count; ``None`` if no round is left.
    """
    pairs = [
        a.speed(metric) / b.speed(metric)
        for a, b in zip(ours, theirs, strict=True)
        if a is not None and b is not None
    ]
    return spread(pairs) if pairs else None
