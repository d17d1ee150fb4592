"""The shards of stored elements as one dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data._dataset.base import as_dataset
from drumline.data.elements.spec import STRING, DatasetSpec, ElementSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.functions.dataset_function import DatasetFunction, dataset_function
from drumline.data.operations.nested.windows import held_rows
from drumline.data.operations.sources import Slices
from drumline.data.plan.node import Node


def by_turns(shards: Sequence[Node], spec: ElementSpec) -> Node:
    """One element of each shard after the other, as TensorFlow's default has it."""
    if len(shards) == 1:
        return shards[0]
    if not shards:
        return held_rows([], spec)
    plan: Node = dataset_of(shards, spec).interleave(_itself, cycle_length=len(shards))._plan
    return plan


def dataset_of(shards: Sequence[Node], spec: ElementSpec) -> Any:
    """A dataset of datasets: a shard each, of elements of ``spec``."""
    column = np.empty(len(shards), STRING)
    column[:] = [as_dataset(shard) for shard in shards]
    outer = ElementSpec(LEAF_STRUCTURE, (DatasetSpec(spec),))
    return as_dataset(Slices((), outer, (column,), len(shards)))


def reader(reader_func: Callable[[Any], Any], operation: str, spec: ElementSpec) -> DatasetFunction:
    """A user's function of a dataset of datasets, tried with one that is empty.

    Raises:
        TypeError: it does not return a dataset.
        ValueError: it returns one of other elements.
        Exception: what it raises.
    """
    empty = dataset_of([held_rows([], spec)], spec)
    made = dataset_function(reader_func, operation, empty, list)
    if made.spec != spec:
        raise ValueError(
            f"{made.function.where} must return a dataset of {spec.tree()}, as it is given; it "
            f"returns one of {made.spec.tree()}"
        )
    return made


def _itself(dataset: Any) -> Any:
    return dataset
