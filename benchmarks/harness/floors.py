"""Floors, the least speed asked of drumline, and the ratios between contenders to judge them by.

The machine's speed drifts from minute to minute, so two contenders are compared within a
round, where they ran in turn; the ratio reported is the median over the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness.measurement import Measurement

OURS = "drumline"


@dataclass(frozen=True)
class Floor:
    """A speed that drumline must reach.

    Attributes:
        metric: ``first``, ``later`` or ``first_batch``, as in ``Measurement.speed``; or
            ``slowest``, that of the call among ``Measurement.parts`` with the least ratio.
        at_least: the least acceptable value; ``None`` where there is only an aim.
        aim: the value to aim at; ``None`` where there is only a floor.
        against: the contender the ratio is taken against; ``None`` compares drumline's own
            speed, in elements per second.
    """

    metric: str
    at_least: float | None = None
    aim: float | None = None
    against: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A floor beside what was measured; ``measured`` is ``None`` when a side did not run."""

    floor: Floor
    measured: float | None

    @property
    def outcome(self) -> str:
        """``pass``, ``miss``, ``reached`` or ``short`` (aims alone), or ``not measured``."""
        if self.measured is None:
            return "not measured"
        if self.floor.at_least is not None:
            return "pass" if self.measured >= self.floor.at_least else "miss"
        return "reached" if self.reached_aim else "short"

    @property
    def reached_aim(self) -> bool:
        """Whether the aim, if there is one, was reached."""
        return (
            self.measured is not None
            and self.floor.aim is not None
            and self.measured >= self.floor.aim
        )


def judge(
    floors: tuple[Floor, ...], ratios: Mapping[tuple[str, str], float], speeds: Mapping[str, float]
) -> list[Verdict]:
    """Each floor beside its measured value.

    Args:
        floors: a workload's floors.
        ratios: (metric, peer) to the ratio of drumline's speed to the peer's.
        speeds: metric to drumline's own speed.
    """
    return [
        Verdict(
            floor,
            speeds.get(floor.metric)
            if floor.against is None
            else ratios.get((floor.metric, floor.against)),
        )
        for floor in floors
    ]


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
    if metric == "slowest":
        parts = part_ratios(ours, theirs).values()
        return min(parts, key=lambda each: each.median, default=None)
    pairs = [
        a.speed(metric) / b.speed(metric)
        for a, b in zip(ours, theirs, strict=True)
        if a is not None and b is not None
    ]
    return spread(pairs) if pairs else None


def part_ratios(
    ours: Sequence[Measurement | None], theirs: Sequence[Measurement | None]
) -> dict[str, Spread]:
    """For each of the calls that both sides time, the spread of our speed over theirs."""
    pairs = [
        (a.parts, b.parts)
        for a, b in zip(ours, theirs, strict=True)
        if a is not None and b is not None
    ]
    names = [name for name in (pairs[0][0] if pairs else {}) if name in pairs[0][1]]
    return {name: spread([b[name] / a[name] for a, b in pairs]) for name in names}
