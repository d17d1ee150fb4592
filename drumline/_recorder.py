"""What the thread that trains does, and when devices compute: events of a step profile.

The rooms that read input, start programs, communicate and save ask `active`, which is None unless a
step profile is being made. `drumline.profiler` makes one of it.

The training thread is at each moment in one place (`Place`), the innermost of those that it has
entered. When a device computed is known from its programs: a step's program is under way from the
return of the call that started it until its results are ready: the training thread asks at each
change of its place, and a thread waits for the newest program, so that a device which runs out of
work while the training thread stays in one place is noticed. A call whose results are ready when it
returns has computed them itself. No step waits for a device because of that.

What happens in a step is appended to lists, of which `split_time` makes parts, thousands at once.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drumline import _forks

COMPUTING = "computing"
COMMUNICATION = "communication"
INPUT = "input"
COMPILING = "compiling"
CHECKPOINTING = "checkpointing"
VALIDATION = "validation"
PYTHON = "Python"
PROFILER = "profiler"

STARTING = (PYTHON, "starting steps")

WORKERS = "workers"
"""The chief of parameter servers waits for its workers; they know what they do."""

PARTS = (
    COMPUTING,
    COMMUNICATION,
    INPUT,
    COMPILING,
    CHECKPOINTING,
    VALIDATION,
    PYTHON,
    PROFILER,
)
"""What a step's time is split into."""

Interval = tuple[float, float]

Place = tuple[str, str]
"""A part, and what of it: a stage, a callback."""

active: StepRecorder | None = None
"""Of the step profile that is being made in this process."""

_thread = threading.get_ident

_ALONE: Place = (PYTHON, "")
_ELSEWHERE = contextlib.nullcontext()
_ABSORBING = (VALIDATION, PROFILER)
"""All that happens in them is counted as them."""

_MOST_MARKS = 4096
_WATCH_SECONDS = 0.002
_LATER_WATCH_SECONDS = 0.1
"""The thread that waits for programs wakes at most so often: that takes 0.1 ms from computing. The
first is until it has seen some programs end, or many with others behind them."""
_KNOWN_ENDS = 32
_EVERY = 16
"""One of so many visits to a place, and starts of a step, is timed: doing it for each is long."""
_LONGEST_OWN = 2e-4
"""Seconds: if noting an event takes longer, the system gave the processor to others meanwhile."""
_SPACING = 0.05
_LONG_SPACING = 2.0
"""Of the time of a step: so long after it was asked whether a program has ended it is not asked
again. Each time costs as much as all else that is done at a mark, and on a GPU's stream a callback.
The second is where devices are not seen to rest: one step of some asks, and a stall."""
_MOST_UNASKED = 15
"""Steps in a row; first one, then three, then seven."""
_LONGEST_WAIT = 1.0
"""Seconds that the end of a profile waits for that thread, and so for a program."""


class BusyTime:
    """Since when devices compute without a pause; programs started meanwhile are behind each other.

    Attributes:
        array: a result of the program that was started last; there is no pause until it is there.
        since: since when.
        seen: when that program was last seen to be under way.
        ended: of an array that the thread that waits looked at: it, the time, and whether it came
            at that time; else it was there already.
    """

    __slots__ = ("array", "ended", "seen", "since")

    def __init__(self, array: Any, since: float, seen: float) -> None:
        self.array = array
        self.since = since
        self.seen = seen
        self.ended: tuple[Any, float, bool] | None = None


class Ends:
    """Where between two moments programs ended, if the thread that waits saw it.

    Attributes:
        before: seconds from the first moment to the end, of all.
        whole: seconds between both moments, of all.
    """

    __slots__ = ("before", "whole")

    def __init__(self) -> None:
        self.before = self.whole = 0.0

    def add(self, before: float, whole: float) -> None:
        """Learn of one; what was long ago counts less."""
        self.before = 0.98 * self.before + before
        self.whole = 0.98 * self.whole + whole

    @property
    def share(self) -> float:
        """How far between the moments; the middle where nothing is known."""
        return self.before / self.whole if self.whole else 0.5


def _type_of(value: Any) -> Any:
    """The type of an argument, without its memory; Python values as they are.

    It says where an array lies, so that the trace of the call is found again.
    """
    import jax

    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return value
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    weak = bool(getattr(value, "weak_type", False))
    placed = value.sharding if isinstance(value, jax.Array) else None
    return jax.ShapeDtypeStruct(value.shape, dtype, weak_type=weak, sharding=placed)


