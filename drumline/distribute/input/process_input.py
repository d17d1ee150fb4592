"""What each process reads of a dataset of global batches, by the dataset's auto-shard policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline._resumable import ResumableIterator, close_iterator
from drumline.data import Dataset
from drumline.data._dataset.sharing import (
    divides_by_file,
    file_share,
    files_read,
    hinted_share,
    next_epoch,
    set_next_epoch,
    set_shuffle_seeds,
    shuffle_seeds,
)
from drumline.data.elements.precision import keeping_64_bits
from drumline.data.options import AutoShardPolicy
from drumline.distribute import global_arrays
from drumline.distribute.input.options import InputOptions
from drumline.distribute.input.sharded_input import LockstepInputIterator, Step
from drumline.distribute.process_group.host_collectives import broadcast_host
from drumline.distribute.values import PerReplica

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def split_rows(rows: int, replicas: int) -> list[slice]:
    """Cut `rows` rows into one run for each replica, in order; sizes differ by at most one.

    With fewer rows than replicas the last replicas get none.
    """
    size, extra = divmod(rows, replicas)
    ends = np.cumsum([size + (index < extra) for index in range(replicas)])
    return [slice(int(end) - (size + (i < extra)), int(end)) for i, end in enumerate(ends)]


class LocalBatchSplitter:
    """Of batches of the global size, those for the replicas of one process, step by step.

    Each process has its own dataset, so that a batch of the global size lasts it for as many steps
    as there are processes.

    Args:
        source: the dataset's own iterator.
        strategy: whose replicas of this process take the batches.
    """

    def __init__(self, source: ResumableIterator[Any], strategy: Strategy) -> None:
        self._source = source
        self._processes = strategy.num_processes
        self._local = len(strategy.local_replica_devices)
        self._before: Any = None
        self._batch: Any = None
        self._parts: list[slice] = []
        self._used = 0

    def __iter__(self) -> LocalBatchSplitter:
        return self

    def __next__(self) -> list[Any]:
        if self._used == len(self._parts):
            self._take_batch()
        part = self._parts[self._used]
        self._used += 1
        return [
            jax.tree.map(lambda leaf, p=piece: leaf[part][p], self._batch)
            for piece in split_rows(part.stop - part.start, self._local)
        ]

    def state(self) -> dict[str, Any]:
        """The position of the next step: in the dataset, and in the batch that is used up."""
        if self._used == len(self._parts):
            return {"source": self._source.state(), "used": 0}
        return {"source": self._before, "used": self._used}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        self._source.restore(state["source"])
        self._parts, self._used = [], 0
        if state["used"]:
            self._take_batch()
            self._used = state["used"]

    def close(self) -> None:
        """End the threads behind the source."""
        close_iterator(self._source)

    def _take_batch(self) -> None:
        self._before = self._source.state()
        self._batch = next(self._source)
        rows = len(jax.tree.leaves(self._batch)[0])
        self._parts = [part for part in split_rows(rows, self._processes) if part.stop > part.start]
        self._used = 0


def steps_of(dataset: Iterable[Any], strategy: Strategy) -> tuple[Any, Iterator[Any]]:
    """The dataset's own iterator, and what is used for each step.

    Under `AutoShardPolicy.DATA` all processes go through the same global batches, of which each
    brings its share to its devices: a step is such a batch. So do processes that are given anything
    else than a `Dataset`, which must be the same in all of them. Otherwise each process goes
    through batches of its own, and a step is a `Step`. AUTO is FILE where enough files are read.

    Raises:
        ValueError: for a policy that the dataset does not allow.
    """
    if not isinstance(dataset, Dataset):
        source = iter(dataset)
        return source, source
    processes = strategy.num_processes
    policy = policy_of(dataset, processes)
    if policy is not AutoShardPolicy.OFF:
        agree_on_order(dataset, strategy)
        agree_on_files(dataset, policy, strategy)
    if policy is AutoShardPolicy.DATA:
        source = iter(dataset)
        return source, source
    if policy is AutoShardPolicy.FILE:
        dataset = file_share(dataset, processes, strategy.process_index)
    if policy is AutoShardPolicy.HINT:
        dataset = hinted_share(dataset, processes, strategy.process_index)
    parts = LocalBatchSplitter(iter(dataset), strategy)
    own = LockstepInputIterator(parts, parts, strategy, lambda: rowless_batch(dataset))
    return own, own


def agree_on_order(dataset: Dataset, strategy: Strategy) -> None:
    """Let the dataset's shuffles have the seeds that the first process drew, and its epoch."""
    seeds = shuffle_seeds(dataset)
    if seeds:
        agreed = broadcast_host(strategy, np.array([next_epoch(dataset), *seeds], np.uint64))
        epoch, *seeds = map(int, agreed)
        set_shuffle_seeds(dataset, seeds)
        set_next_epoch(dataset, epoch)


