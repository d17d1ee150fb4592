"""From meters to a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data.engine.iterator import DatasetIterator
from drumline.data.engine.observe.profile import Profile, ProfiledWorker, StageProfile
from drumline.data.engine.tuning import Placed, placed
from drumline.data.runtime.meter import Counts, Meter, Observation
from drumline.data.runtime.stage import Stage


def run_profile(
    iterator: DatasetIterator[Any],
    started: float,
    observation: Observation,
    elements: int | None,
    seconds: float | None,
    decisions: Sequence[str],
) -> Profile:
    """Takes elements until there are ``elements`` or ``seconds`` have passed, and reports."""
    clock = observation.clock
    found = int(_step(iterator))
    first = clock()
    before = {id(m): m.snapshot() for m in observation.meters.values()}
    while found and (elements is None or found < elements):
        if (seconds is not None and clock() - started >= seconds) or not _step(iterator):
            break
        found += 1
    ended = clock()
    stages = placed(iterator.stage)
    alone = all(_since(p.stage, before).elements == 0 for p in stages)
    if alone:
        before, measured, span = {}, found, ended - started
    else:
        measured, span = found - 1, ended - first
    report = _ProfileReport(stages, before, span)
    iterator.close()
    return Profile(
        elements=measured,
        seconds=span,
        delivered=found,
        first_element_seconds=first - started,
        stages=report.stages,
        stations=report.stations,
        bottleneck=report.bottleneck(),
        conclusive=alone or _worked_meanwhile(stages, before),
        decisions=list(decisions),
        events=list(observation.events or ()),
    )


def _step(iterator: DatasetIterator[Any]) -> bool:
    """Whether there was another element."""
    return next(iterator, iterator) is not iterator


def _since(stage: Stage, before: dict[int, Counts]) -> Counts:
    meter = stage.meter
    assert isinstance(meter, Meter)
    return meter.snapshot().since(before.get(id(meter), Counts()))


def _worked_meanwhile(found: Sequence[Placed], before: dict[int, Counts]) -> bool:
    """Whether in each thread some stage made most of its elements while was counted."""
    most: dict[int, float] = {}
    for item in found:
        meter = item.stage.meter
        assert isinstance(meter, Meter)
        total = meter.snapshot().elements
        share = _since(item.stage, before).elements / total if total else 1.0
        most[item.section] = max(most.get(item.section, 0.0), share)
    return min(most.values(), default=1.0) > 0.5


class _ProfileReport:
    def __init__(self, found: Sequence[Placed], before: dict[int, Counts], span: float):
        self._span = max(span, 1e-9)
        self._counts = [_since(item.stage, before) for item in found]
        self.stations: list[ProfiledWorker] = []
        self._of: list[int] = [0] * len(found)
        sections = sorted({item.section for item in found})
        for section in sections:
            self._add_section(section, found)
        self._add_workers(found)
        self.stages = [self._iterator(), *map(self._stage, range(len(found)), found)]

    def _add_section(self, section: int, found: Sequence[Placed]) -> None:
        inside = [i for i, item in enumerate(found) if item.section == section]
        for i in inside:
            self._of[i] = len(self.stations)
        waited = sum(self._counts[i].seconds for i in inside if _ahead(found[i].stage))
        worked = sum(self._counts[i].seconds for i in inside) - waited
        if section == 0:
            worked = max(0.0, self._span - waited)
            self._consumer = max(0.0, self._span - sum(self._counts[i].seconds for i in inside))
        name = "the consumer's thread" if section == 0 else f"prefetch thread {section}"
        self.stations.append(ProfiledWorker(name, worked, 1, min(1.0, worked / self._span)))

    def _add_workers(self, found: Sequence[Placed]) -> None:
        for i, item in enumerate(found):
            if item.stage.workers:
                busy, workers = self._counts[i].work_seconds, item.stage.workers
                self._of[i] = len(self.stations)
                share = min(1.0, busy / self._span / workers)
                self.stations.append(ProfiledWorker(f"{workers} workers", busy, workers, share))

    def _iterator(self) -> StageProfile:
        how = "elements taken from blocks, and the consumer's own time"
        return StageProfile("iterator", how, 0, 0, Counts(), self._consumer, 0.0, 0, None, None, 0)

    def _stage(self, i: int, item: Placed) -> StageProfile:
        counts, stage = self._counts[i], item.stage
        ahead = _ahead(stage)
        busy = counts.work_seconds if ahead else counts.seconds
        fill = None if stage.queue() is None else counts.queue_fill / max(1, counts.calls)
        assert stage.meter is not None
        return StageProfile(
            stage.meter.name,
            stage.describe(),
            item.depth + 1,
            self._of[i],
            counts,
            busy,
            counts.seconds if ahead else 0.0,
            stage.workers,
            fill,
            stage.meter.held_nbytes,
            stage.most_nbytes(),
        )

    def bottleneck(self) -> StageProfile:
        """The busiest stage of the busiest station."""
        busiest = max(range(len(self.stations)), key=lambda i: self.stations[i].utilization)
        return max((s for s in self.stages if s.station == busiest), key=lambda s: s.busy)


def _ahead(stage: Stage) -> bool:
    """Whether the time in its ``next`` is spent waiting for others who work for it."""
    return stage.threaded or stage.workers > 0
