"""A cluster in this process: workers get pickled plans, answer in threads of their own, and die."""

from __future__ import annotations

import contextlib
import pickle
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import cloudpickle

from drumline.data import Dataset
from drumline.data._dataset.placement import distribution
from drumline.data.workers.remote.cluster import WorkerLost
from drumline.data.workers.service.plan_worker import PlanWorker

_here = threading.local()


class Death(BaseException):
    """Not an error of the user's: nothing in a worker may catch it."""


def die() -> None:
    """In a user's function: the end of the worker that runs it; nothing elsewhere."""
    if getattr(_here, "is_worker", False):
        raise Death


class FakeAnswer:
    def __init__(self) -> None:
        self.future: Future[bytes] = Future()

    def result(self) -> Any:
        answer = pickle.loads(self.future.result(timeout=60))
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeWorker:
    """Does what it is asked in a thread.

    Args:
        cluster: counts what all workers are asked.
    """

    def __init__(self, cluster: FakeCluster):
        self._cluster = cluster
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._dead = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def ask(self, method: str, *arguments: Any) -> FakeAnswer:
        answer = FakeAnswer()
        with self._lock:
            if self._dead:
                answer.future.set_exception(WorkerLost("it is dead"))
            else:
                self._requests.put((answer, method, cloudpickle.dumps(arguments)))
        return answer

    def _serve(self) -> None:
        worker = PlanWorker()
        _here.is_worker = True
        while (request := self._requests.get()) is not None:
            answer, method, arguments = request
            fate = self._cluster.fate(method)
            try:
                if fate == "before":
                    die()
                try:
                    found = getattr(worker, method)(*pickle.loads(arguments))
                except Exception as error:
                    found = error
                if fate == "after":
                    die()
            except Death:
                self._bury(answer)
                return
            with self._lock:
                if self._dead:
                    answer.future.set_exception(WorkerLost("it was stopped"))
                else:
                    answer.future.set_result(cloudpickle.dumps(found))

    def _bury(self, answer: FakeAnswer) -> None:
        with self._lock:
            self._dead = True
            answer.future.set_exception(WorkerLost("it died"))
            self._lose_waiting()

    def _lose_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                request = self._requests.get_nowait()
                if request is not None:
                    request[0].future.set_exception(WorkerLost("it died before"))

    def stop(self) -> None:
        with self._lock:
            self._dead = True
            self._lose_waiting()
            self._requests.put(None)

    def join(self) -> None:
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()


class FakeCluster:
    """A number of workers.

    Args:
        workers: how many.
        deaths: for the requests for elements, in the order in which workers come to them:
            ``"before"`` for a worker that dies without having begun, ``"after"`` for one that dies
            before it has answered, anything else for one that answers; so do all after the last.
    """

    def __init__(self, workers: int, deaths: Sequence[str | None] = ()):
        self.workers = workers
        self.started: list[FakeWorker] = []
        self.room = 10_000
        self._deaths = list(deaths)
        self._lock = threading.Lock()

    def fate(self, method: str) -> str | None:
        with self._lock:
            return self._deaths.pop(0) if method == "pull" and self._deaths else None

    def width(self) -> int:
        return self.workers

    def start(self) -> FakeWorker | None:
        if self.room <= 0:
            return None
        self.room -= 1
        self.started.append(FakeWorker(self))
        return self.started[-1]

    def share(self, value: Any) -> Any:
        return value

    def stop(self) -> None:
        for worker in self.started:
            worker.stop()


class FakeService:
    """Gives one cluster out, again and again."""

    def __init__(self, cluster: FakeCluster):
        self.cluster = cluster

    def connect(self) -> FakeCluster:
        return self.cluster

    def describe(self) -> str:
        return "threads"


def distributed(
    dataset: Dataset, cluster: FakeCluster, mode: Any = "dynamic", workers: int | None = None
) -> Dataset:
    """``dataset.distribute(mode, workers=workers)``, on threads."""
    return dataset._with(distribution(dataset._plan, mode, FakeService(cluster), workers))
