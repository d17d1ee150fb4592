"""Applies the controller's decisions to running stages."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from drumline.data.autotune.controller import Cap, Controller, Sample
from drumline.data.autotune.model import Budget
from drumline.data.execute.stage import Stage
from drumline.data.observe.meter import Clock, Counts, Meter
from drumline.data.observe.sampled_meter import SampledMeter
from drumline.data.observe.stations import Placed, placed

_FIRST_WINDOW = 0.05
_LONGEST_WINDOW = 0.5


Operation = tuple[tuple[int, ...], str]
"""Where in a plan an operation stands, and its name."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What was found for an operation.

    Attributes:
        width: how many workers it got.
        cap: with how many it is left since more had not helped, and for how many windows.
    """

    width: int
    cap: Cap | None = None


class Tuner:
    """Measures the stages of one iterator in windows and changes what was left to drumline.

    Args:
        budget: what all may use.
        clock: seconds.
        decisions: where to say what was changed.
        found: where to note, for iterators to come, what was found.
    """

    def __init__(
        self,
        budget: Budget,
        clock: Clock,
        decisions: list[str],
        found: dict[Operation, Found],
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
        """Gives the operations as many workers as an earlier iterator has found."""
        for item in placed(root):
            stage = item.stage
            found = None if stage.meter is None else self._found.get(_operation(stage.meter))
            if found is not None and stage.pool is not None and stage.pool.automatic:
                stage.pool.width = found.width
                self._resumed = True
                self._controller.hold(id(stage.meter), found.cap)

    def tick(self, root: Stage) -> None:
        """Decides if the window is over; called by who asks ``root`` for elements."""
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
            self._found[_operation(meter)] = Found(width, self._controller.cap(id(meter)))

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
) -> Iterator[Sample]:
    """A sample for the consumer's thread and for that of each prefetch."""
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
        yield Sample(("thread", section), worked, cpu)


def _workers(stages: Sequence[Placed], changes: Sequence[Counts]) -> Iterator[Sample]:
    """A sample for each stage with workers."""
    for item, change in zip(stages, changes, strict=True):
        stage = item.stage
        if not stage.workers or not change.tasks:
            continue
        work = max(change.work_cpu_seconds, change.work_seconds - change.work_delay_seconds)
        cpu = change.work_cpu_seconds if stage.workers_may_wait else work
        nbytes = 2 * change.nbytes // max(1, change.tasks)
        most = stage.pool.most if stage.pool is not None and stage.pool.automatic else 1
        yield Sample(id(stage.meter), work, cpu, stage.workers, most, nbytes)
