"""Who of a cluster's workers makes which split."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from drumline._forks import finalize
from drumline.data.service.cluster import Cluster, Service, Worker

_SPLITS_AT_ONCE = 2
"""How many splits a worker has: the next one is there when it is done with one."""

_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0


class Task(Protocol):
    """A split that is being made, as the session knows it; called with the session's lock held."""

    def assigned(self, place: Place, alone: bool) -> None:
        """Hears which worker makes it, and whether no other task runs there."""

    def moved(self) -> None:
        """Hears that the worker was lost and another one is to go on."""

    def close(self) -> None:
        """Gives it up."""


@dataclasses.dataclass(eq=False)
class Place:
    """A worker and the tasks it has.

    Attributes:
        reserved: whether it takes no further ones.
    """

    worker: Worker
    tasks: list[Task] = dataclasses.field(default_factory=list)
    reserved: bool = False
    lost: bool = False


class Session:
    """Hands tasks out to workers in the order in which they were entered, as workers are free.

    Workers that are lost are replaced as far as the cluster has room; their tasks go to others.

    Args:
        service: whose cluster it is.

    Attributes:
        width: how many workers there should be; 0 before it is connected.
    """

    def __init__(self, service: Service):
        self._service = service
        self.width = 0
        self._places: list[Place] = []
        self._waiting: deque[Task] = deque()
        self._numbers: dict[Hashable, int] = {}
        self._unshared: deque[Any] = deque()
        self._shared: list[Any] = []
        self._keys = itertools.count()
        self._dropped: deque[Task] = deque()
        self.lock = threading.RLock()
        self._grown_at = -_RETRY_SECONDS

    @functools.cached_property
    def _cluster(self) -> Cluster:
        cluster = self._service.connect()
        self.stop = finalize(self, cluster.stop)
        return cluster

    def connect(self) -> None:
        """Connects to the cluster, unless that was done.

        Raises:
            RuntimeError: it cannot be reached.
        """
        with self.lock:
            self.width = self.width or self._cluster.width()

    def key(self) -> int:
        """A number that no other split has."""
        return next(self._keys)

    def part(self, name: Hashable, make: Callable[[], Any]) -> int:
        """The number by which workers know a part of the plan."""
        with self.lock:
            if name not in self._numbers:
                self._unshared.append(make())
                self._numbers[name] = len(self._numbers)
            return self._numbers[name]

    def _share(self) -> None:
        """Lets all workers know the parts that they do not know yet."""
        while self._unshared:
            number, content = len(self._shared), self._cluster.share(self._unshared.popleft())
            self._shared.append(content)
            for place in self._places:
                place.worker.ask("learn", number, content)

    def enter(self, task: Task) -> None:
        """Has a task done when it is its turn."""
        with self.lock:
            self._sweep()
            self._waiting.append(task)
            self._assign()

    def leave(self, task: Task, place: Place | None) -> None:
        """Hears that a task is done or given up."""
        with self.lock:
            if task in self._waiting:
                self._waiting.remove(task)
            if place is not None and task in place.tasks:
                place.tasks.remove(task)
                place.reserved = False
            self._assign()

    def hurry(self, task: Task, alone: bool) -> None:
        """Has a task begun now, as somebody waits for it; ``alone`` on its worker if possible.

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
        """Hears that a task that was to be alone need not be any more."""
        with self.lock:
            if place is not None and place.reserved:
                place.reserved = False
                self._assign()

    def drop(self, task: Task) -> None:
        """Hears, perhaps while garbage is collected, that nobody wants a task any more."""
        self._dropped.append(task)

    def lost(self, place: Place, found_by: Task) -> None:
        """Hears that a worker is gone; ``found_by`` is going to ask for another by itself."""
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

    def _give(self, place: Place, task: Task) -> None:
        self._share()
        alone = not place.tasks
        place.tasks.append(task)
        task.assigned(place, alone)

    def _grow(self) -> None:
        """Starts as many workers as are missing; not in vain again and again."""
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
