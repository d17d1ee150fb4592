"""Floors: the least speed asked of drumline, relative to a peer or absolute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OURS = "drumline"


@dataclass(frozen=True)
class Floor:
    """A speed that drumline must reach.

    Attributes:
        metric: ``first``, ``later`` or ``first_batch``, as in ``Measurement.speed``.
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
