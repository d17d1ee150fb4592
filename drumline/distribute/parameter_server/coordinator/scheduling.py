"""Closures from `schedule` to their result: the queue, and how many may run at a time.

A `ScheduledClosure` is one run of a function; its `RemoteValue` gets the result. `ClosureQueue`
has those that wait and those that run: `put` blocks while it is full, `take` gives a worker's
dispatcher what the `Admission` policy allows, and the first error cancels what waits, and is
raised by the next `put` or `wait`, once. What a lost worker leaves is put before all others.

`Admission` lets everything run, `StalenessAdmission` bounds the updates that a closure may miss,
and `RoundAdmission` starts one closure on each worker and waits for all. One lock guards queue and
policy; results are set outside of it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline import _recorder
from drumline.distribute.parameter_server.errors import ClosureCancelledError
from drumline.distribute.parameter_server.wire.messages import ClosureCall

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.coordinator.function import ScheduledFunction


class RemoteValue:
    """The result of one scheduled function, as ``tf.distribute.experimental.coordinator``'s.

    Attributes:
        hurry: called before the result is waited for.
    """

    def __init__(self) -> None:
        self.hurry: Callable[[], None] | None = None
        self._ready = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    @property
    def ready(self) -> bool:
        """Whether there is a result, or the reason why there is none."""
        return self._ready.is_set()

    @_recorder.counted_as(_recorder.COMPUTING, _recorder.WORKERS)
    def fetch(self) -> Any:
        """Wait for the result: a pytree of numpy arrays.

        Raises:
            ClosureError: if the function failed on its worker.
            ClosureCancelledError: if it was not run, because another one failed.
        """
        if self.hurry is not None and not self.ready:
            self.hurry()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return jax.tree.map(lambda leaf: leaf, self._value)

    def get(self) -> Any:
        """The same as `fetch`: results are sent to the chief."""
        return self.fetch()

    def set_value(self, value: Any) -> None:
        """Note the result."""
        self._value = value
        self._ready.set()

    def set_error(self, error: BaseException) -> None:
        """Note that there will be none."""
        self._error = error
        self._ready.set()

    def cancel(self, reason: str) -> None:
        """Note that the function will not run, unless it has."""
        if not self.ready:
            self.set_error(ClosureCancelledError(f"This function was not run to its end: {reason}"))

    def __repr__(self) -> str:
        state = "pending"
        if self._ready.is_set():
            state = "failed" if self._error is not None else "ready"
        return f"<RemoteValue: {state}>"


_numbers = itertools.count()


@dataclass(eq=False)
class ScheduledClosure:
    """One run.

    Attributes:
        name: unique in the cluster; it stays when another worker has to run it again, so that the
            servers take each of its pushes once.
        function: what is run.
        arrays: the arrays among its arguments.
        iterators: the numbers of the per-worker iterators among them.
        round: in synchronous training, the number and the size of the round it belongs to.
        result: where the result goes.
        needs: what has to live until it has run.
    """

    name: str
    function: ScheduledFunction
    arrays: Sequence[np.ndarray]
    iterators: Sequence[int] = ()
    round: tuple[int, int] | None = None
    result: RemoteValue = field(default_factory=RemoteValue)
    needs: Any = None

    def call(self) -> ClosureCall:
        """What the worker is sent."""
        return ClosureCall(
            name=self.name,
            function=self.function.number,
            iterators=self.draws(),
            arrays=len(self.arrays),
            round=self.round,
        )

    def draws(self) -> tuple[tuple[int, int], ...]:
        """For each iterator, its number and how many elements the function draws."""
        return tuple(zip(self.iterators, self.function.draws, strict=True))


def next_number() -> int:
    """A number that no closure and no function of this process has yet."""
    return next(_numbers)


def next_name(session: str) -> str:
    """A name for a new closure."""
    return f"{session}:{next_number()}"


class Admission:
    """Lets closures start as soon as a worker has room.

    Attributes:
        depends_on_others: whether a closure that starts or ends lets others start.
    """

    depends_on_others = False

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        """How many closures a worker may start.

        Args:
            worker: its number.
            waiting: how many wait.
            running: how many have been given to workers and have not ended.
            flushing: whether a caller waits until all have run.
        """
        return waiting

    def started(self, worker: int, closures: Sequence[ScheduledClosure]) -> None:
        """These closures start on a worker."""

    def ended(self, closure: ScheduledClosure) -> None:
        """A closure has run, or failed."""

    def given_back(self, closures: Sequence[ScheduledClosure]) -> None:
        """A lost worker leaves closures that it had started; they will start again."""

    def cancelled(
        self, running: Sequence[ScheduledClosure], failed: Sequence[ScheduledClosure]
    ) -> int | None:
        """All that waits is cancelled.

        Args:
            running: what continues.
            failed: what started and will not end.

        Returns:
            The number of a round that will never be complete, for which others of it would wait.
        """
        return None

    def present(self, worker: int, here: bool) -> None:
        """A worker has come, or is lost."""


class StalenessAdmission(Admission):
    """Lets a closure miss at most a number of updates of others.

    It misses those that run when it starts, and those that start before it has ended: when its
    gradients are applied, at most so many updates were made that its values do not have. With 0,
    closures run sequentially and give what one device would.

    Args:
        most_missed: updates.
    """

    depends_on_others = True

    def __init__(self, most_missed: int) -> None:
        self._most = most_missed
        self._missed: dict[ScheduledClosure, int] = {}

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        left = self._most - max(self._missed.values(), default=-1)
        return max(0, min(waiting, left))

    def started(self, worker: int, closures: Sequence[ScheduledClosure]) -> None:
        for closure in closures:
            for other in self._missed:
                self._missed[other] += 1
            self._missed[closure] = len(self._missed)

    def ended(self, closure: ScheduledClosure) -> None:
        self._missed.pop(closure, None)

    def given_back(self, closures: Sequence[ScheduledClosure]) -> None:
        for closure in closures:
            self.ended(closure)


class RoundAdmission(Admission):
    """Lets every worker start one closure, and waits for all of them.

    Those of a round read the same values, and what they push is applied as one update. What a lost
    worker leaves runs on another. The last round before a `join` can be smaller.

    Args:
        size: how many closures a round has.
    """

    depends_on_others = True

    def __init__(self, size: int) -> None:
        self._size = size
        self._round = 0
        self._of = 0
        self._left = 0
        self._here: set[int] = set()
        self._had: set[int] = set()

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        if self._left == 0 and running == 0 and (waiting >= self._size or flushing):
            self._of = self._left = min(waiting, self._size)
            self._round += 1
            self._had = set()
        if worker in self._had and not self._had >= self._here:
            return 0
        return min(waiting, self._left, 1)

    def started(self, worker: int, closures: Sequence[ScheduledClosure]) -> None:
        for closure in closures:
            self._had.add(worker)
            self._left -= 1
            if closure.round is None:
                closure.round = (self._round, self._of)

    def given_back(self, closures: Sequence[ScheduledClosure]) -> None:
        self._left += len(closures)
        self._had = set(self._here)

    def cancelled(
        self, running: Sequence[ScheduledClosure], failed: Sequence[ScheduledClosure]
    ) -> int | None:
        lacks_some = self._left > 0 or bool(failed)
        self._left = 0
        return self._round if running and lacks_some else None

    def present(self, worker: int, here: bool) -> None:
        (self._here.add if here else self._here.discard)(worker)


MOST_CLOSURES = 256 * 1024
"""How many closures wait at most, as in TensorFlow; scheduling more waits."""

_ALL = 1 << 30

_FAILED = "Another scheduled function had failed before. Schedule it again."
_STOPPED = "The coordinator was closed."


class ClosureQueue:
    """Closures on their way, and the first error among them.

    Args:
        most: how many may wait.
        gate: how many may run at a time.
        abandon: called with the number of a synchronous round that will not be complete.

    Once a closure has failed, those that wait are cancelled, and those that run are waited for.
    The next `put`, or `wait`, raises the error and clears it.

    Attributes:
        completed: how many have run, each counted once.
        repeated: how many were given back because their worker was lost.
    """

    def __init__(
        self,
        most: int = MOST_CLOSURES,
        gate: Admission | None = None,
        abandon: Callable[[int], None] | None = None,
    ) -> None:
        self._most = most
        self._gate = gate or Admission()
        self._abandon = abandon
        self._flushing = 0
        self._waiting: deque[ScheduledClosure] = deque()
        self._running: set[ScheduledClosure] = set()
        self._error: BaseException | None = None
        self._stopped = False
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self.completed = 0
        self.repeated = 0

    def put(self, closure: ScheduledClosure) -> None:
        """Let a closure wait for a worker; blocks while the queue is full.

        Raises:
            Exception: what an earlier closure failed with.
            RuntimeError: after `stop`.
        """
        with self._changed:
            self._raise_error()
            while len(self._waiting) >= self._most and self._error is None:
                self._changed.wait()
            self._raise_error()
            if self._stopped:
                raise RuntimeError(f"{_STOPPED} Nothing more can be scheduled.")
            self._waiting.append(closure)
            self._changed.notify(_ALL if self._gate.depends_on_others else 1)

    def take(
        self, most: int, timeout_seconds: float | None = None, worker: int = 0
    ) -> list[ScheduledClosure]:
        """Closures to run now; none if there are none in time, or at the end.

        Args:
            most: how many at most.
            timeout_seconds: how long to wait for the first.
            worker: the number of the worker that will run them.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._changed:
            while not self._stopped and not self._may_start(worker):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._changed.wait(left)
            if self._stopped:
                return []
            was_full = len(self._waiting) >= self._most
            taken = [self._waiting.popleft() for _ in range(min(most, self._may_start(worker)))]
            self._gate.started(worker, taken)
            self._running.update(taken)
            self._flushing = max(0, self._flushing - len(taken))
            if was_full or self._gate.depends_on_others:
                self._changed.notify_all()
            return taken

    def finished(self, closure: ScheduledClosure) -> None:
        """Note that a closure has run."""
        with self._changed:
            self._running.discard(closure)
            self._gate.ended(closure)
            self.completed += 1
            if self._gate.depends_on_others:
                self._changed.notify_all()
            self._notify_if_idle()

    def failed(self, closure: ScheduledClosure, error: BaseException) -> None:
        """Note that a closure has failed, and cancel those that wait."""
        self._fail(error, [closure])

    def fail(self, error: BaseException) -> None:
        """Note an error, and cancel the closures that wait."""
        self._fail(error, [])

    def _fail(self, error: BaseException, failed: Sequence[ScheduledClosure]) -> None:
        with self._changed:
            for each in failed:
                self._running.discard(each)
                self._gate.ended(each)
            if self._error is None:
                self._error = error
            cancelled, self._waiting = list(self._waiting), deque()
            self._flushing = 0
            abandoned = self._gate.cancelled(list(self._running), failed)
            self._changed.notify_all()
            self._notify_if_idle()
        for each in cancelled:
            each.result.cancel(_FAILED)
        if abandoned is not None and self._abandon is not None:
            self._abandon(abandoned)

    def give_back(self, closures: list[ScheduledClosure], lost: bool = True) -> None:
        """Let closures wait again, before all others: their worker is lost, or has no data."""
        with self._changed:
            self._running.difference_update(closures)
            self.repeated += len(closures) if lost else 0
            self._gate.given_back(closures)
            error = self._error
            if error is None:
                self._waiting.extendleft(reversed(closures))
            self._changed.notify_all()
            self._notify_if_idle()
        if error is not None:
            self._fail(error, closures)
            for each in closures:
                each.result.cancel(_FAILED)

    def done(self) -> bool:
        """Whether nothing waits or runs.

        Raises:
            Exception: what a closure failed with.
        """
        with self._changed:
            self._raise_error()
            if self._waiting:
                self._flush()
            return not self._waiting and not self._running

    def flush(self) -> None:
        """Let what is there run, also if a round is not complete: a caller waits."""
        with self._changed:
            self._flush()

    def wait(self) -> None:
        """Wait until nothing waits or runs.

        Raises:
            Exception: what a closure failed with.
        """
        with self._changed:
            self._flush()
            while self._waiting or self._running:
                self._idle.wait()
            self._raise_error()

    def stop(self) -> None:
        """Give out nothing more; what has not ended is cancelled, and `wait` raises that."""
        with self._changed:
            self._stopped = True
            cancelled = [*self._waiting, *self._running]
            self._waiting.clear()
            self._running.clear()
            if cancelled and self._error is None:
                self._error = RuntimeError(
                    f"{_STOPPED} {len(cancelled)} scheduled function(s) had not ended."
                )
            self._changed.notify_all()
            self._notify_if_idle()
        for each in cancelled:
            each.result.cancel(_STOPPED)

    @property
    def stopped(self) -> bool:
        """Whether nothing is given out any more."""
        return self._stopped

    def _flush(self) -> None:
        self._flushing = len(self._waiting)
        self._changed.notify_all()

    def present(self, worker: int, here: bool) -> None:
        """A worker has come, or is lost."""
        with self._changed:
            self._gate.present(worker, here)
            self._changed.notify_all()

    def _may_start(self, worker: int) -> int:
        return self._gate.most(worker, len(self._waiting), len(self._running), self._flushing > 0)

    def _notify_if_idle(self) -> None:
        """Wake who waits for the end, and not at every closure: that would cost more than it."""
        if not self._running:
            self._idle.notify_all()

    def _raise_error(self) -> None:
        if self._error is None:
            return
        while self._running:
            self._idle.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error
