"""Summaries that compiled steps record: each time they run, once for all replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
from tests.summary.reading import numbers


@pytest.fixture(params=[1, 2, 4])
def strategy(request: pytest.FixtureRequest) -> dl.distribute.Strategy:
    return dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(request.param)])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("eagerly", [True, False])
def test_replicas_record_once(
    strategy: dl.distribute.Strategy, compiled: bool, eagerly: bool, tmp_path: Path
) -> None:
    with strategy.scope():
        count = dl.Variable(np.int32(0))

    def replica_step(x: Any) -> Any:
        dl.summary.scalar("sum", x.sum(), step=count)
        return x.sum()

    def step(x: Any) -> Any:
        total = strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None)
        with dl.summary.record_if(lambda: count.value % 2 == 0):
            dl.summary.scalar("even", total, step=count)
        count.assign_add(1)
        return total

    step = dl.function(step) if compiled else step
    rows = np.arange(4, dtype=np.float32)
    dl.config.run_functions_eagerly(eagerly)
    try:
        with dl.summary.create_file_writer(tmp_path).as_default():
            for number in range(4):
                step(rows + number)
    finally:
        dl.config.run_functions_eagerly(False)
    total = [float((rows + number).sum()) for number in range(4)]
    times = strategy.num_replicas_in_sync
    assert numbers(tmp_path) == [
        *(("even", number, total[number] * times) for number in (0, 2)),
        *(("sum", number, total[number]) for number in range(4)),
    ]


def test_uneven_batches_record_once(strategy: dl.distribute.Strategy, tmp_path: Path) -> None:
    rows = np.arange(5, dtype=np.float32)
    data = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(rows).batch(4)
    )

    def replica_step(x: Any) -> None:
        dl.summary.scalar("rows", x.shape[0], step=0)

    with dl.summary.create_file_writer(tmp_path).as_default():
        for batch in data:
            strategy.run(replica_step, args=(batch,))
    each = 4 // strategy.num_replicas_in_sync
    assert sorted(numbers(tmp_path)) == sorted([("rows", 0, float(each)), ("rows", 0, 1.0)])


def test_a_step_of_keras_records(strategy: dl.distribute.Strategy, tmp_path: Path) -> None:
    class Recorded(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            dl.summary.scalar("largest", keras.ops.max(x), step=7)
            return x

    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), Recorded(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x = np.ones((8, 1), np.float32)
    with dl.summary.create_file_writer(tmp_path).as_default():
        model.fit(x, x, batch_size=4, epochs=1, verbose=0, shuffle=False)
    assert numbers(tmp_path) == [("largest", 7, 1.0)] * 2


def test_loops_of_a_step_record(tmp_path: Path) -> None:
    @jax.jit
    def program(x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            dl.summary.scalar("x", x, step=i)
            return x + 1

        return jax.lax.fori_loop(0, 3, body, x)

    with dl.summary.create_file_writer(tmp_path).as_default():
        program(np.float32(1))
    assert numbers(tmp_path) == [("x", i, 1.0 + i) for i in range(3)]


def test_a_variable_is_recorded_as_it_is_now(tmp_path: Path) -> None:
    """The next step gives its buffer away while the summary may still wait."""
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    with strategy.scope():
        weight, count = dl.Variable(np.float32(1)), dl.Variable(np.int64(0))

    @dl.function
    def step() -> None:
        weight.assign(weight * 2)
        count.assign_add(1)

    with dl.summary.create_file_writer(tmp_path).as_default(step=count):
        for _ in range(50):
            dl.summary.scalar("weight", weight)
            step()
    assert numbers(tmp_path) == [("weight", i, float(np.float32(2.0**i))) for i in range(50)]


def test_values_of_replicas_must_be_reduced(tmp_path: Path) -> None:
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    each = strategy.run(lambda: dl.distribute.get_replica_context().replica_id_in_sync_group)
    with (
        dl.summary.create_file_writer(tmp_path).as_default(),
        pytest.raises(TypeError, match=r"'x' is given a value of each replica.*strategy.reduce"),
    ):
        dl.summary.scalar("x", each, step=0)