def first_array(tree: Any) -> Any:
    """One of JAX's arrays in a tree, which tells when its program has ended; or None."""
    leaf = _first_leaf(tree)
    if type(leaf) in _array_types:
        return leaf
    import jax

    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            _array_types.add(type(leaf))
            return leaf
    return None


def rows_of(tree: Any) -> int:
    """The first dimension of the first array of a batch; 0 if it has none."""
    shape = getattr(_first_leaf(tree), "shape", ())
    if shape:
        return int(shape[0])
    import jax

    for leaf in jax.tree.leaves(tree):
        shape = getattr(leaf, "shape", ())
        if shape:
            return int(shape[0])
    return 0


_array_types: set[type] = set()
"""Those that were seen: asking for `jax.Array` takes longer than all else in a step."""


def _first_leaf(tree: Any) -> Any:
    """The first leaf of a tree of Python's own containers; what else there is as it is."""
    while True:
        kind = type(tree)
        if (kind is tuple or kind is list) and tree:
            tree = tree[0]
        elif kind is dict and tree:
            tree = tree[min(tree)]
        else:
            return tree


def has_ended(array: Any) -> bool:
    """Whether the program that computes an array has ended; one that was given away has."""
    try:
        return bool(array.is_ready())
    except RuntimeError:  # deleted
        return True