def agree_on_files(dataset: Dataset, policy: AutoShardPolicy, strategy: Strategy) -> None:
    """Make sure that all processes divide the same number of files, or none of them divides any.

    Raises:
        ValueError: if another process reads other files than the first.
    """
    files = files_read(dataset, strategy.num_processes)
    if files is None:
        return
    own = np.array([policy, files], np.int64)
    first = broadcast_host(strategy, own)
    if (own != first).any():
        raise ValueError(
            f"This process's dataset reads {files} files and is divided by {policy.name}, that of "
            f"the first process reads {first[1]} and is divided by "
            f"{AutoShardPolicy(first[0]).name}. Let all processes read the same files, or choose "
            "AutoShardPolicy.OFF for files of their own."
        )


def placed_step(strategy: Strategy, step: Step, options: InputOptions) -> Any:
    """The `PerReplica` values of a step's batches, on the devices of the replicas."""
    device = strategy.local_replica_devices[0]
    batches = options.to_place(step.batches)
    with keeping_64_bits(options.keep_64_bits):
        if step.of_all:
            return jax.tree.map(
                lambda *leaves: PerReplica(jax.device_put(list(leaves), device)), *batches
            )
        return jax.tree.map(
            lambda *rows: PerReplica.of_stacked(global_arrays.joined_rows(rows, strategy.mesh)),
            *batches,
        )


def global_batches(
    dataset: Iterable[Any], strategy: Strategy, change: Callable[[Any], Any]
) -> tuple[Any, Iterator[Any]]:
    """The dataset's own iterator, which has the position, and the global batches of one pass.

    One that splits evenly over the replicas may be an array of which each process has its part.
    Any other is the whole batch, on every process.

    Args:
        dataset: of global batches.
        strategy: one that spans processes.
        change: applied to each batch, row by row.
    """
    source, steps = steps_of(dataset, strategy)
    return source, (
        global_batch(step, strategy, change) if isinstance(step, Step) else change(step)
        for step in steps
    )


def global_batch(step: Step, strategy: Strategy, change: Callable[[Any], Any]) -> Any:
    """The global batch of a step; see `global_batches`."""
    whole = change(jax.tree.map(lambda *leaves: np.concatenate(leaves), *step.batches))
    if step.of_all:
        return whole
    return jax.tree.map(
        lambda leaf: jax.make_array_from_process_local_data(strategy.batch_sharding, leaf), whole
    )


def policy_of(dataset: Dataset, processes: int) -> AutoShardPolicy:
    """The policy by which a dataset is divided, never AUTO."""
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy is not AutoShardPolicy.AUTO:
        return policy
    by_file = divides_by_file(dataset, processes)
    return AutoShardPolicy.FILE if by_file else AutoShardPolicy.DATA


def has_own_steps(dataset: Iterable[Any], processes: int) -> bool:
    """Whether each process goes through batches of its own; see `steps_of`."""
    if not isinstance(dataset, Dataset):
        return False
    return policy_of(dataset, processes) is not AutoShardPolicy.DATA


def rowless_batch(dataset: Any) -> Any:
    """A batch of `dataset` without rows."""
    return jax.tree.map(
        lambda spec: np.zeros([0, *(size or 0 for size in spec.shape[1:])], spec.dtype),
        dataset.element_spec,
    )
