"""Datasets, seen as each replica's share of a step."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline.data.elements.precision import keeping_64_bits
from drumline.distribute import global_arrays
from drumline.distribute.input.distributed_iterator import DistributedIterator
from drumline.distribute.input.options import InputOptions, InputReplicationMode
from drumline.distribute.input.process_input import placed_step, split_rows, steps_of
from drumline.distribute.input.sharded_input import Step
from drumline.distribute.values import PerReplica, on_replicas

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


class DistributedDataset:
    """Iterates a dataset's global batches as `PerReplica` values, placed on the devices.

    With one replica the batches keep their plain form. Made by
    `Strategy.experimental_distribute_dataset`.

    Attributes:
        dataset: the dataset of global batches.
        strategy: the strategy whose replicas share them.
    """

    def __init__(
        self, dataset: Iterable[Any], strategy: Strategy, options: InputOptions | None = None
    ) -> None:
        self.dataset = dataset
        self.strategy = strategy
        self._options = InputOptions.of(options)
        if self._options.experimental_replication_mode is InputReplicationMode.PER_REPLICA:
            raise NotImplementedError(
                "InputReplicationMode.PER_REPLICA makes a pipeline for each replica, which only a "
                "function can: use strategy.distribute_datasets_from_function."
            )

    def __iter__(self) -> DistributedIterator:
        source: Any
        steps: Iterator[Any]
        if self.strategy._planner is not None:
            self.strategy._planner.saw_input(self.dataset)
        if self.strategy.spans_processes:
            source, steps = steps_of(self.dataset, self.strategy)
        else:
            source = steps = iter(self.dataset)
        fetch = self._options.experimental_fetch_to_device
        return DistributedIterator(
            source,
            steps,
            self._distribute if fetch else self._on_host,
            self._distribute_many if fetch and self.strategy._planner is None else None,
            lambda: self.element_spec,
            self._options.experimental_per_replica_buffer_size,
        )

    @property
    def element_spec(self) -> Any:
        """What each replica gets: a `TensorSpec` a leaf, or one for each of several replicas.

        The first dimension is None unless all batches have the same number of rows, which divides.
        """
        spec = self.dataset.element_spec  # type: ignore[attr-defined]
        options = self._options
        narrow = options.experimental_fetch_to_device and not options.keep_64_bits
        return on_replicas(spec, self._replicas, self._share, narrow=narrow)

    @property
    def _replicas(self) -> int:
        return self.strategy.num_replicas_in_sync

    def _share(self, rows: int | None) -> int | None:
        return None if rows is None or rows % self._replicas else rows // self._replicas

    def _distribute(self, batch: Any) -> Any:
        if isinstance(batch, Step):
            return placed_step(self.strategy, batch, self._options)
        batch = self._options.to_place(batch)
        if self.strategy._planner is not None:
            return self.strategy._planner.divided(self.strategy, batch)
        with keeping_64_bits(self._options.keep_64_bits):
            return self._divided(batch)

    def _divided(self, batch: Any) -> Any:
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return jax.device_put(batch, self.strategy.replica_devices[0])
        rows = _rows(batch)
        if rows and rows % replicas == 0:
            return self._placed(jax.tree.map(functools.partial(_cut, replicas, 0), batch), 0)
        pieces = split_rows(rows, replicas)
        devices = list(self.strategy.replica_devices)
        if self.strategy.spans_processes:  # each process computes the step on all of the batch
            devices = [self.strategy.local_replica_devices[0]] * replicas
        return jax.tree.map(
            lambda leaf: PerReplica(jax.device_put([leaf[piece] for piece in pieces], devices)),
            batch,
        )

    def _on_host(self, batch: Any) -> Any:
        if isinstance(batch, Step):
            return placed_step(self.strategy, batch, self._options)
        if self.strategy._planner is not None:
            return self.strategy._planner.divided(self.strategy, batch)
        if self._replicas == 1:
            return batch
        pieces = split_rows(_rows(batch), self._replicas)
        return jax.tree.map(lambda leaf: PerReplica([leaf[piece] for piece in pieces]), batch)

    def _distribute_many(self, batches: Sequence[Any]) -> Any:
        stacked = self._options.to_place(jax.tree.map(lambda *leaves: np.stack(leaves), *batches))
        with keeping_64_bits(self._options.keep_64_bits):
            return self._divided_many(stacked)

    def _divided_many(self, stacked: Any) -> Any:
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return jax.device_put(stacked, self.strategy.replica_devices[0])
        return self._placed(jax.tree.map(functools.partial(_cut, replicas, 1), stacked), 1)

    def _placed(self, cut: Any, axis: int) -> Any:
        """`PerReplica` values of arrays whose `axis` counts the replicas."""
        return jax.tree.map(
            PerReplica.of_stacked, global_arrays.shard(cut, self.strategy.mesh, axis)
        )


def _cut(replicas: int, axis: int, leaf: Any) -> Any:
    shape = leaf.shape
    return leaf.reshape(*shape[:axis], replicas, shape[axis] // replicas, *shape[axis + 1 :])


def _rows(batch: Any) -> int:
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            "A batch to distribute needs the same first dimension in all of its components, got "
            f"the shapes {[np.shape(leaf) for leaf in jax.tree.leaves(batch)]}. Call "
            "`.batch(global_batch_size)` on the dataset first."
        )
    return int(sizes.pop()[0])
