"""Measurements of running stages: meters, complete or sampled at little cost."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from drumline._core import run_delay_seconds
from drumline.data.elements.block import nbytes_of

if TYPE_CHECKING:
    from drumline.data.runtime.stage import Stage

Clock = Callable[[], float]

BUCKETS = tuple(2.0**exponent for exponent in range(-20, 7))
"""Upper bounds, in seconds, of the histogram of calls: about a microsecond to a minute."""


@dataclasses.dataclass
class Counts:
    """Sums since a stage was made; the difference of two is what happened between them.

    Attributes:
        calls: how often blocks were asked for.
        elements: elements delivered; an error in an element's place counts as one.
        nbytes: bytes of these elements' leaves.
        seconds: in the stage itself, without the stages it pulls from. For a stage that makes
            elements ahead, this is how long its consumer waited.
        outer_cpu_seconds: processor time of the threads that called it from outside of all stages,
            in it and in the stages it pulls from; theirs alone, as in ``work_cpu_seconds``.
        work_seconds: in tasks that other threads or processes did for the stage, summed over them.
        work_cpu_seconds: processor time of these tasks, in the threads or processes that do them.
            What XLA's threads, those of the Rust core (long copies, decoding) or a library's own
            compute for them meanwhile is not in it.
        work_delay_seconds: for how long these threads waited for a processor.
        tasks: how many they were.
        queue_fill: sum over calls of how full the queue was, 0 to 1.
        queue_empty: how many calls found it empty.
    """

    calls: int = 0
    elements: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    outer_cpu_seconds: float = 0.0
    work_seconds: float = 0.0
    work_cpu_seconds: float = 0.0
    work_delay_seconds: float = 0.0
    tasks: int = 0
    queue_fill: float = 0.0
    queue_empty: int = 0

    def since(self, before: Self) -> Self:
        """Return what was added after ``before``."""
        fields = dataclasses.fields(self)
        changes = {f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields}
        return type(self)(**changes)


@dataclasses.dataclass(frozen=True)
class Event:
    """A call, for a trace: seconds of the clock, and the thread it ran in, by number and name."""

    name: str
    thread: tuple[int, str]
    start: float
    seconds: float
    elements: int


class _Frames(threading.local):
    """The measurements that a thread is in the middle of.

    Attributes:
        inner: for each meter that is running, the seconds spent in the stages it called.
        charged: processor seconds that others spent for the thread.
    """

    def __init__(self) -> None:
        self.inner: list[float] = []
        self.charged = 0.0


_frames = _Frames()


def charge_cpu(seconds: float) -> None:
    """Count processor time that another process spent for the task that this thread is in."""
    _frames.charged += seconds


class Meter:
    """Counts of one operation of a plan, over all the stages that it runs as.

    Args:
        name: the operation's.
        trail: its position in the plan.
        clock: seconds.
        events: where calls are noted one by one, ``None`` not to.

    Attributes:
        held_nbytes: the most bytes that a stage was seen to hold, ``None`` if unknown.
    """

    def __init__(
        self,
        name: str,
        trail: tuple[int, ...],
        clock: Clock = time.perf_counter,
        events: deque[Event] | None = None,
    ):
        self.name = name
        self.trail = trail
        self.counts = Counts()
        self.histogram = [0] * (len(BUCKETS) + 1)
        self.held_nbytes: int | None = None
        self._clock = clock
        self._events = events
        self._lock = threading.Lock()

    def call(self, pull: Callable[[int], Any], limit: int) -> Any:
        """Return ``pull(limit)``, which returns a block or ``None``, measured."""
        inner = _frames.inner
        cpu = time.thread_time() if not inner else None
        inner.append(0.0)
        block = None
        started = self._clock()
        try:
            block = pull(limit)
            return block
        finally:
            elapsed = self._clock() - started
            own = elapsed - inner.pop()
            counts = self.counts
            if cpu is None:
                inner[-1] += elapsed
            else:
                counts.outer_cpu_seconds += time.thread_time() - cpu
            counts.calls += 1
            counts.seconds += own
            if block is not None:
                counts.elements += block.events
                for column in block.columns:
                    counts.nbytes += nbytes_of(column)
            self._distribute(own)
            if self._events is not None:
                self._note(started, elapsed, 0 if block is None else block.events)

    def task(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return ``work(*args)``, done for the stage by another thread, measured."""
        started, delay = self._clock(), run_delay_seconds()
        cpu = time.thread_time() + _frames.charged
        try:
            return work(*args)
        finally:
            elapsed = self._clock() - started
            spent = time.thread_time() + _frames.charged - cpu
            with self._lock:
                self._done(elapsed, spent, run_delay_seconds() - delay)
            if self._events is not None:
                self._note(started, elapsed, 0)

    def _done(self, seconds: float, cpu_seconds: float, delay_seconds: float) -> None:
        counts = self.counts
        counts.work_seconds += seconds
        counts.work_cpu_seconds += cpu_seconds
        counts.work_delay_seconds += delay_seconds
        counts.tasks += 1

    def _distribute(self, seconds: float) -> None:
        self.histogram[bucket(seconds)] += 1

    def queue(self, filled: int, room: int) -> None:
        """Record how full the stage's queue was when it was asked."""
        self.counts.queue_fill += min(1.0, filled / max(1, room))
        self.counts.queue_empty += filled == 0

    def hold(self, nbytes: int | None) -> None:
        """Record how many bytes the stage holds at the moment."""
        if nbytes is not None:
            self.held_nbytes = max(nbytes, self.held_nbytes or 0)

    def _note(self, started: float, elapsed: float, elements: int) -> None:
        assert self._events is not None
        # Those of different pools may have the same name.
        thread = (threading.get_ident(), threading.current_thread().name)
        self._events.append(Event(self.name, thread, started, elapsed, elements))

    def snapshot(self) -> Counts:
        """Return the counts as they are now."""
        with self._lock:
            return dataclasses.replace(self.counts)


