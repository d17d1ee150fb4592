"""Global batches, cut over the replicas and placed on their devices."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset
from drumline.distribute import MirroredStrategy, OneDeviceStrategy, PerReplica
from drumline.distribute.input.process_input import split_rows


@given(rows=st.integers(0, 50), replicas=st.integers(1, 9))
def test_shares_are_even_in_order_and_complete(rows: int, replicas: int) -> None:
    pieces = [list(range(rows))[piece] for piece in split_rows(rows, replicas)]
    assert list(itertools.chain(*pieces)) == list(range(rows))
    sizes = [len(piece) for piece in pieces]
    assert len(sizes) == replicas
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_batches_lie_on_the_replicas_devices() -> None:
    strategy = MirroredStrategy(["cpu:3", "cpu:1", "cpu:2"])
    dataset = Dataset.from_tensor_slices(
        {"x": np.arange(14, dtype=np.float32).reshape(7, 2), "y": np.arange(7)}
    ).batch(5)
    distributed = strategy.experimental_distribute_dataset(dataset)
    assert {name: spec.value_specs[0].shape for name, spec in distributed.element_spec.items()} == {
        "x": (None, 2),
        "y": (None,),
    }
    batches = list(distributed)
    assert len(batches) == len(list(distributed)) == 2
    values = strategy.experimental_local_results(batches[0]["y"])
    assert [value.tolist() for value in values] == [[0, 1], [2, 3], [4]]
    assert tuple(value.device for value in values) == strategy.replica_devices
    last = strategy.experimental_local_results(batches[1]["x"])
    assert [value.shape for value in last] == [(1, 2), (1, 2), (0, 2)]
    assert tuple(value.device for value in last) == strategy.replica_devices


def test_one_replica_gets_plain_batches() -> None:
    strategy = OneDeviceStrategy("cpu:2")
    (batch,) = strategy.experimental_distribute_dataset([np.arange(3)])
    assert isinstance(batch, jax.Array)
    assert batch.device == jax.devices("cpu")[2]
    assert strategy.experimental_local_results(batch) == (batch,)


@pytest.mark.parametrize("batch", [np.float32(1), (np.zeros(2), np.zeros(3)), {}])
def test_what_is_no_batch(batch: object) -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with pytest.raises(ValueError, match="same first dimension"):
        next(iter(strategy.experimental_distribute_dataset([batch])))


def test_per_replica_values_are_a_pytree() -> None:
    values = PerReplica([1, {"a": 2}])
    doubled = jax.tree.map(lambda leaf: leaf * 2, values)
    assert doubled.values == (2, {"a": 4})
    assert "0: 1" in repr(values)
