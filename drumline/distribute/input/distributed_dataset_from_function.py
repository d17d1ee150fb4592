"""Datasets that a function makes, whose batches are for one replica each."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax

from drumline._resumable import as_resumable, close_iterator
from drumline.data import INFINITE_CARDINALITY
from drumline.data.elements.precision import keeping_64_bits
from drumline.distribute.input.distributed_iterator import DistributedIterator
from drumline.distribute.input.options import InputContext, InputOptions, InputReplicationMode
from drumline.distribute.input.process_input import global_batch, placed_step, rowless_batch
from drumline.distribute.input.sharded_input import LockstepInputIterator, Step
from drumline.distribute.values import PerReplica, on_replicas

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


class ZippedReplicaIterators:
    """The elements of several pipelines side by side, until all have ended.

    One that ends before the others gives elements without rows.

    Args:
        iterators: the pipelines' iterators.
    """

    def __init__(self, iterators: Sequence[Iterator[Any]]) -> None:
        self._iterators = list(map(as_resumable, iterators))
        self._rowless: Any = None

    def __iter__(self) -> ZippedReplicaIterators:
        return self

    def __next__(self) -> list[Any]:
        elements = [next(iterator, _END) for iterator in self._iterators]
        present = [element for element in elements if element is not _END]
        if not present:
            raise StopIteration
        rowless = jax.tree.map(lambda leaf: leaf[:0], present[0])
        return [rowless if element is _END else element for element in elements]

    def state(self) -> dict[str, Any]:
        """The position of each pipeline."""
        return {"pipelines": [iterator.state() for iterator in self._iterators]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken.

        Raises:
            ValueError: if it is not of so many pipelines.
        """
        states = state.get("pipelines", []) if isinstance(state, dict) else []
        if len(states) != len(self._iterators):
            raise ValueError(
                f"The state is of {len(states)} pipelines, but there are {len(self._iterators)}: "
                "with InputReplicationMode.PER_REPLICA it can be restored with as many replicas."
            )
        for iterator, each in zip(self._iterators, states, strict=True):
            iterator.restore(each)

    def close(self) -> None:
        """End the threads behind the pipelines."""
        for iterator in self._iterators:
            close_iterator(iterator)


_END = object()


class DistributedDatasetFromFunction:
    """Iterates per-replica batches that a function's dataset gives, one for each replica a step.

    Made by `Strategy.distribute_datasets_from_function`. If the dataset ends in the middle of a
    step, the replicas that are left get batches without rows.

    Attributes:
        strategy: the strategy whose replicas take the batches in turn.
    """

    def __init__(
        self,
        dataset_fn: Callable[[InputContext], Iterable[Any]],
        strategy: Strategy,
        options: InputOptions | None = None,
    ) -> None:
        self.strategy = strategy
        self._options = InputOptions.of(options)
        mode = self._options.experimental_replication_mode
        replicas = strategy.num_replicas_in_sync
        self._apart = mode is InputReplicationMode.PER_REPLICA
        pipelines = replicas if self._apart else strategy.num_processes
        numbers = strategy.local_replica_ids if self._apart else [strategy.process_index]
        self._datasets = [dataset_fn(InputContext(pipelines, n, replicas)) for n in numbers]

    @property
    def dataset(self) -> Any:
        """The dataset that the function made for this process, or for its first replica."""
        return self._datasets[0]

    @property
    def datasets(self) -> list[Any]:
        """The datasets that the function made, one for each pipeline of this process."""
        return self._datasets

    def global_batches(self, change: Callable[[Any], Any]) -> tuple[Any, Iterator[Any]]:
        """What has the position, and the replicas' batches joined as Keras's trainer takes them.

        Args:
            change: applied to each batch, row by row.
        """
        source, steps = self._start()
        return source, (
            global_batch(
                step if isinstance(step, Step) else Step(step, of_all=True), self.strategy, change
            )
            for step in steps
        )

    def _start(self) -> tuple[Any, Iterator[Any]]:
        source: Any
        steps: Iterator[Any]
        if self._apart:
            source = steps = ZippedReplicaIterators([iter(dataset) for dataset in self._datasets])
        else:
            source = iter(self._datasets[0])
            steps = self._in_turn(source)
        if self.strategy.spans_processes:
            rowless = functools.partial(rowless_batch, self._datasets[0])
            source = steps = LockstepInputIterator(source, steps, self.strategy, rowless)
        return source, steps

    def __iter__(self) -> DistributedIterator:
        if self.strategy._planner is not None:
            self.strategy._planner.saw_input(self.dataset)
        source, steps = self._start()
        return DistributedIterator(
            source,
            steps,
            self._distribute,
            spec=lambda: self.element_spec,
            on_devices=self._options.experimental_per_replica_buffer_size,
        )

    @property
    def element_spec(self) -> Any:
        """What each replica gets: a `TensorSpec` a leaf, or one for each of several replicas.

        The first dimension is None unless all batches have the same number of rows and there is
        one for every replica in every step.
        """
        spec = self._datasets[0].element_spec  # type: ignore[attr-defined]
        replicas = self.strategy.num_replicas_in_sync
        options = self._options
        narrow = options.experimental_fetch_to_device and not options.keep_64_bits
        full = not self.strategy.spans_processes and self._always_full()
        return on_replicas(spec, replicas, lambda r: r if full else None, narrow=narrow)

    def _always_full(self) -> bool:
        numbers = {int(dataset.cardinality()) for dataset in self._datasets}  # type: ignore[attr-defined]
        if len(numbers) > 1:
            return False
        (number,) = numbers
        taken = 1 if self._apart else self.strategy.num_replicas_in_sync
        return number == INFINITE_CARDINALITY or (number >= 0 and number % taken == 0)

    def _in_turn(self, source: Iterator[Any]) -> Iterator[list[Any]]:
        replicas = len(self.strategy.local_replica_devices)
        if self.strategy._planner is not None:  # shapes count: a share serves all replicas
            yield from ([first] * self.strategy.num_replicas_in_sync for first in source)
        for first in source:
            batches = [first, *itertools.islice(source, replicas - 1)]
            empty = jax.tree.map(lambda leaf: leaf[:0], first)
            yield batches + [empty] * (replicas - len(batches))

    def _distribute(self, batches: Any) -> Any:
        if isinstance(batches, Step):
            return placed_step(self.strategy, batches, self._options)
        fetch = self._options.experimental_fetch_to_device
        if fetch:
            batches = self._options.to_place(batches)
        with keeping_64_bits(self._options.keep_64_bits):
            return self._placed(batches, fetch)

    def _placed(self, batches: Any, fetch: bool) -> Any:
        if self.strategy._planner is not None:
            return self.strategy._planner.from_shares(self.strategy, batches)
        if self.strategy.num_replicas_in_sync == 1:
            (batch,) = batches
            return jax.device_put(batch, self.strategy.replica_devices[0]) if fetch else batch
        if fetch:
            return self.strategy.per_replica(batches)
        return jax.tree.map(lambda *leaves: PerReplica(leaves), *batches)
