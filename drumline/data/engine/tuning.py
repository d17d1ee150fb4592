"""Automatic tuning: from measured service times to threads and buffers of running stages.

The model and the controller know no clock and no threads; `Tuner` measures and applies.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence

from drumline.data.runtime.meter import Clock, Counts, Meter, SampledMeter
from drumline.data.runtime.stage import Stage

_CLOSE = 1e-6
_BUSY = 0.95
_SPARE = 2.0


@dataclasses.dataclass(frozen=True)
class StageCost:
    """The cost of an element in one station: a stage or thread that runs beside the others.

    Costs are per element that leaves the pipeline, so that a station before a batch of 64 has the
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
    """The resources of all stations together.

    Attributes:
        cores: how many processors.
        nbytes: memory of the workers' blocks.
        strict: whether the machine has more cores than these, so that excess workers would exceed
            the budget. Otherwise excess threads only wait for one another.
    """

    cores: float
    nbytes: float = float("inf")
    strict: bool = False


def rate(stations: Sequence[StageCost], widths: Sequence[int], cores: float) -> float:
    """Return the throughput, in elements a second, for the numbers of workers in ``widths``."""
    slowest = min(_capacity(s, width) for s, width in zip(stations, widths, strict=True))
    return min(slowest, _at_most(stations, cores))


def affordable(stations: Sequence[StageCost], widths: Sequence[int], budget: Budget) -> bool:
    """Return whether the numbers of workers in ``widths`` keep to the budget."""
    held = sum(s.nbytes * width for s, width in zip(stations, widths, strict=True))
    if held > budget.nbytes:
        return False
    busy = rate(stations, widths, float("inf")) * sum(s.cpu for s in stations)
    return not budget.strict or busy <= budget.cores * (1 + _CLOSE)


def widths_for(stations: Sequence[StageCost], budget: Budget) -> list[int]:
    """Return the fewest workers with the highest throughput that the budget allows.

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


def with_spare(stations: Sequence[StageCost], fewest: Sequence[int], budget: Budget) -> list[int]:
    """Return enough workers that a station rarely has tasks while all its workers wait.

    What they wait for (a disk, a server) does not take equally long each time. ``r`` of them are
    occupied on average; of ``r + 2 sqrt(r)`` nearly always one is free (Halfin and Whitt 1981,
    "Heavy-Traffic Limits for Queues with Many Exponential Servers"). A
    station that computes for more than half of the time gets none, and no station more than the
    budget allows.
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


def _trimmed(stations: Sequence[StageCost], widths: list[int], budget: Budget) -> list[int]:
    reached = rate(stations, widths, budget.cores) * (1 - _CLOSE)
    fewest = [
        next(n for n in range(1, width + 1) if n == width or _capacity(station, n) >= reached)
        for station, width in zip(stations, widths, strict=True)
    ]
    return fewest


def _capacity(station: StageCost, width: int) -> float:
    return width / station.work if station.work > 0 else float("inf")


def _at_most(stations: Sequence[StageCost], cores: float) -> float:
    cpu = sum(station.cpu for station in stations)
    return cores / cpu if cpu > 0 else float("inf")


_WINDOWS = 5
_CHANGED = 1.4
_GAIN = 0.05
_HOLD = 40
_PATIENCE = 10


@dataclasses.dataclass(frozen=True)
class StageSample:
    """The measurements of a station in one window.

    Attributes:
        key: which station it is.
        work: seconds of work, summed over workers.
        cpu: how many of them it computed.
        width: how many workers it had.
        most: how many it may have; a station that cannot change has as many as ``width``.
        nbytes: memory that each worker takes.
    """

    key: Hashable
    work: float
    cpu: float
    width: int = 1
    most: int = 1
    nbytes: int = 0


@dataclasses.dataclass(frozen=True)
class Cap:
    """A limit: more workers than ``width`` did not help, and are not tried for some windows."""

    width: int
    windows: int = _HOLD


class _History:
    """The cost of an element in a station, over the last windows."""

    def __init__(self) -> None:
        self._costs: deque[tuple[float, float, int]] = deque(maxlen=_WINDOWS)
        self._needed: deque[int] = deque(maxlen=_PATIENCE)
        self.cap: Cap | None = None

    def add(self, work: float, cpu: float, width: int) -> bool:
        """Record a window; return whether the load has changed since the one before."""
        # The window after a change of width still has tasks that began before it.
        recent = list(self._costs)[-2:]
        steady = bool(recent) and all(entry[2] == width for entry in recent)
        changed = steady and _differs(work, recent[-1][0])
        if changed:
            self._costs.clear()
            self.cap = None
        self._costs.append((work, cpu, width))
        if self.cap is not None:
            windows = self.cap.windows - 1
            self.cap = Cap(self.cap.width, windows) if windows > 0 else None
        return changed

    def lately_needed(self, width: int) -> int | None:
        """Return the most workers that any of the last windows needed, this one ``width``.

        ``None`` before there were enough of them.
        """
        self._needed.append(width)
        return max(self._needed) if len(self._needed) == _PATIENCE else None

    @property
    def cpu(self) -> float:
        return self._costs[-1][1]

    @property
    def work(self) -> float:
        """Seconds without waiting for a processor, estimated by the window with the least wait."""
        return self.cpu + min(max(0.0, work - cpu) for work, cpu, _ in self._costs)