def bucket(seconds: float) -> int:
    """Return which bucket of ``BUCKETS`` a duration belongs to; the last one has no upper bound."""
    if seconds <= BUCKETS[0]:
        return 0
    mantissa, exponent = math.frexp(seconds)
    power = exponent - 1 if mantissa == 0.5 else exponent
    return min(len(BUCKETS), power + 20)


_MEASURED = 100
"""Tasks of a window that are measured, about: the mean of times that vary by their own length is
then known to a tenth."""

_draw = random.Random().random


class SampledMeter(Meter):
    """Measures a random sample of a stage's tasks, each weighted by those skipped before it.

    Measuring takes microseconds in which a task holds the GIL. Where many threads want the GIL,
    that costs the pipeline ten times as much. The sample is random, as every tenth task may be
    unlike the others.
    """

    _share = 1.0
    _unmeasured = 0

    def aim(self, tasks: int) -> None:
        """Set the share such that a window of ``tasks`` is known well enough."""
        self._share = min(1.0, _MEASURED / max(1, tasks))

    def task(self, work: Callable[..., Any], *args: Any) -> Any:
        if self._share < 1.0 and _draw() >= self._share:
            # Threads that lose a count to one another do no harm.
            self._unmeasured += 1
            return work(*args)
        return super().task(work, *args)

    def _done(self, seconds: float, cpu_seconds: float, delay_seconds: float) -> None:
        counts, weight = self.counts, 1 + self._unmeasured
        self._unmeasured = 0
        counts.work_seconds += weight * seconds
        counts.work_cpu_seconds += weight * cpu_seconds
        counts.work_delay_seconds += weight * delay_seconds
        counts.tasks += weight

    def _distribute(self, seconds: float) -> None:
        """Skip the histogram, which is not read for sampled meters."""


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
        """Return the meter of an operation, made when it is first asked for."""
        key = (trail, name)
        if key not in self.meters:
            kind = Meter if self._queues else SampledMeter
            self.meters[key] = kind(name, trail, self.clock, self.events)
        return self.meters[key]

    def after(self, stage: Stage, callback: Callable[[Stage], None]) -> None:
        """Call ``callback(stage)`` after each call of the watched stage's ``next``."""
        held, pull = weakref.ref(stage), _pulled(stage)

        def next_(limit: int) -> object:
            block = pull(limit)
            running = held()
            assert running is not None
            callback(running)
            return block

        stage.next = next_  # type: ignore[method-assign, assignment]

    def watch(self, stage: Stage, name: str, trail: tuple[int, ...]) -> Stage:
        """Measure every call of ``stage.next``.

        Returns the stage itself, with its ``next`` replaced, as its class matters to others. The
        replacement refers to it weakly, so that a dropped iterator still ends at once.
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
    """Return the stage's ``next`` as it is now, which does not keep the stage alive."""
    if "next" in vars(stage):
        return stage.next
    held, method = weakref.ref(stage), type(stage).next

    def pull(limit: int) -> Any:
        running = held()
        assert running is not None
        return method(running, limit)

    return pull