def counted_as(part: str, name: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function in which the training thread is in a part, while a profile is made."""

    place = (part, name)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            recorder = active
            if recorder is None or _thread() != recorder.thread:
                return function(*args, **kwargs)
            recorder.enter(place)
            try:
                return function(*args, **kwargs)
            finally:
                recorder.leave()

        return counted

    return decorate


class _Visit:
    """The block of `StepRecorder.at`, of which a recorder makes one for each place."""

    __slots__ = ("_place", "_recorder")

    def __init__(self, recorder: StepRecorder, place: Place) -> None:
        self._recorder = recorder
        self._place = place

    def __enter__(self) -> None:
        self._recorder.enter(self._place)

    def __exit__(self, *_: object) -> None:
        self._recorder.leave()


class StepRecorder:
    """Records the thread that makes it.

    Args:
        clock: seconds.

    Attributes:
        thread: the training thread.
        steps: how many steps were started.
        rows: how many rows they were given.
        taken: how many rows the step under way takes; 0 if unknown.
        programs_seen: for the programs that steps ran, what describes them, by what they are known
            by; see `describes`.
        pipelines: of input that was opened, what reports on their stages.
        strategies: those whose steps ran, in order, without repetition.
        coordinators: of parameter servers, on whose workers steps were scheduled.
        on_coordinator: called with each of them when it is first seen.
        on_step: called with an array of its results when a step was started; None once there is
            nothing more to do.
        last_array: of the results of the program that was started last.
        own_seconds: that recording took, in the training thread and in the one that waits.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.thread = _thread()
        self.steps = 0
        self.rows = self.taken = 0
        self.programs_seen: dict[int, Any] = {}
        self.pipelines: list[Any] = []
        self.strategies: list[Any] = []
        self.coordinators: list[Any] = []
        self.on_coordinator: Callable[[Any], None] | None = None
        self.on_step: Callable[[Any], None] | None = None
        self.last_array: Any = None
        self._here_seconds = self._watcher_seconds = 0.0
        self._started_at = self._spacing = 0.0
        self._asks_at = math.inf
        self._unasked = self._left_unasked = self._unready = 0
        self._visits: dict[Place, _Visit] = {}
        self._visits_untimed = self._starts_untimed = _EVERY
        self._totals: dict[Place, float] = {}
        self._stack: list[Place] = []
        self._place = _ALONE
        self._began = clock()
        self._marks: list[tuple[float, Place]] = [(self._began, _ALONE)]
        self._now_busy: BusyTime | None = None
        self._busy: list[Interval] = []
        self._compiled: list[Interval] = []
        self._watched: queue.SimpleQueue[BusyTime | None] = queue.SimpleQueue()
        self._is_watching = False
        self._sharding: Any = None
        self._is_on_cpu = False
        self._awaited: Any = None
        self._awaited_of: BusyTime | None = None
        self._ends: dict[Place, Ends] = {}
        self._known_ends = self._passed = 0
        self._watcher: threading.Thread | None = None
        _forks.tell_in_child(self)

    # What the training thread reports.

    def at(self, part: str, name: str = "") -> contextlib.AbstractContextManager[None]:
        """Within the block the training thread is there; in other threads nothing is recorded."""
        if _thread() != self.thread:
            return _ELSEWHERE
        place = (part, name)
        visit = self._visits.get(place)
        if visit is None:
            visit = self._visits[place] = _Visit(self, place)
        return visit

    def enter(self, place: Place) -> None:
        """Go to a place; `leave` returns from it. Called by the training thread alone."""
        self._visits_untimed -= 1
        began = None if self._visits_untimed else self.clock()
        here = self._place
        self._stack.append(here)
        if place != here and (here[0] not in _ABSORBING or place[0] == here[0]):
            # As in `leave`, without a call of its own: what is recorded between long programs finds
            # no code in the processor's caches, so that it costs by how much code it is.
            now = self.clock()
            if now >= self._asks_at:
                self._poll(now)
            self._place = place
            self._marks.append((now, place))
        if began is not None:
            self._visits_untimed = _EVERY
            self._note_own(began, 2 * _EVERY)  # leaving takes as long

    def leave(self) -> None:
        """Return from the innermost place."""
        place = self._stack.pop()
        if place != self._place:
            now = self.clock()
            if now >= self._asks_at:
                self._poll(now)
            self._place = place
            self._marks.append((now, place))
            if len(self._marks) > _MOST_MARKS:
                self._fold(now)
                self._here_seconds += self.clock() - now

    def is_here(self) -> bool:
        """Whether the calling thread is the one that trains."""
        return _thread() == self.thread

    @property
    def part(self) -> str:
        """In which part the training thread is."""
        return self._place[0]

    def begins(self, rows: int, strategy: Any) -> float:
        """Enter the place in which a step is started; `leave` returns from it.

        Args:
            rows: of input that the step takes; 0 if unknown.
            strategy: whose step it is; None without one.

        Returns:
            The time now, for `started`.
        """
        self.taken = rows
        if strategy is not None and strategy not in self.strategies:
            self.strategies.append(strategy)
        self.enter(STARTING)
        return self.clock()

    def returned(self, results: Any, began: float) -> None:
        """As `started`, of a call that returned a tree: its first array is not given away later."""
        now = self.clock()
        self.started(first_array(results), began, now)

    def started(self, array: Any, began: float, now: float | None = None) -> None:
        """Note that a step's program was started by a call that has just returned.

        Args:
            array: one of its results, with JAX's methods; None if there is none.
            began: when the call began.
            now: when it returned; None for now.
        """
        now = self.clock() if now is None else now
        is_step = self._place[0] not in _ABSORBING
        if is_step:
            self.steps += 1
            self.rows += self.taken
        if now >= self._asks_at:
            self._poll(now)
        self._set_spacing(now)
        busy = self._now_busy
        if array is not None:
            self.last_array = array
            if busy is None:
                busy = self._note_program(array, began, now)
            else:
                busy.array, busy.seen = array, now
            if busy is not None and not self._is_watching:
                self._is_watching = True
                self._watch(busy)
        self._asks_at = math.inf if busy is None else busy.seen + self._spacing
        self._starts_untimed -= 1
        if not self._starts_untimed:
            self._starts_untimed = _EVERY
            self._note_own(now, _EVERY)
        if is_step and self.on_step is not None:
            self.on_step(array)

    def _set_spacing(self, now: float) -> None:
        """Decide for the step that is started now when it is asked for the end of a program."""
        spacing = _SPACING
        if self._now_busy is None:  # devices rest
            self._unasked = self._left_unasked = 0
        elif self._left_unasked:
            self._left_unasked -= 1
            spacing = _LONG_SPACING
        else:
            self._left_unasked = self._unasked = min(_MOST_UNASKED, 2 * self._unasked + 1)
        self._spacing = min(_WATCH_SECONDS, spacing * (now - self._started_at))
        self._started_at = now

    def _note_program(self, array: Any, began: float, now: float) -> BusyTime | None:
        """Note that devices compute again, since when; or None if they have computed."""
        # Of calls that never return with their results, one of some is looked at.
        if self._unready < _KNOWN_ENDS or not self.steps % _EVERY:
            if has_ended(array):
                self._unready = 0
                self._busy.append((began, now))
                return None
            self._unready += 1
        # On a CPU it begins to compute within the call, on the processors that it needs, too.
        began = began if self._begins_within_call(array) else now
        since = max(began, self._busy[-1][1]) if self._busy else began
        self._now_busy = BusyTime(array, since, now)
        return self._now_busy

    def _begins_within_call(self, array: Any) -> bool:
        sharding = array.sharding
        if sharding is not self._sharding:  # those of a program's results are the same in each call
            self._sharding = sharding
            self._is_on_cpu = next(iter(sharding.device_set)).platform == "cpu"
        return self._is_on_cpu

    def scheduled(self, coordinator: Any) -> None:
        """Note that a step was scheduled on the workers of parameter servers."""
        if coordinator not in self.coordinators:
            self.coordinators.append(coordinator)
            if self.on_coordinator is not None:
                self.on_coordinator(coordinator)
        if self._place[0] not in _ABSORBING:
            self.steps += 1

    def compiled(self, seconds: float) -> None:
        """Note that so many seconds until now were spent on tracing or compiling."""
        if threading.get_ident() == self.thread:
            now = self.clock()
            self._compiled.append((now - seconds, now))

    def describes(self, program: Any, arguments: Any) -> None:
        """Note a compiled function that a step runs, when it runs first, for its FLOPs.

        Args:
            program: what `jax.jit` returned.
            arguments: of the call; only their types are kept.
        """
        if id(program) in self.programs_seen or self._place[0] in _ABSORBING:
            return
        import jax

        self.programs_seen[id(program)] = (program, jax.tree.map(_type_of, arguments), self.taken)

    # What reads them.

    def take(self) -> tuple[float, float, dict[Place, float]]:
        """Return from when, until when, and where the time went since the last call.

        The seconds add up to the time between the two. A program that is under way belongs to the
        next, too, from now on.
        """
        now = self.clock()
        self._poll(now)
        self._marks.append((now, self._place))
        self._fold(now)
        began, self._began = self._began, now
        found, self._totals = self._totals, {}
        return began, now, found

    @property
    def own_seconds(self) -> float:
        """Seconds that recording took until now, without what `PROFILER` is."""
        return self._here_seconds + self._watcher_seconds

    def close(self) -> None:
        """End the thread that waits for programs; it ends later if a program takes long."""
        if self._watcher is not None:
            self._watched.put(None)
            self._watcher.join(_LONGEST_WAIT)
            self._watcher = None

    def forked(self) -> None:
        """Record nothing in a child that was forked, which has no thread that waits."""
        self.thread = -1
        self._watcher = None

    def _note_own(self, since: float, times: int = 1) -> None:
        self._here_seconds += times * min(_LONGEST_OWN, self.clock() - since)

    def _poll(self, now: float) -> None:
        """Note whether the last program has ended."""
        busy = self._now_busy
        if busy is None:
            return
        array, seen, ended = busy.array, busy.seen, busy.ended
        if self._awaited_of is busy and self._awaited is not array:
            # One of those before it is waited for.
            busy.seen = now
            self._asks_at = now + self._spacing
            return
        if ended is not None and ended[0] is array:
            end = min(now, max(seen, ended[1]))
            if not ended[2]:
                end = (seen + end) / 2
            self._learn(end - seen, now - seen)
        elif not has_ended(array):
            busy.seen = now
            self._asks_at = now + self._spacing
            return
        else:
            ends = self._ends.get(self._place)
            end = seen + (0.5 if ends is None else ends.share) * (now - seen)
        self._busy.append((busy.since, end))
        self._now_busy = None
        self._asks_at = math.inf

    def _learn(self, before: float, whole: float) -> None:
        """Note when a program ended, for those in this place that are not waited for."""
        ends = self._ends.get(self._place)
        if ends is None:
            ends = self._ends[self._place] = Ends()
        ends.add(before, whole)
        self._known_ends += 1
        self._passed = 0

    def _watch(self, busy: BusyTime) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(
                target=self._wait_for_programs, name="drumline step profile", daemon=True
            )
            self._watcher.start()
        self._watched.put(busy)

    def _wait_for_programs(self) -> None:
        while (busy := self._watched.get()) is not None:
            array: Any = busy.array
            while array is not None:
                began = self.clock()
                if has_ended(array):
                    busy.ended = array, began, False
                else:
                    self._awaited, self._awaited_of = array, busy
                    try:
                        array.block_until_ready()
                    except Exception:  # of the program, which the training thread raises, or gone
                        pass
                    else:
                        busy.ended = array, self.clock(), True
                    self._awaited_of = self._awaited = None
                rest = _WATCH_SECONDS
                if max(self._known_ends, self._passed) >= _KNOWN_ENDS:
                    rest = _LATER_WATCH_SECONDS
                self._watcher_seconds = time.thread_time()
                time.sleep(max(0.0, rest - (self.clock() - began)))
                busy, array = self._newest(busy, array)

    def _newest(self, busy: BusyTime, than: Any) -> tuple[BusyTime, Any]:
        """What the thread waits for next, if another program was started meanwhile; or None."""
        for is_watching in (True, False):
            self._is_watching = is_watching  # from here on the training thread asks to watch
            newest = self._now_busy
            if newest is not None and newest.array is not than:
                self._is_watching = True
                self._passed += 1
                return newest, newest.array
        return busy, None

    def _fold(self, until: float) -> None:
        """Add the time up to `until` to the totals, and drop the events before it."""
        if self._marks[0][0] >= until:
            return
        if self._now_busy is not None:
            self._busy.append((self._now_busy.since, until))
            self._now_busy.since = until
        after = bisect.bisect_left(self._marks, until, key=lambda mark: mark[0])
        found = split_time(self._marks[:after], until, self._busy, self._compiled)
        for place, seconds in found.items():
            self._totals[place] = self._totals.get(place, 0.0) + seconds
        self._marks[:after] = [(until, self._marks[after - 1][1])]
        self._busy = [(max(a, until), b) for a, b in self._busy if b > until]
        self._compiled = [(max(a, until), b) for a, b in self._compiled if b > until]


def split_time(
    marks: Sequence[tuple[float, Place]],
    until: float,
    busy: Sequence[Interval],
    compiled: Sequence[Interval],
) -> dict[Place, float]:
    """Split the time of a thread into parts, which add up to it.

    While a program is compiled, the time is `COMPILING`; else, while a device computes, it is
    `COMPUTING`, whatever the thread does meanwhile; else it is that of the thread's place. A
    validation and the profiler keep what is theirs.

    Args:
        marks: since when the thread was where, in order; each until the next begins.
        until: the end of the last.
        busy: when devices compute.
        compiled: when the thread traces or compiles.
    """
    times, places = zip(*marks, strict=True)
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    numbered = np.fromiter(map(numbers.__getitem__, places), np.intp, len(places))
    borders = np.array((*times, until))
    origin = borders[0]  # differences of small numbers are exact enough to add up
    borders = borders - origin
    is_profiler = np.array([place[0] == PROFILER for place in numbers])[numbered]
    is_validation = np.array([place[0] == VALIDATION for place in numbers])[numbered]
    length = np.diff(borders)
    compiling = np.diff(_seconds_before(borders, compiled, origin))
    either = np.diff(_seconds_before(borders, [*compiled, *busy], origin))
    compiling[is_profiler] = 0.0
    computing = np.where(is_profiler | is_validation, 0.0, either - compiling)
    left = np.maximum(0.0, length - compiling - computing)
    totals = {(COMPILING, ""): float(compiling.sum()), (COMPUTING, ""): float(computing.sum())}
    for place, seconds in zip(numbers, np.bincount(numbered, left), strict=True):
        totals[place] = totals.get(place, 0.0) + float(seconds)
    return {place: seconds for place, seconds in totals.items() if seconds}


def _seconds_before(
    times: NDArray[np.float64], intervals: Sequence[Interval], origin: float
) -> NDArray[np.float64]:
    """How many seconds before each of the times are within one of the intervals."""
    if not intervals:
        return np.zeros_like(times)
    since, end = (np.array(sorted(intervals)) - origin).T
    reached = np.maximum.accumulate(end)
    is_first = np.append(True, since[1:] > reached[:-1])
    firsts = np.flatnonzero(is_first)
    since, end = since[firsts], reached[np.append(firsts[1:], len(reached)) - 1]
    whole = np.append(0.0, np.cumsum(end - since))
    corners = np.stack([since, end], 1).ravel()
    heights = np.stack([whole[:-1], whole[1:]], 1).ravel()
    before: NDArray[np.float64] = np.interp(times, corners, heights)
    return before
