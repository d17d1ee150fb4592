"""The interface of clusters for remote execution, and the assignment of splits to workers."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from drumline._forks import finalize
from drumline.data.elements.block import Block
from drumline.data.runtime.stage import State


class WorkerLost(Exception):
    """A worker, or its machine, was lost before its answer arrived."""


class Answer(Protocol):
    """The future answer of a worker."""

    def result(self) -> Any:
        """Wait for the answer.

        Raises:
            WorkerLost: the worker was lost before.
            Exception: what the worker raised.
        """


class RemoteWorker(Protocol):
    """A ``PlanWorker`` in another process, which handles requests in order."""

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Call one of its methods; never blocks, even if the worker is lost."""

    def stop(self) -> None:
        """Stop it at once; idempotent."""


class Cluster(Protocol):
    """Where workers are started."""

    def width(self) -> int:
        """Return how many workers there should be."""

    def start(self) -> RemoteWorker | None:
        """Start another worker; ``None`` if the cluster has no capacity at present."""

    def share(self, value: Any) -> Any:
        """Return ``value`` as an argument of ``RemoteWorker.ask`` that is sent to many workers."""

    def stop(self) -> None:
        """Stop all workers; idempotent."""


class Service(Protocol):
    """Connects a dataset to its cluster when it is first iterated."""

    def connect(self) -> Cluster:
        """Return the cluster.

        Raises:
            RuntimeError: it cannot be reached.
        """

    def describe(self) -> str:
        """Return which it is, for ``explain()``."""


@dataclasses.dataclass(frozen=True)
class InputSplit:
    """A part of the elements, computed by one worker from begin to end.

    Attributes:
        number: how many splits come before it.
        start: the position of its first element in the input.
        stop: the position after its last one.
        rows: these elements, where a worker cannot make them by position.
        shard: instead of all that, which of the shards.
    """

    number: int
    start: int = 0
    stop: int = 0
    rows: tuple[Block, ...] = ()
    shard: int | None = None

    def after(self, count: int) -> InputSplit:
        """Return the split without its first ``count`` elements."""
        rows, drop = [], count
        for block in self.rows:
            if drop < block.n:
                rows.append(block.slice(drop, block.n))
            drop = max(0, drop - block.n)
        return dataclasses.replace(self, start=self.start + count, rows=tuple(rows))

    def describe(self) -> str:
        """Return the split's name for messages."""
        if self.shard is not None:
            return f"shard {self.shard}"
        return f"split {self.number}, made of input elements {self.start} to {self.stop - 1}"


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive elements of a split.

    Attributes:
        blocks: they, errors in their places.
        after: the state of the split after them; ``None`` at its start.
        ended: whether the split ends here.
        seconds: how long they took to make.
    """

    blocks: list[Block]
    after: State | None
    ended: bool
    seconds: float


class ShardingPolicy(enum.IntEnum):
    """How ``distribute`` divides a dataset among workers.

    Attributes:
        OFF: every worker makes all elements, and all of them come.
        DYNAMIC: each element once, made by whichever worker is free.
        FILE: each worker has its own files.
        DATA: each worker reads the whole dataset and yields every N-th element.
        FILE_OR_DATA: ``FILE`` where there are enough files, else ``DATA``.
        HINT: the dataset is sharded where it has ``shard(SHARD_HINT, SHARD_HINT)``.
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


_NAMES = {
    "off": ShardingPolicy.OFF,
    "parallel_epochs": ShardingPolicy.OFF,
    "dynamic": ShardingPolicy.DYNAMIC,
    "distributed_epoch": ShardingPolicy.DYNAMIC,
    "static": ShardingPolicy.FILE_OR_DATA,
}


def policy_of(value: Any) -> ShardingPolicy:
    """Return the policy meant by a member of ``ShardingPolicy`` or a name.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, ShardingPolicy):
        return value
    if isinstance(value, str) and value.lower() in _NAMES:
        return _NAMES[value.lower()]
    raise ValueError(
        f"distribute: processing_mode must be a ShardingPolicy or one of {', '.join(_NAMES)}; "
        f"got {value!r:.60}"
    )


MOST = 16_384
"""How many elements are requested at once while no worker was lost."""

DEATHS = 3
"""How many workers, with no other task, an element has to kill to count as a poison element."""


class PoisonSearch:
    """Finds the poison element of a split: how many to request at once after a worker was lost.

    One at first, and twice as many after each answer, as mostly the elements are not the cause. If
    the next worker is lost as well, single ones, until those it was asked for have arrived or
    several workers were lost at the same element.

    Attributes:
        limit: how many elements to request at once; ``None`` without a limit.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._single_until = 0
        self._position = -1
        self._deaths = 0

    def died(self, position: int, alone: bool) -> None:
        """Record that the worker was lost which was computing the element at ``position``.

        Args:
            position: of the first element that has not arrived.
            alone: whether the worker had no other task.
        """
        if position != self._position:
            self._position, self._deaths = position, 0
        if self.limit == 1 and alone:
            self._deaths += 1
        elif self.limit is not None and alone:
            self._single_until = position + self.limit
        self.limit = 1

    def arrived(self, position: int) -> None:
        """Record that all elements before ``position`` have arrived."""
        if self.limit is not None and position >= self._single_until:
            self.limit = 2 * self.limit if self.limit < MOST else None

    @property
    def proven(self) -> bool:
        """Whether the next element is a poison element."""
        return self._deaths >= DEATHS

    def forget(self) -> None:
        """Reset the count: the element was given up."""
        self._position, self._deaths = -1, 0


_SPLITS_AT_ONCE = 2
"""How many splits a worker has, so that it has another one when it completes one."""

_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0


