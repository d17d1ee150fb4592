"""Which stage of a running pipeline its consumer waits for, for step profiles."""

from __future__ import annotations

import weakref
from collections import defaultdict

from drumline.data.engine.tuning import Placed, placed
from drumline.data.operations.map import Map
from drumline.data.plan.node import Node, Trail
from drumline.data.runtime.meter import Counts, Meter
from drumline.data.runtime.stage import Stage

_MOST_NAMES = 3


class ObservedPipeline:
    """The stages of one iterator, whose meters outlive them.

    Args:
        root: the stage that the iterator pulls.
        plan: what it was lowered from.
    """

    def __init__(self, root: Stage, plan: Node) -> None:
        self._plan = plan
        self._stages = [_ObservedStage(each) for each in placed(root)]
        self._root = weakref.ref(root)

    @property
    def ended(self) -> bool:
        """Whether the iterator is gone, so that the next report is the last."""
        return self._root() is None

    def busiest(self) -> tuple[str, float]:
        """The name of the stage that limited the others since the last call, and how busy it was.

        That is the stage that worked most in the busiest thread, or in the busiest group of
        workers, counted per worker.

        Returns:
            The name, such as ``"map parse"``, and seconds; an empty name if nothing was done.
        """
        threads: dict[int, list[tuple[float, _ObservedStage]]] = defaultdict(list)
        stations: list[list[tuple[float, _ObservedStage]]] = []
        for stage in self._stages:
            counts, workers = stage.take()
            if workers:
                stations.append([(counts.work_seconds / workers, stage)])
            elif not stage.threaded:
                threads[stage.section].append((counts.seconds, stage))
        stations += threads.values()
        station = max(stations, key=lambda each: sum(s for s, _ in each), default=[])
        seconds = sum(s for s, _ in station)
        if not seconds:
            return "", 0.0
        return max(station, key=lambda each: each[0])[1].name(self._plan), seconds


class _ObservedStage:
    def __init__(self, found: Placed) -> None:
        meter = found.stage.meter
        assert isinstance(meter, Meter)
        self._meter = meter
        self._stage = weakref.ref(found.stage)
        self._before = Counts()
        self._workers = found.stage.workers
        self._walks = found.stage.describe().startswith("walk")
        self.section = found.section
        self.threaded = found.stage.threaded

    def take(self) -> tuple[Counts, int]:
        """What it did since the last call, and how many workers it has."""
        stage = self._stage()
        if stage is not None:
            self._workers = stage.workers
        now = self._meter.snapshot()
        since, self._before = now.since(self._before), now
        return since, self._workers

    def name(self, plan: Node) -> str:
        """The operation with its function's name, or the title that the user gave it."""
        node = _node_at(plan, self._meter.trail)
        if node is None or node.name != self._meter.name:
            return self._meter.name
        names = [_name(node)]
        if self._walks:  # it computes the maps below it as well
            while len(node.inputs) == 1:
                node = node.inputs[0]
                if isinstance(node, Map):
                    names.append(_name(node).removeprefix("map "))
        shown = " and ".join(names[:_MOST_NAMES])
        return shown + (" and others" if len(names) > _MOST_NAMES else "")


def _name(node: Node) -> str:
    if node.title is not None:
        return node.title
    label = getattr(node, "label", "")
    return f"{node.name} {label.partition(' (')[0]}".strip()


def _node_at(plan: Node, trail: Trail) -> Node | None:
    for number in trail:
        if number >= len(plan.inputs):
            return None
        plan = plan.inputs[number]
    return plan
