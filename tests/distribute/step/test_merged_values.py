"""What meets is of one shape and structure, and what a merge sees is what the replicas hold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
import drumline.keras
from drumline import config
from drumline.distribute import (
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    get_replica_context,
)

drumline.keras.install()


@pytest.fixture
def strategy() -> MirroredStrategy:
    return MirroredStrategy(["cpu:0", "cpu:1"])


@pytest.fixture(params=[False, True], ids=["compiled", "eager"])
def eager(request: pytest.FixtureRequest) -> Iterator[bool]:
    config.run_functions_eagerly(request.param)
    yield request.param
    config.run_functions_eagerly(False)


def test_different_shapes_are_not_broadcast(strategy: MirroredStrategy, eager: bool) -> None:
    uneven = PerReplica([np.ones(2, np.float32), np.ones(1, np.float32)])
    with pytest.raises(ValueError, match="different shapes"):
        strategy.run(lambda x: get_replica_context().all_reduce("SUM", x), args=(uneven,))
    with pytest.raises(ValueError, match="different shapes"):
        strategy.reduce("SUM", uneven)
    assert float(strategy.reduce("SUM", uneven, axis=0)) == 3.0


def test_booleans_are_counted(strategy: MirroredStrategy, eager: bool) -> None:
    flags = PerReplica([np.bool_(True), np.bool_(True)])
    out = strategy.run(lambda x: get_replica_context().all_reduce("SUM", x), args=(flags,))
    assert [int(value) for value in out.values] == [2, 2]
    assert int(strategy.reduce("SUM", flags)) == 2


def test_what_replicas_wrote_travels_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between hosts each sum takes the time of a message, however few bytes there are."""
    sums = []
    operations = dl.distribute.ReductionToOneDevice()
    sum_arrays = operations.sum_arrays

    def counted(arrays: Any, axis: Any) -> Any:
        sums.append(len(arrays))
        return sum_arrays(arrays, axis)

    monkeypatch.setattr(operations, "sum_arrays", counted)
    strategy = MirroredStrategy(["cpu:0", "cpu:1"], cross_device_ops=operations)
    with strategy.scope():
        averages = [keras.Variable(np.zeros(n, np.float32), trainable=False) for n in (1, 2, 3)]
        counts = [
            keras.Variable(np.zeros(n, dtype), dtype=dtype, trainable=False)
            for n, dtype in ((1, "int32"), (2, "uint32"), (500, "int32"))
        ]
        added = dl.Variable(np.float32(3), synchronization="ON_READ", aggregation="SUM")

    def step(x: Any) -> None:
        for variable in [*averages, *counts]:
            variable.assign(variable + keras.ops.cast(x, variable.dtype))
        added.assign_add(x)

    strategy.run(step, args=(PerReplica([np.float32(1), np.float32(3)]),))
    assert sums == [3, 3]
    assert [float(variable.numpy()[-1]) for variable in averages] == [2.0] * 3
    assert [int(variable.numpy()[-1]) for variable in counts] == [1] * 3
    assert float(added.numpy()) == 7.0


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 1, -1, 65535, 65536, -65536, 2**31 - 1, -(2**31)], np.int32),
        np.array([0, 2**16, 2**32 - 1, 2**31], np.uint32),
        np.arange(-200, 200, dtype=np.int32) * 2**23,
        np.array([True, False]),
        np.array([-128, 127], np.int8),
        np.array([1.5, -3.0, np.inf, 2.0**-126], np.float32),
    ],
    ids=["int32", "uint32", "many", "bool", "int8", "float32"],
)
def test_the_first_replicas_value_is_taken_to_the_bit(
    strategy: MirroredStrategy, eager: bool, values: np.ndarray
) -> None:
    with strategy.scope():
        kept = dl.Variable(
            np.zeros_like(values), dtype=values.dtype, aggregation="ONLY_FIRST_REPLICA"
        )
    x = PerReplica([values, values[::-1].copy()])
    strategy.run(lambda x: kept.assign(x), args=(x,))
    got = np.asarray(kept.value)
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got, values)