class Controller:
    """Decides after each window how many workers each station gets in the next.

    The decision is the model's, for what was measured. Where more workers did not give more
    elements (functions that hold Python's lock, say), they are taken back.
    """

    def __init__(self, budget: Budget):
        self.budget = budget
        self._histories: dict[Hashable, _History] = {}
        self._tried: tuple[float, Mapping[Hashable, int]] | None = None

    def decide(
        self, samples: Sequence[StageSample], elements: float, seconds: float
    ) -> dict[Hashable, int]:
        """Return the widths of stations that may change.

        Args:
            samples: of all stations; what they did in the window.
            elements: how many left the pipeline in it, more than none.
            seconds: how long it was.
        """
        changed = [self._note(sample, elements) for sample in samples]
        rate = elements / seconds
        undone = {} if any(changed) else self._undone(samples, rate)
        self._tried = None
        if undone:
            return undone
        stations = [self._station(sample) for sample in samples]
        fewest = widths_for(stations, self.budget)
        enough = with_spare(stations, fewest, self.budget)
        over = not affordable(stations, [sample.width for sample in samples], self.budget)
        wanted = {
            sample.key: self._next(sample, few, plenty, over)
            for sample, few, plenty in zip(samples, fewest, enough, strict=True)
            if sample.most > 1
        }
        before = {sample.key: sample.width for sample in samples}
        grown = {key: before[key] for key, width in wanted.items() if width > before[key]}
        self._tried = (rate, grown) if grown else None
        return wanted

    def hold(self, key: Hashable, cap: Cap | None) -> None:
        """Restore the cap of a station, found by an earlier iterator."""
        self._histories.setdefault(key, _History()).cap = cap

    def cap(self, key: Hashable) -> Cap | None:
        """Return the cap of a station that still holds."""
        return self._histories[key].cap if key in self._histories else None

    def _note(self, sample: StageSample, elements: float) -> bool:
        history = self._histories.setdefault(sample.key, _History())
        return history.add(sample.work / elements, sample.cpu / elements, sample.width)

    def _next(self, sample: StageSample, fewest: int, enough: int, over: bool) -> int:
        """Return how many workers a station gets, by the numbers of the model.

        The number grows only if it is below ``fewest``: time in which threads wait for one another
        is measured as work, so that spare workers would cause more spare workers.

        It is reduced at once only where the budget is exceeded. Excess workers only wait, while a
        load that returns, with the next epoch at the latest, would find too few.
        """
        needed = self._histories[sample.key].lately_needed(enough)
        if over or fewest > sample.width:
            return enough
        return sample.width if needed is None or needed > 0.8 * sample.width else needed

    def _undone(self, samples: Sequence[StageSample], rate: float) -> dict[Hashable, int]:
        """Return the widths before the last change, if that did not raise the throughput."""
        if self._tried is None:
            return {}
        before, grown = self._tried
        if rate >= before * (1 + _GAIN):
            return {}
        present = {sample.key for sample in samples}
        back = {key: width for key, width in grown.items() if key in present}
        for key, width in back.items():
            self._histories[key].cap = Cap(width)
        return back

    def _station(self, sample: StageSample) -> StageCost:
        history = self._histories[sample.key]
        if sample.most <= 1:
            return StageCost(history.work / sample.width, history.cpu)
        most = sample.most if history.cap is None else min(sample.most, history.cap.width)
        return StageCost(history.work, history.cpu, sample.nbytes, most)


def _differs(now: float, before: float) -> bool:
    low, high = sorted((now, before))
    return high > _CHANGED * low


@dataclasses.dataclass(frozen=True)
class Placed:
    """A measured stage and its place among the others.

    Attributes:
        stage: the stage.
        depth: how many measured stages are above it.
        section: which thread pulls it: 0 for the consumer's, another for each prefetch.
    """

    stage: Stage
    depth: int
    section: int


def placed(root: Stage) -> list[Placed]:
    """Return the measured stages below ``root``, consumers before producers."""
    return list(_below(root, 0, 0, iter(range(1, 10_000))))


def _below(stage: Stage, depth: int, section: int, sections: Iterator[int]) -> Iterator[Placed]:
    if stage.meter is not None:
        yield Placed(stage, depth, section)
        depth += 1
    inner = next(sections) if stage.threaded else section
    for source in stage.inputs():
        yield from _below(source, depth, inner, sections)


_FIRST_WINDOW = 0.05
_LONGEST_WINDOW = 0.5


