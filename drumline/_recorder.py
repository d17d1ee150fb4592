"""What the thread that trains does, and when devices compute: events of a step profile.

The rooms that read input, start programs, communicate and save ask `active`, which is None unless a
step profile is being made. `drumline.profiler` makes one of it.

The training thread is at each moment in one place (`Place`), the innermost of those that it has
entered. When a device computed is known from its programs: a step's program is under way from the
return of the call that started it until its results are ready, which a thread waits for and the
training thread asks at each change of its place. A call whose results are ready when it returns has
computed them itself. No step waits for a device because of that.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

COMPUTING = "computing"
COMMUNICATION = "communication"
INPUT = "input"
COMPILING = "compiling"
CHECKPOINTING = "checkpointing"
VALIDATION = "validation"
PYTHON = "Python"
PROFILER = "profiler"

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

Place = tuple[str, str]
"""A part, and what of it: a stage, a callback."""

active: StepRecorder | None = None
"""Of the step profile that is being made in this process."""

_ALONE: Place = (PYTHON, "")
_ABSORBING = (VALIDATION, PROFILER)
"""All that happens in them is counted as them."""

_MOST_MARKS = 4096
_WATCH_SECONDS = 0.002
"""Programs are waited for at most so often: those between them are known from asking alone."""


class StartedProgram:
    """A program that was started.

    Attributes:
        array: of its results, one that no later program takes over.
        since: since when it computes.
        ended: when it was seen to have ended, None before.
        seen: when it was last seen to compute.
    """

    __slots__ = ("array", "ended", "seen", "since")

    def __init__(self, array: Any, since: float) -> None:
        self.array = array
        self.since = self.seen = since
        self.ended: float | None = None


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
    """The first of JAX's arrays in a tree, which tells when its program has ended; or None."""
    import jax

    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            return leaf
    return None


def rows_of(tree: Any) -> int:
    """The first dimension of the first array of a batch; 0 if it has none."""
    import jax

    for leaf in jax.tree.leaves(tree):
        shape = getattr(leaf, "shape", ())
        if shape:
            return int(shape[0])
    return 0


def has_ended(array: Any) -> bool:
    """Whether the program that computes an array has ended; one that was given away has."""
    try:
        return bool(array.is_deleted() or array.is_ready())
    except RuntimeError:  # deleted between the two
        return True


