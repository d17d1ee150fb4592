"""Variables on the tasks of ``--ps_hosts``: each worker's steps pull weights and push gradients.

The first worker leads: it schedules the steps of all workers, its own among them, and shows what
the original's workers each show. With ``--cross_replica_sync`` the steps of all workers make one
update with the mean of their gradients; else each step updates by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np

import drumline as dl
from drumline.cnn.updates.steps import LossOptions, TrainingStep

WITHOUT_LEADER_SECONDS = 60.0
"""How long tasks wait for a leader that is lost."""


def cluster_of(flags: Any) -> dl.train.ClusterSpec:
    """The workers and parameter servers of the flags."""
    jobs = {"worker": flags.worker_hosts, "ps": flags.ps_hosts}
    return dl.train.ClusterSpec(
        {job: [host.strip() for host in hosts.split(",")] for job, hosts in jobs.items()}
    )


def serve(flags: Any, say: Callable[[str], None]) -> None:
    """Be a parameter server, or a worker that another one leads, until the run has ended.

    Raises:
        OSError: if the address is taken, or not this machine's.
        drumline.distribute.parameter_server.ChiefLostError: if the leader is lost.
    """
    kind = "parameter server" if flags.job_name == "ps" else "worker"
    server = dl.distribute.Server(
        cluster_of(flags),
        flags.job_name,
        flags.task_index,
        without_chief_seconds=WITHOUT_LEADER_SECONDS,
    )
    say(f"Running {kind} {flags.task_index}")
    server.join()


def strategy_of(flags: Any) -> dl.distribute.ParameterServerStrategy:
    """Return the leader's strategy, and be a worker in the same process."""
    cluster = cluster_of(flags)
    dl.distribute.Server(cluster, "worker", 0)
    return dl.distribute.ParameterServerStrategy(
        dl.distribute.cluster_resolver.SimpleClusterResolver(cluster),
        synchronous=flags.cross_replica_sync,
    )


class ServerStep(TrainingStep):
    """A step of every worker, each with a batch of its own.

    Args:
        strategy: the leader's.
        model: see `TrainingStep`.
        optimizer: see `TrainingStep`; None where nothing is trained.
        options: of one worker's step.
        dataset: from an input context to a worker's batches, without an end.

    Attributes:
        workers: how many there are.
    """

    def __init__(
        self,
        strategy: dl.distribute.ParameterServerStrategy,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None,
        options: LossOptions,
        dataset: Callable[[Any], dl.data.Dataset],
    ) -> None:
        super().__init__(strategy, model, optimizer, options)
        self._coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        self.workers = len(strategy.worker_addresses)
        self._batches = iter(self._coordinator.create_per_worker_dataset(dataset))

        def worker_step(batches: Iterator[Any]) -> dict[str, Any]:
            results: dict[str, Any] = strategy.run(self._run, args=tuple(next(batches)))
            return results

        self._worker_step = worker_step

    def batches(self) -> Iterator[None]:
        """Nothing, for ever: workers have their own batches."""
        while True:
            yield None

    def __call__(self, batch: Any) -> Any:
        """Schedule a step of every worker; return what they will report."""
        del batch
        return [
            self._coordinator.schedule(self._worker_step, args=(self._batches,))
            for _ in range(self.workers)
        ]

    def wait(self, results: Any) -> None:
        """Wait for a step of every worker."""
        for each in results:
            each.fetch()

    def report(self, results: Any) -> dict[str, float]:
        """The means of what the workers report."""
        reports = [each.fetch() for each in results]
        return {name: float(np.mean([report[name] for report in reports])) for name in reports[0]}

    def barrier(self) -> None:
        """Wait for all that is scheduled."""
        self._coordinator.join()

    def close(self) -> None:
        """End the run for all tasks."""
        self._coordinator.close()


def synthetic_dataset(made: tuple[jax.Array, jax.Array]) -> dl.data.Dataset:
    """The same batch for ever, as a dataset that every worker makes from its bytes."""
    return dl.data.Dataset.from_tensors(tuple(np.asarray(part) for part in made)).repeat()