Operation = tuple[tuple[int, ...], str]
"""The position of an operation in a plan, and its name."""


@dataclasses.dataclass(frozen=True)
class TunedWidth:
    """The width that an earlier iterator found for an operation.

    Attributes:
        width: how many workers it got.
        cap: the limit, if more workers did not help.
    """

    width: int
    cap: Cap | None = None


class Tuner:
    """Measures the stages of one iterator in windows, and sets what was given as ``AUTOTUNE``.

    Args:
        budget: of all stages together.
        clock: seconds.
        decisions: receives a line for each change.
        found: receives the widths, for later iterators.
    """

    def __init__(
        self,
        budget: Budget,
        clock: Clock,
        decisions: list[str],
        found: dict[Operation, TunedWidth],
    ):
        self._controller = Controller(budget)
        self._clock = clock
        self._decisions = decisions
        self._found = found
        self._started = self._opened = clock()
        self._window = _FIRST_WINDOW
        self._before: dict[int, Counts] = {}
        self._resumed = False
        self._elements = 0

    def resume(self, root: Stage) -> None:
        """Set the numbers of workers to those that an earlier iterator found."""
        for item in placed(root):
            stage = item.stage
            found = None if stage.meter is None else self._found.get(_operation(stage.meter))
            if found is not None and stage.pool is not None and stage.pool.automatic:
                stage.pool.width = found.width
                self._resumed = True
                self._controller.hold(id(stage.meter), found.cap)

    def tick(self, root: Stage) -> None:
        """Decide, if the window is over; called by the thread that pulls from ``root``."""
        now = self._clock()
        if now - self._opened < self._window:
            return
        stages = placed(root)
        counts = {id(p.stage.meter): p.stage.meter.snapshot() for p in stages if p.stage.meter}
        zero = Counts()
        changes = [
            counts[id(p.stage.meter)].since(self._before.get(id(p.stage.meter), zero))
            for p in stages
        ]
        elements = changes[0].elements
        if not elements:
            return
        if self._before:
            self._elements += elements
            # While many workers begin at once, each waits longer than it will.
            if not self._resumed:
                self._decide(stages, changes, elements, now - self._opened)
            self._resumed = False
        for item, change in zip(stages, changes, strict=True):
            if isinstance(item.stage.meter, SampledMeter):
                item.stage.meter.aim(change.tasks)
        self._before, self._opened = counts, now
        self._window = min(1.5 * self._window, _LONGEST_WINDOW)

    def _decide(
        self, stages: Sequence[Placed], changes: Sequence[Counts], elements: int, seconds: float
    ) -> None:
        samples = [*_threads(stages, changes, seconds), *_workers(stages, changes)]
        wanted = self._controller.decide(samples, elements, seconds)
        for item in stages:
            meter, pool = item.stage.meter, item.stage.pool
            if meter is None or pool is None or not pool.automatic:
                continue
            width = wanted.get(id(meter), pool.width)
            if width != pool.width:
                self._say(item.stage, f"{pool.width} -> {width} workers")
                pool.width = width
            self._found[_operation(meter)] = TunedWidth(width, self._controller.cap(id(meter)))

    def _say(self, stage: Stage, change: str) -> None:
        assert stage.meter is not None
        seconds = self._clock() - self._started
        self._decisions.append(
            f"after {self._elements} elements ({seconds:.2f} s), {stage.meter.name}: {change}"
        )


def _operation(meter: Meter) -> Operation:
    return meter.trail, meter.name


def _threads(
    stages: Sequence[Placed], changes: Sequence[Counts], seconds: float
) -> Iterator[StageSample]:
    """Yield a sample for the consumer's thread and for that of each prefetch."""
    pairs = list(zip(stages, changes, strict=True))
    for section, group in itertools.groupby(
        sorted(pairs, key=lambda pair: pair[0].section), key=lambda pair: pair[0].section
    ):
        inside = list(group)
        waited = sum(c.seconds for p, c in inside if p.stage.threaded or p.stage.workers)
        worked = sum(c.seconds for p, c in inside) - waited
        if section == 0:
            worked = max(0.0, seconds - waited)
        cpu = min(worked, sum(c.outer_cpu_seconds for _, c in inside))
        yield StageSample(("thread", section), worked, cpu)


def _workers(stages: Sequence[Placed], changes: Sequence[Counts]) -> Iterator[StageSample]:
    """Yield a sample for each stage with workers."""
    for item, change in zip(stages, changes, strict=True):
        stage = item.stage
        if not stage.workers or not change.tasks:
            continue
        work = max(change.work_cpu_seconds, change.work_seconds - change.work_delay_seconds)
        cpu = change.work_cpu_seconds if stage.workers_may_wait else work
        nbytes = 2 * change.nbytes // max(1, change.tasks)
        most = stage.pool.most if stage.pool is not None and stage.pool.automatic else 1
        yield StageSample(id(stage.meter), work, cpu, stage.workers, most, nbytes)
