"""`InputOptions`: each is honoured, or refused by its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, TensorSpec
from drumline.distribute import InputContext, InputOptions, InputReplicationMode

PER_REPLICA = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)


def mirrored(replicas: int) -> dl.distribute.MirroredStrategy:
    return dl.distribute.MirroredStrategy([f"cpu:{index}" for index in range(replicas)])


def rows(batch: Any) -> list[list[int]]:
    return [np.asarray(value).tolist() for value in batch.values]


@pytest.mark.parametrize("by_function", [False, True])
def test_batches_that_stay_on_the_host(by_function: bool) -> None:
    strategy, options = mirrored(2), InputOptions(experimental_fetch_to_device=False)
    dataset = Dataset.range(7)
    if by_function:
        distributed = strategy.distribute_datasets_from_function(
            lambda context: dataset.batch(2), options
        )
    else:
        distributed = strategy.experimental_distribute_dataset(dataset.batch(4), options)  # type: ignore[assignment]
    batches = list(distributed)
    assert all(type(value) is np.ndarray for batch in batches for value in batch.values)
    assert [rows(batch) for batch in batches] == [[[0, 1], [2, 3]], [[4, 5], [6]]]
    assert distributed.element_spec.value_specs[0].dtype == batches[0].values[0].dtype == np.int64
    totals = [strategy.run(lambda x: x.sum(), args=(batch,)) for batch in batches]
    assert [int(strategy.reduce("SUM", total)) for total in totals] == [6, 15]
    alone = mirrored(1).experimental_distribute_dataset(dataset.batch(4), options)
    assert type(next(iter(alone))) is np.ndarray
    placed = strategy.experimental_distribute_dataset(dataset.batch(4))
    assert isinstance(next(iter(placed)).values[0], jax.Array)


def test_a_pipeline_for_each_replica() -> None:
    strategy = mirrored(2)
    seen: list[InputContext] = []

    def make(context: InputContext) -> Dataset:
        seen.append(context)
        start = 10 * context.input_pipeline_id
        return Dataset.range(start, start + 4 + 2 * context.input_pipeline_id).batch(2)

    distributed = strategy.distribute_datasets_from_function(make, PER_REPLICA)
    assert seen == [InputContext(2, 0, 2), InputContext(2, 1, 2)]
    expected = [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[], [14, 15]]]
    assert [rows(batch) for batch in distributed] == expected
    iterator = iter(distributed)
    next(iterator)
    again = iter(distributed)
    again.restore(iterator.state())
    assert [rows(batch) for batch in again] == expected[1:]
    three = mirrored(3).distribute_datasets_from_function(make, PER_REPLICA)
    with pytest.raises(ValueError, match="state is of 2 pipelines, but there are 3"):
        iter(three).restore(iterator.state())


@pytest.mark.parametrize(("lengths", "share"), [((4, 4), 2), ((4, 6), None), ((6, 6), 2)])
def test_what_pipelines_of_replicas_give(lengths: Any, share: int | None) -> None:
    distributed = mirrored(2).distribute_datasets_from_function(
        lambda context: Dataset.range(lengths[context.input_pipeline_id]).batch(2, True),
        PER_REPLICA,
    )
    assert distributed.element_spec.value_specs == (TensorSpec((share,), np.int32),) * 2


def test_batches_ahead() -> None:
    pulled: list[int] = []

    def numbers() -> Iterator[int]:
        for value in range(12):
            pulled.append(value)
            yield value

    dataset = Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int32)).batch(2)
    options = InputOptions(experimental_per_replica_buffer_size=3)
    distributed = mirrored(2).experimental_distribute_dataset(dataset, options)
    iterator = iter(distributed)
    assert pulled == []
    assert rows(next(iterator)) == [[0], [1]] and pulled == list(range(6))
    assert rows(next(iterator)) == [[2], [3]] and pulled == list(range(8))
    state = iterator.state()
    rest = [rows(batch) for batch in iterator]
    assert rest == [[[n], [n + 1]] for n in range(4, 12, 2)]
    again = iter(distributed)
    next(again)
    again.restore(state)
    assert [rows(batch) for batch in again] == rest
    pulled.clear()
    list(zip(range(2), mirrored(2).experimental_distribute_dataset(dataset), strict=False))
    assert len(pulled) == 4  # two batches of two were asked for


def test_a_loop_of_a_function_over_batches_ahead() -> None:
    strategy = mirrored(2)
    dataset = Dataset.range(30).batch(4)
    options = InputOptions(experimental_per_replica_buffer_size=4)

    @dl.function
    def total(batches: Any) -> Any:
        found = np.int32(0)
        for batch in batches:
            found += strategy.reduce("SUM", strategy.run(lambda x: x.sum(), args=(batch,)))
        return found

    iterator = iter(strategy.experimental_distribute_dataset(dataset, options))
    first = sum(np.asarray(value).sum() for value in next(iterator).values)
    assert int(total(iterator)) + first == sum(range(30))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"experimental_place_dataset_on_device": True}, NotImplementedError, "place_dataset"),
        ({"experimental_per_replica_buffer_size": 0}, ValueError, "at least 1, got 0"),
        ({"experimental_per_replica_buffer_size": 2.0}, TypeError, "must be an int"),
        ({"experimental_replication_mode": "PER_REPLICA"}, TypeError, "InputReplicationMode"),
        (
            {"experimental_per_replica_buffer_size": 2, "experimental_fetch_to_device": False},
            ValueError,
            "experimental_fetch_to_device=False forbids",
        ),
    ],
)
def test_what_is_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        InputOptions(**options)


def test_where_it_is_refused() -> None:
    strategy, dataset = mirrored(2), Dataset.range(4).batch(2)
    with pytest.raises(NotImplementedError, match="use strategy.distribute_datasets_from_function"):
        strategy.experimental_distribute_dataset(dataset, PER_REPLICA)
    with pytest.raises(TypeError, match=r"must be a dl.distribute.InputOptions, got dict"):
        strategy.experimental_distribute_dataset(dataset, {})  # type: ignore[arg-type]
