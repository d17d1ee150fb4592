"""One dataset for several processes: what they must agree on, and where each takes its share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from drumline.data.dataset import Dataset
from drumline.data.plan.buffering import Cache, CacheStore
from drumline.data.plan.node import Node
from drumline.data.plan.seeding import seed_of, with_seed
from drumline.data.rewrite.shard_hints import has_shard_hints, resolve_shard_hints


def shuffle_seeds(dataset: Dataset) -> list[int]:
    """The seeds of what is random in the dataset: those the user gave, and those drawn."""
    found = (seed_of(node) for node in dataset._plan.walk())
    return [seed for seed in found if seed is not None]


def set_shuffle_seeds(dataset: Dataset, seeds: Sequence[int]) -> None:
    """Let what is random have other seeds than those that were drawn for them.

    From its next epoch on `dataset` gives the order that belongs to them; datasets made of it
    before keep theirs.

    Args:
        dataset: the dataset.
        seeds: as `shuffle_seeds` gives them, in another process perhaps.
    """
    given = iter(seeds)

    def changed(node: Node) -> Node:
        inputs = tuple(changed(part) for part in node.inputs)
        if seed_of(node) is not None:
            return with_seed(node.with_inputs(*inputs), next(given))
        if isinstance(node, Cache):  # it may hold the other order
            return dataclasses.replace(node, inputs=inputs, store=CacheStore())
        return node.with_inputs(*inputs)

    if list(seeds) != shuffle_seeds(dataset):
        dataset._plan = changed(dataset._plan)
        dataset._epochs = None


def next_epoch(dataset: Dataset) -> int:
    """The number of the epoch that the next iteration of the dataset will be."""
    return dataset._next_epoch


def set_next_epoch(dataset: Dataset, epoch: int) -> None:
    """Let the next iteration be that epoch."""
    dataset._next_epoch = epoch


def hinted_share(dataset: Dataset, num_shards: int, index: int) -> Dataset:
    """The share that one of `num_shards` processes has of an epoch, where the hint says.

    Raises:
        ValueError: if it says so nowhere.
    """
    if not has_shard_hints(dataset._plan):
        raise ValueError(
            "AutoShardPolicy.HINT needs to be told where: call `.shard(dl.data.experimental."
            "SHARD_HINT, dl.data.experimental.SHARD_HINT)` on the dataset at that place, or choose "
            "AutoShardPolicy.DATA."
        )
    share = dataset._with(resolve_shard_hints(dataset._plan, num_shards, index))
    share._next_epoch = dataset._next_epoch
    dataset._next_epoch += 1
    return share
