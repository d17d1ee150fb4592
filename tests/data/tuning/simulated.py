"""A pipeline of stations on simulated cores and a simulated clock."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence

from drumline.data.engine.tuning import Controller, StageSample


@dataclasses.dataclass
class Work:
    """A station: seconds that an element waits and computes, as functions of the time."""

    cpu: Callable[[float], float]
    wait: Callable[[float], float] = lambda now: 0.0
    width: int = 1
    most: int = 1
    nbytes: int = 0
    one_at_a_time: bool = False


class Pipeline:
    """Runs elements through stations in order; each keeps up to two results a worker.

    An element waits, then computes on one of ``cores`` processors, which are given to who came
    first. ``one_at_a_time`` stations share a lock while they compute, as Python functions do.
    """

    def __init__(self, stations: Sequence[Work], cores: int):
        self.stations = list(stations)
        self.now = 0.0
        self.delivered = 0
        self.busy = [0.0] * len(stations)
        self.computed = [0.0] * len(stations)
        self._free = cores
        self._locked = False
        self._queue: deque[tuple[int, int, float]] = deque()
        self._events: list[tuple[float, int, str, int, int, float]] = []
        self._order = itertools.count()
        self._started = [0] * len(stations)
        self._running = [0] * len(stations)
        self._finished: list[set[int]] = [set() for _ in stations]
        self._ready = [0] * len(stations)

    def run(self, until: float) -> None:
        """Lets the time pass."""
        self._start_all()
        while self._events and self._events[0][0] <= until:
            self.now, _, kind, station, element, begun = heapq.heappop(self._events)
            if kind == "compute":
                self._queue.append((station, element, begun))
            else:
                self._finish(station, element, begun)
            self._compute()
            self._start_all()
        self.now = until

    def _start_all(self) -> None:
        for station in reversed(range(len(self.stations))):
            while self._may_start(station):
                element = self._started[station]
                self._started[station] += 1
                self._running[station] += 1
                wait = self.stations[station].wait(self.now)
                self._at(self.now + wait, "compute", station, element, self.now)

    def _may_start(self, i: int) -> bool:
        after = self._started[i + 1] if i + 1 < len(self.stations) else self._ready[i]
        return (
            self._running[i] < self.stations[i].width
            and (i == 0 or self._started[i] < self._ready[i - 1])
            and self._started[i] - after < 2 * self.stations[i].width
        )

    def _at(self, when: float, kind: str, station: int, element: int, begun: float) -> None:
        entry = (when, next(self._order), kind, station, element, begun)
        heapq.heappush(self._events, entry)

    def _compute(self) -> None:
        for _ in range(len(self._queue)):
            station, element, begun = self._queue.popleft()
            held = self.stations[station].one_at_a_time
            if not self._free or (held and self._locked):
                self._queue.append((station, element, begun))
                continue
            self._free -= 1
            self._locked = self._locked or held
            cpu = self.stations[station].cpu(self.now)
            self.computed[station] += cpu
            self._at(self.now + cpu, "finish", station, element, begun)

    def _finish(self, station: int, element: int, begun: float) -> None:
        self._free += 1
        if self.stations[station].one_at_a_time:
            self._locked = False
        self._running[station] -= 1
        self.busy[station] += self.now - begun
        self._finished[station].add(element)
        while self._ready[station] in self._finished[station]:
            self._finished[station].remove(self._ready[station])
            self._ready[station] += 1
        self.delivered = self._ready[-1]


def steady_rate(pipeline: Pipeline, seconds: float) -> float:
    """Elements a second over the last three quarters of so many seconds."""
    start = pipeline.now
    pipeline.run(start + seconds / 4)
    before = pipeline.delivered
    pipeline.run(start + seconds)
    return (pipeline.delivered - before) / (0.75 * seconds)


def tune(pipeline: Pipeline, controller: Controller, until: float, window: float = 0.1) -> None:
    """Lets the controller decide after each window."""
    while pipeline.now < until:
        busy, computed = list(pipeline.busy), list(pipeline.computed)
        delivered, start = pipeline.delivered, pipeline.now
        while pipeline.delivered == delivered:
            pipeline.run(pipeline.now + window)
        samples = [
            StageSample(
                i,
                pipeline.busy[i] - busy[i],
                pipeline.computed[i] - computed[i],
                station.width,
                station.most,
                station.nbytes,
            )
            for i, station in enumerate(pipeline.stations)
        ]
        elements = pipeline.delivered - delivered
        for i, width in controller.decide(samples, elements, pipeline.now - start).items():
            assert isinstance(i, int)
            pipeline.stations[i].width = width


def best_static(
    make: Callable[[], list[Work]],
    cores: int,
    allowed: Callable[[list[Work]], bool],
    seconds: float,
) -> float:
    """The most elements a second that any setting found by search gives."""
    tunable = [i for i, station in enumerate(make()) if station.most > 1]
    choices = [
        [n for n in (1, 2, 3, 4, 6, 8, 16, 24, 32, 48, 64) if n <= make()[i].most] for i in tunable
    ]
    best = 0.0
    for widths in itertools.product(*choices):
        stations = make()
        for i, width in zip(tunable, widths, strict=True):
            stations[i].width = width
        if allowed(stations):
            best = max(best, steady_rate(Pipeline(stations, cores), seconds))
    return best