def test_a_merge_sees_each_replicas_own_value(strategy: MirroredStrategy, eager: bool) -> None:
    with strategy.scope():
        total = dl.Variable(0.0, synchronization="ON_READ", aggregation="SUM")
        metric = keras.metrics.Sum()

    def merge(strategy: Any, own: Any) -> Any:
        read = total.value, jnp.stack(strategy.experimental_local_results(total)), metric.result()
        total.assign(8.0)
        return (*read, own)

    def step(x: Any) -> Any:
        total.assign_add(x)
        metric.update_state(x)
        return get_replica_context().merge_call(merge, args=(x,)), total.value

    x = PerReplica([np.float32(1), np.float32(4)])
    (read, copies, counted, own), after = strategy.run(step, args=(x,))
    assert [float(value) for value in read.values] == [5.0, 5.0]
    assert [value.tolist() for value in copies.values] == [[1.0, 4.0]] * 2
    assert [float(value) for value in counted.values] == [5.0, 5.0]
    assert [float(value) for value in own.values] == [1.0, 4.0]
    assert [float(value) for value in after.values] == [4.0, 4.0]
    assert float(total.value) == 8.0 and float(metric.result()) == 5.0


def test_numbers_come_out_as_arrays(strategy: MirroredStrategy, eager: bool) -> None:
    out = strategy.run(lambda: {"loss": 1.5, "name": "step"})
    assert float(strategy.reduce("SUM", out["loss"])) == 3.0 and out["name"] == "step"
    first, second = strategy.experimental_local_results(out)
    assert float(first["loss"]) == float(second["loss"]) == 1.5


def test_a_replica_that_never_began_is_not_begun(strategy: MirroredStrategy) -> None:
    begun: list[int] = []

    def step() -> None:
        begun.append(get_replica_context().replica_id_in_sync_group)
        raise KeyboardInterrupt

    config.run_functions_eagerly(True)
    try:
        with pytest.raises(KeyboardInterrupt):
            strategy.run(step)
    finally:
        config.run_functions_eagerly(False)
    assert begun == [0]
    assert not [t for t in threading.enumerate() if t.name.startswith("replica ")]


def test_results_of_fewer_replicas_are_taken_again(strategy: MirroredStrategy) -> None:
    short = PerReplica([np.ones((1, 3), np.float32), np.ones((0, 3), np.float32)])
    loss = strategy.run(lambda x: x.sum(), args=(short,))
    assert len(loss.values) == 1
    again = strategy.run(lambda x: x * 2, args=(loss,))
    assert [float(value) for value in again.values] == [6.0]


def test_bad_arguments(strategy: MirroredStrategy, eager: bool) -> None:
    iterator = iter(strategy.experimental_distribute_dataset(dl.data.Dataset.range(4).batch(2)))
    with pytest.raises(TypeError, match="an iterator"):
        strategy.run(lambda x: x, args=(iterator,))
    with pytest.raises(TypeError, match="array of strings"):
        strategy.run(lambda x: x, args=(np.array(["a", "b"]),))
    with pytest.raises(TypeError, match=r"args=\(value,\)"):
        strategy.run(lambda x: x, args=np.ones(1))  # type: ignore[arg-type]


def test_inside_of_jax_transformations(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        v = dl.Variable(1.0, aggregation="SUM")

    def read(x: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(lambda y: y * v.value, args=(x,)))

    def write(x: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(lambda y: v.assign_add(y), args=(x,)))

    for fn in (jax.jit(read), jax.jit(write), jax.grad(write)):
        with pytest.raises(RuntimeError, match=r"dl\.function"):
            fn(jnp.float32(3))
    assert float(v.value) == 1.0


def test_loss_scaling_on_one_device_eagerly() -> None:
    strategy = OneDeviceStrategy("cpu:0")
    with strategy.scope():
        v = keras.Variable(1.0)
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=2)
    config.run_functions_eagerly(True)
    try:
        strategy.run(lambda g: optimizer.apply_gradients([(g, v)]), args=(np.float32(2),))
        strategy.run(lambda g: optimizer.apply_gradients([(g, v)]), args=(np.float32("inf"),))
    finally:
        config.run_functions_eagerly(False)
    assert float(v.value) == 0.5 and float(optimizer.dynamic_scale.value) == 1.0
