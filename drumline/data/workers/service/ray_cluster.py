"""Workers that are actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)

from drumline.data.workers.remote.cluster import WorkerLost
from drumline.data.workers.service.plan_worker import PlanWorker
from drumline.data.workers.service.ray_connection import connect, free_cpus

# A worker that Ray ends because its machine runs out of memory is reported as that.
_LOST = (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    WorkerCrashedError,
)
_JOIN_SECONDS = 2.0
_RELEASE_SECONDS = 10.0
_START_SECONDS = 300.0


class RayCluster:
    """The cluster at an address; the process is connected to it once, for all datasets.

    Args:
        address: of a node; ``None`` for the environment's, or one that is started.
        workers: how many; ``None`` for one for each free CPU.
        cpus: how many of Ray's CPUs each takes.

    Raises:
        RuntimeError: it cannot be reached, the process is connected to another one, or there are no
            free CPUs.
    """

    def __init__(self, address: str | None, workers: int | None, cpus: float):
        connect(address)
        self._cpus = cpus
        self._workers: list[RayWorker] = []
        room = _room(cpus, workers or 1)
        wanted = room if workers is None else workers
        if not 1 <= wanted <= room:
            raise RuntimeError(
                f"distribute: the Ray cluster has {free_cpus():g} free CPUs of {_cpus():g}, and "
                f"{wanted or 1} workers need {cpus * (wanted or 1):g}. Add nodes (`drumline "
                "data-service start --address`), or lower workers= here or for the datasets that "
                "have the others"
            )
        self._width = wanted

    def width(self) -> int:
        return self._width

    def start(self) -> RayWorker | None:
        # Ray would wait for room without end, and whoever asked with it.
        if self._starting() + self._cpus > free_cpus() + 1e-9:
            return None
        self._workers.append(RayWorker(self._cpus))
        return self._workers[-1]

    def _starting(self) -> float:
        """Return what is promised to workers and not yet counted as taken by Ray."""
        now = time.monotonic()
        return self._cpus * sum(now - worker.since < _JOIN_SECONDS for worker in self._workers)

    def share(self, value: Any) -> Any:
        return ray.put(value)

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()


class RayWorker:
    """An actor.

    Args:
        cpus: how many of Ray's CPUs it takes.
    """

    def __init__(self, cpus: float):
        self.since = time.monotonic()
        self._first: Any = None
        self._begun = False
        environment: dict[str, Any] = {"env_vars": {"JAX_PLATFORMS": "cpu"}}
        made = ray.remote(PlanWorker).options(
            num_cpus=cpus, scheduling_strategy="SPREAD", runtime_env=environment, max_restarts=0
        )
        self._actor: Any = made.remote()

    def ask(self, method: str, *arguments: Any) -> RayAnswer:
        reference = getattr(self._actor, method).remote(*arguments)
        self._first = self._first or reference
        return RayAnswer(self, reference)

    def check_begun(self) -> None:
        """Wait for its first answer, or its end.

        Raises:
            RuntimeError: neither has come: Ray has no room for it after all.
        """
        if not self._begun:
            ready, _ = ray.wait([self._first], timeout=_START_SECONDS, fetch_local=False)
            if not ready:
                raise RuntimeError(
                    f"distribute: Ray has not started a worker in {_START_SECONDS:g} seconds; see "
                    "`drumline data-service status`, and lower workers= if others use the cluster"
                )
            self._begun = True

    def stop(self) -> None:
        # At the end of the process Ray may have been shut down, and its actors with it.
        if ray.is_initialized():
            with contextlib.suppress(*_LOST, ValueError):
                ray.kill(self._actor)


class RayAnswer:
    """The future result of an actor's method."""

    def __init__(self, worker: RayWorker, reference: Any):
        self._worker = worker
        self._reference = reference

    def result(self) -> Any:
        self._worker.check_begun()
        try:
            return ray.get(self._reference)
        except RayTaskError as error:
            raise error.cause from None
        except _LOST as error:
            raise WorkerLost(str(error)) from error


def _room(cpus: float, wanted: int) -> int:
    """Return for how many workers there are free CPUs, after waiting for those of ended workers."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while (room := int(free_cpus() / cpus)) < wanted <= _cpus() / cpus:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return room


def _cpus() -> float:
    return float(ray.cluster_resources().get("CPU", 0))
