"""How many workers each part of a pipeline should have: a calculation, without clock or threads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

_CLOSE = 1e-6
_BUSY = 0.95
_SPARE = 2.0


@dataclasses.dataclass(frozen=True)
class Station:
    """Something that works at the same time as the rest, and what an element costs it.

    All is per element that leaves the pipeline, so that a station before a batch of 64 has the
    cost of its 64 elements.

    Attributes:
        work: seconds for which one worker is occupied.
        cpu: how many of them it computes; in the others it waits, for a disk perhaps.
        nbytes: memory that each further worker takes.
        most: the most workers it may have; 1 for the thread of a prefetch and for the consumer.
    """

    work: float
    cpu: float
    nbytes: int = 0
    most: int = 1


@dataclasses.dataclass(frozen=True)
class Budget:
    """What all stations together may use.

    Attributes:
        cores: how many processors.
        nbytes: memory of the workers' blocks.
        strict: whether there are more cores than these, so that only fewer workers keep to it.
            Otherwise threads that are one too many only wait for one another.
    """

    cores: float
    nbytes: float = float("inf")
    strict: bool = False


def rate(stations: Sequence[Station], widths: Sequence[int], cores: float) -> float:
    """Elements a second that the pipeline gives with so many workers at each station."""
    slowest = min(_capacity(s, width) for s, width in zip(stations, widths, strict=True))
    return min(slowest, _at_most(stations, cores))


def affordable(stations: Sequence[Station], widths: Sequence[int], budget: Budget) -> bool:
    """Whether so many workers keep to the budget."""
    held = sum(s.nbytes * width for s, width in zip(stations, widths, strict=True))
    if held > budget.nbytes:
        return False
    busy = rate(stations, widths, float("inf")) * sum(s.cpu for s in stations)
    return not budget.strict or busy <= budget.cores * (1 + _CLOSE)


def widths_for(stations: Sequence[Station], budget: Budget) -> list[int]:
    """The fewest workers with which the pipeline gives as much as the budget allows.

    The slowest station gets another worker until it cannot have one, until the processors are
    busy, or until another would exceed the budget; what did not help is taken back. Processors
    are busy at 95 %: the worker that could give the rest takes more than that in caches and locks
    (of numpy that computes for 1 ms on two cores, a third thread costs a tenth).
    """
    widths = [1] * len(stations)
    busy = _at_most(stations, budget.cores) * _BUSY
    while True:
        slowest = min(range(len(stations)), key=lambda i: _capacity(stations[i], widths[i]))
        reached = _capacity(stations[slowest], widths[slowest])
        if reached >= busy or widths[slowest] >= stations[slowest].most:
            break
        wider = list(widths)
        wider[slowest] += 1
        if not affordable(stations, wider, budget):
            break
        widths = wider
    return _trimmed(stations, widths, budget)


def with_spare(stations: Sequence[Station], fewest: Sequence[int], budget: Budget) -> list[int]:
    """As many that it is rare for all workers of a station to wait while it has work.

    What they wait for (a disk, a server) does not take equally long each time. ``r`` of them are
    occupied on average; of ``r + 2 sqrt(r)`` nearly always one is free (Halfin and Whitt 1981,
    "Heavy-Traffic Limits for Queues with Many Exponential Servers"). Who computes for half of the
    time gets none. Nobody gets more than the budget allows.
    """
    widths, reached = list(fewest), rate(stations, fewest, budget.cores)
    for i, station in enumerate(stations):
        if not station.work or station.work < 2 * station.cpu:
            continue
        occupied = reached * station.work
        wanted = math.ceil(occupied + _SPARE * math.sqrt(occupied))
        while widths[i] < min(wanted, station.most):
            wider = [*widths[:i], widths[i] + 1, *widths[i + 1 :]]
            if not affordable(stations, wider, budget):
                break
            widths = wider
    return widths


def _trimmed(stations: Sequence[Station], widths: list[int], budget: Budget) -> list[int]:
    reached = rate(stations, widths, budget.cores) * (1 - _CLOSE)
    fewest = [
        next(n for n in range(1, width + 1) if n == width or _capacity(station, n) >= reached)
        for station, width in zip(stations, widths, strict=True)
    ]
    return fewest


def _capacity(station: Station, width: int) -> float:
    return width / station.work if station.work > 0 else float("inf")


def _at_most(stations: Sequence[Station], cores: float) -> float:
    cpu = sum(station.cpu for station in stations)
    return cores / cpu if cpu > 0 else float("inf")
