"""Batches on their way to replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset
from drumline.distribute import InputContext, PerReplica
from tests.distribute.step.loops import mirrored


def rows(batch: Any) -> list[list[int]]:
    return [np.asarray(value).tolist() for value in batch.values]


def test_next_and_optional() -> None:
    strategy = mirrored(2)
    iterator = iter(strategy.experimental_distribute_dataset(Dataset.range(6).batch(4)))
    assert rows(next(iterator)) == [[0, 1], [2, 3]]
    optional = iterator.get_next_as_optional()
    assert optional.has_value() and rows(optional.get_value()) == [[4], [5]]
    end = iterator.get_next_as_optional()
    assert not end.has_value()
    with pytest.raises(ValueError, match="has_value"):
        end.get_value()
    with pytest.raises(StopIteration):
        iterator.get_next()


def test_an_iterator_goes_on_where_it_was() -> None:
    strategy = mirrored(2)
    dataset = Dataset.range(40).shuffle(40, seed=3).batch(4)
    distributed = strategy.experimental_distribute_dataset(dataset)
    iterator = iter(distributed)
    for _ in range(3):
        next(iterator)
    state = iterator.state()
    rest = [rows(batch) for batch in iterator]
    again = iter(strategy.experimental_distribute_dataset(dataset))
    again.restore(state)
    assert [rows(batch) for batch in again] == rest and len(rest) == 7


def test_a_dataset_for_each_pipeline() -> None:
    strategy = mirrored(2)
    seen: list[InputContext] = []

    def make(context: InputContext) -> Dataset:
        seen.append(context)
        return Dataset.range(10).batch(context.get_per_replica_batch_size(4))

    distributed = strategy.distribute_datasets_from_function(make)
    assert seen == [InputContext(1, 0, 2)]
    steps = list(distributed)
    assert [rows(step) for step in steps] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
        [[8, 9], []],
    ]
    totals = [
        int(strategy.reduce("SUM", strategy.run(lambda x: x.sum(), args=(step,)))) for step in steps
    ]
    assert totals == [6, 22, 17]
    with pytest.raises(ValueError, match="batch of 5 does not divide over 2"):
        seen[0].get_per_replica_batch_size(5)


def test_one_replica_gets_plain_batches() -> None:
    strategy = mirrored(1)
    distributed = strategy.distribute_datasets_from_function(lambda _: Dataset.range(3).batch(2))
    assert [np.asarray(batch).tolist() for batch in distributed] == [[0, 1], [2]]


def test_values_from_a_function() -> None:
    values = mirrored(2).experimental_distribute_values_from_function(
        lambda context: {"id": np.int32(context.replica_id_in_sync_group)}
    )
    assert isinstance(values["id"], PerReplica) and rows(values["id"]) == [0, 1]
    with pytest.raises(ValueError, match="3 values for 2 replicas"):
        mirrored(2).per_replica([1, 2, 3])
