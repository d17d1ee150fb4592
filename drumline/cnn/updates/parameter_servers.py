"""Variables on the tasks of ``--ps_hosts``: each worker's steps pull weights and push gradients.

The first worker leads: it schedules the steps of all workers, its own among them, and shows what
the original's workers each show. With ``--cross_replica_sync`` the steps of all workers make one
update with the mean of their gradients; else each step updates by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, PartitionSpec

import drumline as dl
from drumline.cnn.updates import hosts
from drumline.cnn.updates.steps import GRADIENTS, LossOptions, TrainingStep
from drumline.distribute.parameter_server import ChiefLostError

_AXIS = "device"
_FAR = 0x9E3779B9
"""What seeds of a worker's devices differ by: none is another one's next."""

WITHOUT_LEADER_SECONDS = 60.0
"""How long tasks wait for a leader that is lost."""


def serve(flags: Any, say: Callable[[str], None]) -> None:
    """Be a parameter server, or a worker that another one leads, until the run has ended.

    Raises:
        OSError: if the address is taken, or not this machine's.
        ConnectionError: if the leader does not come, or is lost.
    """
    kind = "parameter server" if flags.job_name == "ps" else "worker"
    if kind == "worker":
        dl.config.set_logical_devices("cpu", flags.num_gpus)
    server = dl.distribute.Server(
        hosts.cluster_of(flags),
        flags.job_name,
        flags.task_index,
        without_chief_seconds=WITHOUT_LEADER_SECONDS,
        first_chief_seconds=hosts.HOSTS_SECONDS,
    )
    say(f"Running {kind} {flags.task_index}")
    try:
        server.join()
    except ChiefLostError as error:
        leader = hosts.tasks_of(flags)[0]
        raise ConnectionError(
            f"{leader}, which leads, was waited for {error.seconds:.0f} s: {error.reason}."
        ) from error
    finally:
        server.close()
    say("Worker 0, which leads, has ended the run.")


def strategy_of(
    flags: Any, say: Callable[[str], None]
) -> tuple[dl.distribute.ParameterServerStrategy, list[Any]]:
    """Return the leader's strategy, and be a worker in the same process.

    Returns:
        The strategy, and connections to all other tasks: while they last these know their leader.

    Raises:
        OSError: if the address is taken, or not this machine's; or names a task that does not
            answer.
    """
    cluster = hosts.cluster_of(flags)
    dl.distribute.Server(cluster, "worker", 0)
    connections = hosts.wait_for_others(flags, say)
    strategy = dl.distribute.ParameterServerStrategy(
        dl.distribute.cluster_resolver.SimpleClusterResolver(cluster),
        synchronous=flags.cross_replica_sync,
    )
    return strategy, connections


class ServerStep(TrainingStep):
    """A step of every worker, each with a batch of its own.

    Args:
        strategy: the leader's.
        model: see `TrainingStep`.
        optimizer: see `TrainingStep`; None where nothing is trained.
        options: of one worker's step.
        dataset: from an input context to a worker's batches, without an end.
        devices: of each worker; they take equal parts of its batch, and it pushes the sum of their
            gradients.

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
        devices: int = 1,
    ) -> None:
        super().__init__(strategy, model, optimizer, options)
        self._replicas = devices
        # Its devices stand for each worker's own, which take their places there.
        self._mesh = Mesh(np.array(jax.local_devices()[:devices]), (_AXIS,))
        self._coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        self._addresses = strategy.worker_addresses
        self.workers = len(self._addresses)
        self._batches = iter(self._coordinator.create_per_worker_dataset(dataset))

        self._worker_steps = {
            with_gradients: self._worker_step(with_gradients) for with_gradients in (False, True)
        }

    def _worker_step(self, with_gradients: bool) -> Callable[[Iterator[Any]], dict[str, Any]]:
        program = self._program(with_gradients)

        def worker_step(batches: Iterator[Any]) -> dict[str, Any]:
            results: dict[str, Any] = self.strategy.run(program, args=tuple(next(batches)))
            return results

        return worker_step

    def _gradients(self, images: Any, labels: Any) -> tuple[list[Any], dict[str, Any]]:
        if self._replicas == 1:
            return super()._gradients(images, labels)
        trained, others = self.model.trainable_variables, self.model.non_trainable_variables
        on_devices: Callable[..., Any] = jax.shard_map(
            self._on_device,
            mesh=self._mesh,
            in_specs=(PartitionSpec(), PartitionSpec(), PartitionSpec(_AXIS), PartitionSpec(_AXIS)),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
        values = [[variable.value for variable in group] for group in (trained, others)]
        gradients, report, new = on_devices(*values, images, labels)
        for variable, value in zip(others, new, strict=True):
            variable.assign(value)
        return gradients, report

    def _on_device(
        self, trained: list[Any], others: list[Any], images: Any, labels: Any
    ) -> tuple[list[Any], dict[str, Any], list[Any]]:
        """Traced for each device of a worker: gradients and report of all, and other variables."""
        device = jax.lax.axis_index(_AXIS)

        def loss(trained: list[Any]) -> tuple[Any, Any]:
            own = [_seed_of(device, value) for value in others]
            logits, new = self.model.stateless_call(trained, own, images, training=True)
            scaled, report = self._loss(logits, labels, trained)
            return scaled, (report, new)

        (_, (report, new)), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        sums = jax.lax.psum(([self._unscaled(each) for each in gradients], report), _AXIS)
        return *sums, [_joined(device, value) for value in new]

    def batches(self) -> Iterator[None]:
        """Nothing, for ever: workers have their own batches."""
        while True:
            yield None

    def __call__(self, batch: Any, with_gradients: bool = False) -> Any:
        """Schedule a step of every worker; return what they will report."""
        del batch
        worker_step = self._worker_steps[with_gradients]
        return [
            self._coordinator.schedule(worker_step, args=(self._batches,))
            for _ in range(self.workers)
        ]

    def wait(self, results: Any) -> None:
        """Wait for a step of every worker.

        Raises:
            ConnectionError: if a worker is lost: others have done its part, and what is measured
                is not what was asked for.
        """
        for each in results:
            each.fetch()
        for index, lost in enumerate(self._coordinator.counts()["workers lost"]):
            if lost:
                raise ConnectionError(
                    f"--worker_hosts: worker {index} at {self._addresses[index]} "
                    "was lost, as is said above, so the run ends. See what ended it there, and "
                    "start all again."
                )

    def report(self, results: Any) -> dict[str, float]:
        """The means of what the workers report."""
        reports = [each.fetch() for each in results]
        return {
            name: float(np.mean([report[name] for report in reports]))
            for name in reports[0]
            if name != GRADIENTS
        }

    def gradients(self, results: Any) -> list[Any]:
        """The means of the workers' gradients."""
        parts = zip(*(each.fetch()[GRADIENTS] for each in results), strict=True)
        return [np.mean(of_workers, axis=0) for of_workers in parts]

    def barrier(self) -> None:
        """Wait for all that is scheduled."""
        self._coordinator.join()

    def close(self) -> None:
        """End the run for all tasks."""
        self._coordinator.close()


def _seed_of(device: Any, value: Any) -> Any:
    """A random generator's state for one device of a worker; other values as they are."""
    if value.dtype != jnp.uint32:
        return value
    return value.at[0].add(device.astype(jnp.uint32) * jnp.uint32(_FAR))


def _joined(device: Any, value: Any) -> Any:
    """The mean over a worker's devices; of what is counted, the first device's."""
    if jnp.issubdtype(value.dtype, jnp.floating):
        return jax.lax.pmean(value, _AXIS)
    return jax.lax.psum(jnp.where(device == 0, value, jnp.zeros_like(value)), _AXIS)


def synthetic_dataset(made: tuple[jax.Array, jax.Array]) -> dl.data.Dataset:
    """The same batch for ever, as a dataset that every worker makes from its bytes."""
    return dl.data.Dataset.from_tensors(tuple(np.asarray(part) for part in made)).repeat()
