"""Measuring the stages of a dataset as they run."""

from __future__ import annotations

import functools
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drumline.data.observe.meter import Clock, Event, Meter
from drumline.data.observe.sampled_meter import SampledMeter

if TYPE_CHECKING:
    from drumline.data.execute.stage import Stage

MOST_EVENTS = 200_000


class Observation:
    """A meter for each operation of a plan; stages that run the same operation share it.

    Args:
        traced: whether to keep single calls, the last ``MOST_EVENTS`` of them.
        clock: seconds.
        queues: whether to note how full queues are and how much memory is held, too, and to measure
            every task instead of a sample.
    """

    def __init__(self, traced: bool = False, clock: Clock = time.perf_counter, queues: bool = True):
        self.clock = clock
        self._queues = queues
        self.events: deque[Event] | None = deque(maxlen=MOST_EVENTS) if traced else None
        self.meters: dict[tuple[tuple[int, ...], str], Meter] = {}

    def meter(self, name: str, trail: tuple[int, ...]) -> Meter:
        """The meter of an operation, made when it is first asked for."""
        key = (trail, name)
        if key not in self.meters:
            kind = Meter if self._queues else SampledMeter
            self.meters[key] = kind(name, trail, self.clock, self.events)
        return self.meters[key]

    def after(self, stage: Stage, heard: Callable[[Stage], None]) -> None:
        """Calls ``heard(stage)`` after each call of the watched stage's ``next``."""
        held, pull = weakref.ref(stage), _pulled(stage)

        def next_(limit: int) -> object:
            block = pull(limit)
            running = held()
            assert running is not None
            heard(running)
            return block

        stage.next = next_  # type: ignore[method-assign, assignment]

    def watch(self, stage: Stage, name: str, trail: tuple[int, ...]) -> Stage:
        """Has every call of ``stage.next`` measured.

        The stage itself is given back, with its ``next`` replaced: others look at what class it
        is. The replacement refers to it weakly, so that a dropped iterator still ends at once.
        """
        meter = self.meter(name, trail)
        stage.meter = meter
        held, pull = weakref.ref(stage), _pulled(stage)

        timed = functools.partial(meter.call, pull)

        def next_(limit: int) -> object:
            running = held()
            assert running is not None
            queue = running.queue()
            if queue is not None:
                meter.queue(*queue)
            meter.hold(running.held_nbytes())
            block = timed(limit)
            meter.hold(running.held_nbytes())
            return block

        stage.next = next_ if self._queues else timed  # type: ignore[method-assign, assignment]
        return stage


def _pulled(stage: Stage) -> Callable[[int], Any]:
    """The stage's ``next`` as it is now, which does not keep the stage alive."""
    if "next" in vars(stage):
        return stage.next
    held, method = weakref.ref(stage), type(stage).next

    def pull(limit: int) -> Any:
        running = held()
        assert running is not None
        return method(running, limit)

    return pull
