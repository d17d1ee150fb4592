"""One dataset for several processes: what they must agree on, and where each takes its share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from drumline.data.engine.random_access import length_up_to
from drumline.data.operations.ordering.order import has_shard_hints, resolve_shard_hints
from drumline.data.operations.seeding import (
    drawn_seeds,
    seeds_of,
    with_drawn_seeds,
    with_seeds,
)
from drumline.data.plan.node import Node
from drumline.data.rewrite.shard_files import filenames, keeps_elements, shard_files

if TYPE_CHECKING:
    from drumline.data.dataset import Dataset


def shuffle_seeds(dataset: Dataset) -> list[int]:
    """The seeds of what is random in the dataset: those the user gave, and those drawn."""
    return seeds_of(dataset._plan)


def set_shuffle_seeds(dataset: Dataset, seeds: Sequence[int]) -> None:
    """Let what is random have other seeds than those that were drawn for them.

    From its next epoch on `dataset` gives the order that belongs to them; datasets made of it
    before keep theirs.

    Args:
        dataset: the dataset.
        seeds: as `shuffle_seeds` gives them, in another process perhaps.
    """
    if list(seeds) != shuffle_seeds(dataset):
        dataset._plan = with_seeds(dataset._plan, seeds)
        dataset._epochs = None


def next_epoch(dataset: Dataset) -> int:
    """The number of the epoch that the next iteration of the dataset will be."""
    return dataset._next_epoch


def set_next_epoch(dataset: Dataset, epoch: int) -> None:
    """Let the next iteration be that epoch."""
    dataset._next_epoch = epoch


def epochs_state(dataset: Dataset) -> dict[str, Any]:
    """What the later iterations of the dataset depend on: their numbers, and seeds drawn for them.

    Small, and can be written as JSON.
    """
    return {"epoch": dataset._next_epoch, "seeds": drawn_seeds(dataset._plan)}


def set_epochs_state(dataset: Dataset, state: dict[str, Any]) -> None:
    """Let later iterations be those that another, equal dataset would have had next.

    Args:
        dataset: the dataset.
        state: as `epochs_state` gives it, in another process perhaps.

    Raises:
        ValueError: if the other dataset had drawn another number of seeds.
    """
    drawn = drawn_seeds(dataset._plan)
    if len(drawn) != len(state["seeds"]):
        raise ValueError(
            f"The state was taken from a dataset with {len(state['seeds'])} operations that draw "
            f"a seed; this one has {len(drawn)}: {dataset!r}. Build the same operations with the "
            "same arguments and seeds."
        )
    if drawn != list(state["seeds"]):
        dataset._plan = with_drawn_seeds(dataset._plan, state["seeds"])
        dataset._epochs = None
    dataset._next_epoch = state["epoch"]


def files_read(dataset: Dataset, most: int) -> int | None:
    """How many files the dataset reads, counted up to ``most``.

    Where it reads files in several places, the fewest of one place; ``None`` if not all of its
    elements come from files.
    """
    named = filenames(dataset._plan)
    return None if named is None else min(length_up_to(names, most) for names in named)


def divides_by_file(dataset: Dataset, num_shards: int) -> bool:
    """Whether its files give each of ``num_shards`` processes some of the elements, once."""
    if not keeps_elements(dataset._plan):
        return False
    files = files_read(dataset, num_shards)
    return files is not None and files >= num_shards


def file_share(dataset: Dataset, num_shards: int, index: int) -> Dataset:
    """Return one process's shard of an epoch: the records of every `num_shards`-th file.

    Raises:
        ValueError: if it reads no files, or fewer than there are processes.
    """
    files = files_read(dataset, num_shards)
    if files is None:
        raise ValueError(
            "AutoShardPolicy.FILE divides the files that a dataset reads, and this one reads none, "
            f"or has other elements as well: {dataset!r}. Choose AutoShardPolicy.DATA, or make a "
            "dataset of each process's files with strategy.distribute_datasets_from_function."
        )
    if files < num_shards:
        raise ValueError(
            f"AutoShardPolicy.FILE: there are not enough files for each process to have one "
            f"({files} for {num_shards} processes). Split the input into more files, or choose "
            "AutoShardPolicy.DATA or OFF."
        )
    shares = _file_shares.setdefault(dataset._plan, {})
    place = (num_shards, index)
    if place not in shares:
        # One plan for all epochs, since it may hold a cache.
        shares[place] = shard_files(dataset._plan, *place)
    return _share(dataset, shares[place])


_file_shares: WeakKeyDictionary[Node, dict[tuple[int, int], Node]] = WeakKeyDictionary()


def hinted_share(dataset: Dataset, num_shards: int, index: int) -> Dataset:
    """The share that one of `num_shards` processes has of an epoch, where the hint says.

    Raises:
        ValueError: if it says so nowhere.
    """
    if not has_shard_hints(dataset._plan):
        raise ValueError(
            "AutoShardPolicy.HINT needs the place: call `.shard(dl.data.experimental."
            "SHARD_HINT, dl.data.experimental.SHARD_HINT)` on the dataset at that place, or choose "
            "AutoShardPolicy.DATA."
        )
    return _share(dataset, resolve_shard_hints(dataset._plan, num_shards, index))


def _share(dataset: Dataset, plan: Node) -> Dataset:
    """What this process has of the next epoch of ``dataset``, by ``plan``."""
    share = dataset._with(plan)
    share._next_epoch = dataset._next_epoch
    dataset._next_epoch += 1
    return share