def counted_as(part: str, name: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function in which the training thread is in a part, while a profile is made."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            recorder = active
            if recorder is None:
                return function(*args, **kwargs)
            with recorder.at(part, name):
                return function(*args, **kwargs)

        return counted

    return decorate


def _begins_within_call(array: Any) -> bool:
    devices: Any = array.sharding.device_set
    return next(iter(devices)).platform == "cpu"


class _Visit:
    """The block of `StepRecorder.at`; a class, as a step has several of them."""

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
        on_step: called with an array of its results when a step was started.
        last_array: of the results of the program that was started last.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.thread = threading.get_ident()
        self.steps = 0
        self.rows = self.taken = 0
        self.programs_seen: dict[int, Any] = {}
        self.pipelines: list[Any] = []
        self.strategies: list[Any] = []
        self.coordinators: list[Any] = []
        self.on_coordinator: Callable[[Any], None] | None = None
        self.on_step: Callable[[Any], None] | None = None
        self.last_array: Any = None
        self._totals: dict[Place, float] = {}
        self._stack: list[Place] = []
        self._place = _ALONE
        self._began = clock()
        self._marks: list[tuple[float, Place]] = [(self._began, _ALONE)]
        self._pending: deque[StartedProgram] = deque()
        self._busy: list[tuple[float, float]] = []
        self._compiled: list[tuple[float, float]] = []
        self._watched: queue.SimpleQueue[StartedProgram | None] = queue.SimpleQueue()
        self._watched_at = -1.0
        self._watcher: threading.Thread | None = None

    # What the training thread reports.

    def at(self, part: str, name: str = "") -> contextlib.AbstractContextManager[None]:
        """Within the block the training thread is there; in other threads nothing is recorded."""
        if threading.get_ident() != self.thread:
            return contextlib.nullcontext()
        return _Visit(self, (part, name))

    def enter(self, place: Place) -> None:
        """Go to a place; `leave` returns from it. Called by the training thread alone."""
        here = self._place
        self._stack.append(here)
        if place != here and (here[0] not in _ABSORBING or place[0] == here[0]):
            self._mark(place)

    def leave(self) -> None:
        """Return from the innermost place."""
        place = self._stack.pop()
        if place != self._place:
            self._mark(place)

    def is_here(self) -> bool:
        """Whether the calling thread is the one that trains."""
        return threading.get_ident() == self.thread

    @property
    def part(self) -> str:
        """In which part the training thread is."""
        return self._place[0]

    def started(self, array: Any, began: float) -> None:
        """Note that a step's program was started by a call that has just returned.

        Args:
            array: one of its results, with JAX's methods; None if there is none.
            began: when the call began.
        """
        now = self.clock()
        is_step = self._place[0] not in _ABSORBING
        if is_step:
            self.steps += 1
            self.rows += self.taken
        self._poll(now)
        if array is not None:
            self._note_program(array, began, now)
        if is_step and self.on_step is not None:
            self.on_step(array)

    def _note_program(self, array: Any, began: float, now: float) -> None:
        self.last_array = array
        if not self._pending and has_ended(array):
            self._busy.append((began, now))
            return
        # On a CPU it begins to compute within the call, on the processors that the call needs, too.
        began = began if _begins_within_call(array) else now
        program = StartedProgram(array, max(began, self._busy[-1][1]) if self._busy else began)
        self._pending.append(program)
        if now - self._watched_at >= _WATCH_SECONDS:
            self._watched_at = now
            self._watch(program)

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
        if self._place[0] in _ABSORBING or id(program) in self.programs_seen:
            return
        import jax

        self.programs_seen[id(program)] = (program, jax.tree.map(_type_of, arguments), self.taken)

    def uses(self, strategy: Any) -> None:
        """Note whose steps run."""
        if strategy not in self.strategies:
            self.strategies.append(strategy)

    # What reads them.

    def take(self) -> tuple[float, float, dict[Place, float]]:
        """Return from when, until when, and where the time went since the last call.

        The seconds add up to the time between the two. A program that is under way belongs to the
        next, too, from now on.
        """
        now = self.clock()
        self._poll(now)
        for program in self._pending:
            self._busy.append((program.since, now))
            program.since = program.seen = now
        self._marks.append((now, self._place))
        self._fold(now)
        began, self._began = self._began, now
        found, self._totals = self._totals, {}
        return began, now, found

    def close(self) -> None:
        """End the thread that waits for programs."""
        if self._watcher is not None:
            self._watched.put(None)
            self._watcher.join()
            self._watcher = None

    def _mark(self, place: Place) -> None:
        now = self.clock()
        if self._pending:
            self._poll(now)
        self._place = place
        self._marks.append((now, place))
        if len(self._marks) > _MOST_MARKS:
            self._fold(self._pending[0].since if self._pending else now)

    def _poll(self, now: float) -> None:
        """Note the programs that have ended."""
        while self._pending:
            first = self._pending[0]
            if first.ended is None:
                if not has_ended(first.array):
                    first.seen = now
                    return
                first.ended = (first.seen + now) / 2
            self._busy.append((first.since, first.ended))
            self._pending.popleft()
            if self._pending:
                # It was behind the one that has just ended.
                following = self._pending[0]
                following.since = max(following.since, first.ended)
                following.seen = max(following.seen, following.since)

    def _watch(self, program: StartedProgram) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(
                target=self._wait_for_programs, name="drumline step profile", daemon=True
            )
            self._watcher.start()
        self._watched.put(program)

    def _wait_for_programs(self) -> None:
        while (program := self._watched.get()) is not None:
            try:
                program.array.block_until_ready()
            except Exception:  # of the program, which the training thread raises, or deleted
                continue
            if program.ended is None:
                program.ended = self.clock()

    def _fold(self, until: float) -> None:
        """Add the time up to `until` to the totals, and drop the events before it."""
        if self._marks[0][0] >= until:
            return
        marks, left = _split(self._marks, until)
        busy, compiled = _merged(self._busy), _merged(self._compiled)
        for part, pieces in split_time(marks, busy, compiled).items():
            self._totals[part] = self._totals.get(part, 0.0) + pieces
        self._marks = left
        self._busy = [(max(a, until), b) for a, b in busy if b > until]
        self._compiled = [(max(a, until), b) for a, b in compiled if b > until]


def _split(
    marks: list[tuple[float, Place]], until: float
) -> tuple[list[tuple[float, float, Place]], list[tuple[float, Place]]]:
    """The pieces of time before `until`, and the marks behind it, which begin there."""
    pieces: list[tuple[float, float, Place]] = []
    for number, (since, place) in enumerate(marks):
        if since >= until:
            return pieces, [(until, marks[number - 1][1]), *marks[number:]]
        end = marks[number + 1][0] if number + 1 < len(marks) else until
        pieces.append((since, min(end, until), place))
    return pieces, [(until, marks[-1][1])]


def _merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of intervals, in order."""
    found: list[tuple[float, float]] = []
    for since, end in sorted(intervals):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > since:
            found.append((since, end))
    return found


def split_time(
    pieces: list[tuple[float, float, Place]],
    busy: list[tuple[float, float]],
    compiled: list[tuple[float, float]],
) -> dict[Place, float]:
    """Split the time of a thread into parts, which add up to it.

    While a program is compiled, the time is `COMPILING`; else, while a device computes, it is
    `COMPUTING`, whatever the thread does meanwhile; else it is that of the thread's place. A
    validation and the profiler keep what is theirs.

    Args:
        pieces: from, to and place, in order.
        busy: when devices compute, in order, without overlap.
        compiled: when the thread traces or compiles, likewise.
    """
    totals: dict[Place, float] = {}
    next_busy = next_compiled = 0
    for since, end, place in pieces:
        if end <= since:
            continue
        while next_busy < len(busy) and busy[next_busy][1] <= since:
            next_busy += 1
        while next_compiled < len(compiled) and compiled[next_compiled][1] <= since:
            next_compiled += 1
        is_free = next_busy == len(busy) or busy[next_busy][0] >= end
        if is_free and (next_compiled == len(compiled) or compiled[next_compiled][0] >= end):
            totals[place] = totals.get(place, 0.0) + end - since
            continue
        compiling = _inside(compiled, next_compiled, since, end)
        computing = _inside(busy, next_busy, since, end)
        if place[0] == PROFILER:
            compiling, computing = [], []
        elif place[0] == VALIDATION:
            computing = []
        compile_seconds = _length(compiling)
        compute_seconds = _length(computing) - _length(_common(compiling, computing))
        left = max(0.0, end - since - compile_seconds - compute_seconds)
        for key, seconds in (
            ((COMPILING, ""), compile_seconds),
            ((COMPUTING, ""), compute_seconds),
            (place, left),
        ):
            if seconds:
                totals[key] = totals.get(key, 0.0) + seconds
    return totals


def _inside(
    intervals: list[tuple[float, float]], first: int, since: float, end: float
) -> list[tuple[float, float]]:
    """The intervals from the first on that are within a piece of time, cut to it."""
    found: list[tuple[float, float]] = []
    while first < len(intervals) and intervals[first][0] < end:
        found.append((max(since, intervals[first][0]), min(end, intervals[first][1])))
        first += 1
    return found


def _length(intervals: list[tuple[float, float]]) -> float:
    return sum(end - since for since, end in intervals)


def _common(
    a: list[tuple[float, float]], b: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """What both have in common; a piece of time has few of them."""
    found = [(max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b]
    return [(since, end) for since, end in found if end > since]