class SplitTask(Protocol):
    """A split that is being computed; its methods are called with the session's lock held."""

    def assigned(self, place: Place, alone: bool) -> None:
        """Set the worker that computes it, and whether no other task runs there."""

    def moved(self) -> None:
        """Continue with another worker, as this one was lost."""

    def close(self) -> None:
        """Cancel it."""


@dataclasses.dataclass(eq=False)
class Place:
    """A worker and the tasks it has.

    Attributes:
        reserved: whether it takes no further ones.
    """

    worker: RemoteWorker
    tasks: list[SplitTask] = dataclasses.field(default_factory=list)
    reserved: bool = False
    lost: bool = False


class RemoteSession:
    """Assigns tasks to free workers, in the order in which they were entered.

    Lost workers are replaced if the cluster has capacity; their tasks go to others.

    Args:
        service: whose cluster it is.

    Attributes:
        width: how many workers there should be; 0 before it is connected.
    """

    def __init__(self, service: Service):
        self._service = service
        self.width = 0
        self._places: list[Place] = []
        self._waiting: deque[SplitTask] = deque()
        self._numbers: dict[Hashable, int] = {}
        self._unshared: deque[Any] = deque()
        self._shared: list[Any] = []
        self._keys = itertools.count()
        self._dropped: deque[SplitTask] = deque()
        self.lock = threading.RLock()
        self._grown_at = -_RETRY_SECONDS

    @functools.cached_property
    def _cluster(self) -> Cluster:
        cluster = self._service.connect()
        self.stop = finalize(self, cluster.stop)
        return cluster

    def connect(self) -> None:
        """Connect to the cluster, unless that was done.

        Raises:
            RuntimeError: it cannot be reached.
        """
        with self.lock:
            self.width = self.width or self._cluster.width()

    def key(self) -> int:
        """Return a number that no other split has."""
        return next(self._keys)

    def part(self, name: Hashable, make: Callable[[], Any]) -> int:
        """Return the number of a remote plan, made by ``make`` if it is new."""
        with self.lock:
            if name not in self._numbers:
                self._unshared.append(make())
                self._numbers[name] = len(self._numbers)
            return self._numbers[name]

    def _share(self) -> None:
        """Send all workers the remote plans that they do not have yet."""
        while self._unshared:
            number, content = len(self._shared), self._cluster.share(self._unshared.popleft())
            self._shared.append(content)
            for place in self._places:
                place.worker.ask("learn", number, content)

    def enter(self, task: SplitTask) -> None:
        """Enqueue a task."""
        with self.lock:
            self._sweep()
            self._waiting.append(task)
            self._assign()

    def remove(self, task: SplitTask, place: Place | None) -> None:
        """Remove a task that is complete or was cancelled."""
        with self.lock:
            if task in self._waiting:
                self._waiting.remove(task)
            if place is not None and task in place.tasks:
                place.tasks.remove(task)
                place.reserved = False
            self._assign()

    def hurry(self, task: SplitTask, alone: bool) -> None:
        """Start a task now, as its consumer waits; ``alone`` on its worker if possible.

        Raises:
            RuntimeError: there are no workers, and no more can be started.
        """
        with self.lock:
            if task in self._waiting:
                self._waiting.remove(task)
            place = self._least(alone)
            place.reserved = alone and not place.tasks
            self._give(place, task)
            self._assign()

    def _least(self, alone: bool) -> Place:
        self._sweep()
        self._grow()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (open_ := [place for place in self._places if not place.reserved]):
            if self._places and not alone:
                open_ = self._places
                break
            if time.monotonic() > deadline:
                raise RuntimeError(
                    "distribute: all workers were lost, and for a minute the cluster had no room "
                    "for another; see `drumline data-service status`"
                )
            time.sleep(0.05)
            self._grow()
        return min(open_, key=lambda place: len(place.tasks))

    def settled(self, place: Place | None) -> None:
        """Allow other tasks again on the worker of a task that was to be alone."""
        with self.lock:
            if place is not None and place.reserved:
                place.reserved = False
                self._assign()

    def drop(self, task: SplitTask) -> None:
        """Cancel a task later; may be called by a finalizer."""
        self._dropped.append(task)

    def lost(self, place: Place, found_by: SplitTask) -> None:
        """Reassign the tasks of a lost worker, except ``found_by``, which enters again itself."""
        with self.lock:
            if place.lost:
                return
            place.lost = True
            self._places.remove(place)
            place.worker.stop()
            tasks, place.tasks = place.tasks, []
            self._grown_at = -_RETRY_SECONDS
            for task in reversed(tasks):
                if task is not found_by:
                    task.moved()
                    self._waiting.appendleft(task)

    def _sweep(self) -> None:
        while self._dropped:
            self._dropped.popleft().close()

    def _assign(self) -> None:
        if not self._waiting:
            return
        self._grow()
        while self._waiting:
            free = [p for p in self._places if len(p.tasks) < _SPLITS_AT_ONCE and not p.reserved]
            if not free:
                return
            self._give(min(free, key=lambda place: len(place.tasks)), self._waiting.popleft())

    def _give(self, place: Place, task: SplitTask) -> None:
        self._share()
        alone = not place.tasks
        place.tasks.append(task)
        task.assigned(place, alone)

    def _grow(self) -> None:
        """Start the missing workers; after a failure not again for a second."""
        now = time.monotonic()
        if now - self._grown_at < _RETRY_SECONDS:
            return
        while len(self._places) < self.width:
            worker = self._cluster.start()
            if worker is None:
                self._grown_at = now
                return
            for number, content in enumerate(self._shared):
                worker.ask("learn", number, content)
            self._places.append(Place(worker))
