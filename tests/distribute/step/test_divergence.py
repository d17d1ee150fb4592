"""Replicas that must agree do, or the step is refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax._src import dispatch

import drumline as dl
from drumline.config import devices as config_devices
from drumline.distribute import (
    HierarchicalCopyAllReduce,
    MirroredStrategy,
    ReductionToOneDevice,
    RingAllReduce,
    get_replica_context,
)
from tests.distribute.step.loops import Loop, mirrored, train

DEVICES = [f"cpu:{index}" for index in range(4)]


@pytest.mark.parametrize(
    "algorithm",
    [HierarchicalCopyAllReduce(num_packs=2), ReductionToOneDevice(), RingAllReduce()],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_training_by_any_algorithm(algorithm: Any, default: Loop) -> None:
    strategy = MirroredStrategy(DEVICES, cross_device_ops=algorithm)
    train(strategy, rows=14, batch=8, epochs=1).assert_same(default)


@pytest.fixture(scope="module")
def default() -> Loop:
    return train(mirrored(4), rows=14, batch=8, epochs=1)


@pytest.mark.parametrize("eager", [False, True])
def test_one_replicas_overflow_skips_the_update_of_all(
    eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_devices, "_eager", eager)
    strategy = mirrored(2)
    with strategy.scope():
        v = keras.Variable(np.float32([1, 2]))
        optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(1.0, momentum=0.5), initial_scale=8.0
        )
        optimizer.build([v])

    def step(gradient: Any) -> None:
        optimizer.apply_gradients([(gradient * optimizer.dynamic_scale, v)])

    def give(first: float, second: float) -> list[np.ndarray]:
        values = [np.full(2, value, np.float32) for value in (first, second)]
        strategy.run(step, args=(dl.distribute.PerReplica(values),))
        return [np.asarray(shard.data).tolist() for shard in v._value.addressable_shards]

    assert give(0.25, 0.5) == [[0.25, 1.25]] * 2
    assert give(0.25, np.inf) == [[0.25, 1.25]] * 2
    assert float(optimizer.dynamic_scale) == 4 and int(optimizer.inner_optimizer.iterations) == 1
    assert give(np.nan, 0.25) == [[0.25, 1.25]] * 2
    assert float(optimizer.dynamic_scale) == 2
    assert give(0.25, 0.25) == [[-0.625, 0.375]] * 2


@pytest.mark.parametrize("kind", ["compiled", "eager", "uneven"])
def test_update_with_values_that_differ(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_devices, "_eager", kind == "eager")
    strategy = mirrored(2)
    with strategy.scope():
        v = dl.Variable(0.0, name="shared")
    rows = [np.ones(1 if kind == "uneven" else 2, np.float32), np.ones(2, np.float32)]

    def step(x: Any, differ: Any) -> None:
        context = get_replica_context()
        value = jnp.where(differ, context.replica_id_in_sync_group, 3.0)
        context.update(v, lambda variable, x: variable.assign_add(x), args=(value,))

    batch = dl.distribute.PerReplica(rows)
    strategy.run(step, args=(batch, np.bool_(False)))
    assert float(v.value) == 3
    message = "different values to 'shared' on different replicas"

    def differing() -> None:
        strategy.run(step, args=(batch, np.bool_(True)))
        jax.block_until_ready(v.value)

    with pytest.raises((RuntimeError, jax.errors.JaxRuntimeError), match=message):
        differing()
    dispatch.runtime_tokens.clear()  # else JAX waits at its end for the step that failed


def test_an_update_of_all_takes_one_value() -> None:
    strategy = mirrored(2)
    with strategy.scope():
        v = dl.Variable(0.0, name="shared")

    def merge(strategy: Any, x: Any, reduce: bool) -> None:
        if reduce:
            x = strategy.extended.reduce_to("SUM", x, destinations=v)
        strategy.extended.update(v, lambda variable, x: variable.assign_add(x), args=(x,))

    def step(reduce: bool) -> None:
        x = jnp.float32(1) + get_replica_context().replica_id_in_sync_group
        get_replica_context().merge_call(merge, args=(x, reduce))

    strategy.run(step, args=(True,))
    assert float(v.value) == 3
    with pytest.raises(ValueError, match=r"PerReplica.*'shared' different values. Reduce it first"):
        strategy.run(step, args=(False,))


class Halved(MirroredStrategy):
    """Values meet as half of their sum."""

    def all_reduce(self, op: Any, value: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf / 2, super().all_reduce(op, value))


def test_a_reduction_of_ones_own_wants_all_replicas() -> None:
    strategy = Halved(["cpu:0", "cpu:1"])

    def step(x: Any) -> Any:
        return get_replica_context().all_reduce("SUM", x.sum())

    def result(*sizes: int) -> list[float]:
        batch = dl.distribute.PerReplica([np.ones(size, np.float32) for size in sizes])
        found = strategy.experimental_local_results(strategy.run(step, args=(batch,)))
        return [float(value) for value in found]

    assert result(2, 2) == [2, 2] and result(3, 1) == [2, 2]
    message = r"Halved.all_reduce .* 2 replicas are reduced, but 1"
    with pytest.raises(NotImplementedError, match=message):
        result(3, 0)


def test_variables_of_two_strategies() -> None:
    with MirroredStrategy(DEVICES[:2]).scope():
        a = dl.Variable(1.0, name="a")
    with MirroredStrategy(DEVICES[2:]).scope():
        b = dl.Variable(2.0, name="b")
    plain = dl.Variable(3.0, name="plain")
    with pytest.raises(RuntimeError, match=r"'a' of .*cpu:1.* and 'b' of .*cpu:3"):
        dl.function(lambda: a.value + b.value)()
    for f in (lambda: plain.value + a.value, lambda: b.assign(plain.value)):
        with pytest.raises(RuntimeError, match="'plain' of no strategy"):
            dl.function(f)()
    assert float(dl.function(lambda x: a.value + x)(b.value)) == 3
