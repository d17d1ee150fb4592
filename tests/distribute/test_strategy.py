"""Scopes, placement and what a strategy says of itself."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import drumline as dl
from drumline import distribute
from drumline.distribute import (
    MirroredStrategy,
    OneDeviceStrategy,
    ReduceOp,
    ReplicaContext,
    Strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)


def test_outside_of_a_scope_the_default_strategy() -> None:
    assert not has_strategy()
    assert get_strategy() is get_strategy()
    assert get_strategy().num_replicas_in_sync == 1


def test_a_scope_puts_its_strategy_in_force() -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope() as entered:
        assert entered is strategy
        assert has_strategy()
        assert get_strategy() is strategy
        with strategy.scope():
            assert get_strategy() is strategy
        assert get_strategy() is strategy
    assert not has_strategy()


def test_another_strategys_scope_inside_is_an_error() -> None:
    outer, inner = OneDeviceStrategy("cpu:0"), OneDeviceStrategy("cpu:1")
    with outer.scope():
        with pytest.raises(RuntimeError, match=r"\('cpu:1'\) inside the scope of .*\('cpu:0'\)"):
            inner.scope().__enter__()
        assert get_strategy() is outer
    with inner.scope():
        assert get_strategy() is inner


def test_a_scope_is_left_on_an_exception() -> None:
    with pytest.raises(KeyError), OneDeviceStrategy("cpu:1").scope():
        raise KeyError
    assert not has_strategy()
    assert jnp.zeros(1).device == jax.devices()[0]


def test_a_scope_holds_for_its_thread() -> None:
    seen: list[bool] = []
    with OneDeviceStrategy("cpu:1").scope():
        thread = threading.Thread(target=lambda: seen.append(has_strategy()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_arrays_made_in_a_scope_are_on_its_first_device() -> None:
    with OneDeviceStrategy("cpu:3").scope():
        assert jnp.zeros(1).device == jax.devices("cpu")[3]


@pytest.mark.parametrize("eagerly", [False, True])
def test_steps_run_on_the_device_in_a_scope_and_out_of_it(eagerly: bool) -> None:
    """Arguments of numpy's, and none at all, say nothing of where to compute."""
    strategy, device = OneDeviceStrategy("cpu:1"), jax.devices("cpu")[1]
    dl.config.run_functions_eagerly(eagerly)
    try:
        for entered in (contextlib.nullcontext(), strategy.scope()):
            with entered:
                assert strategy.run(lambda x: x + 1, (np.float32(1),)).devices() == {device}
                assert strategy.run(lambda: jnp.ones(3)).devices() == {device}
    finally:
        dl.config.run_functions_eagerly(False)


def test_variables_are_placed_once() -> None:
    strategy = MirroredStrategy(["cpu:1", "cpu:2"])
    placed = strategy._arrays.place_replicated(np.arange(3.0))
    assert placed.sharding.device_set == set(jax.devices("cpu")[1:3])
    assert strategy._arrays.place_replicated(placed) is placed


def test_descriptions() -> None:
    text = MirroredStrategy(["cpu:0", "cpu:2"], check_agreement=True).describe()
    for part in (
        "MirroredStrategy: 2 replica(s)",
        "cpu:0, cpu:2",
        "replica=2",
        "a copy on each of 2 devices",
        "by all-reduce (NcclAllReduce, which is XLA's own all-reduce on CPUs) over mesh axis",
        "checked after each step",
    ):
        assert part in text
    assert "variables live: on cpu:1" in OneDeviceStrategy("cpu:1").describe()
    assert repr(MirroredStrategy(["cpu:0", "cpu:2"])) == "MirroredStrategy(['cpu:0', 'cpu:2'])"


@pytest.mark.parametrize("op", ["mean", "SUM", ReduceOp.MEAN, ReduceOp.SUM])
def test_values_meet(op: Any) -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1", "cpu:2"])

    def per_replica(x: Any) -> Any:
        context = ReplicaContext(strategy)
        return (
            context.all_reduce(op, {"x": x})["x"],
            context.all_gather(x),
            context.replica_id_in_sync_group[None],
        )

    cut = PartitionSpec("replica")
    run = jax.shard_map(
        per_replica,
        mesh=strategy.mesh,
        in_specs=cut,
        out_specs=(PartitionSpec(), PartitionSpec(), cut),
        check_vma=False,
    )
    x = np.arange(6.0).reshape(6, 1)
    reduced, gathered, ids = run(x)
    halves = x.reshape(3, 2, 1)
    expected = halves.mean(0) if ReduceOp.of(op) is ReduceOp.MEAN else halves.sum(0)
    np.testing.assert_allclose(reduced, expected)
    np.testing.assert_array_equal(gathered, x)
    np.testing.assert_array_equal(ids, [0, 1, 2])


def test_an_unknown_reduction() -> None:
    with pytest.raises(ValueError, match="'MAX'.*'SUM' or 'MEAN'"):
        ReduceOp.of("MAX")


def test_contexts_outside_of_a_step() -> None:
    context = get_replica_context()
    assert context is not None and context.num_replicas_in_sync == 1
    assert not in_cross_replica_context()
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        assert get_replica_context() is None
        assert in_cross_replica_context()


def test_a_strategy_of_ones_own_overrides_how_values_meet() -> None:
    class Doubling(Strategy):
        def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
            return jax.tree.map(lambda leaf: 2 * leaf, super().all_reduce(op, value))

    strategy = Doubling(["cpu:0", "cpu:1"])
    run = jax.shard_map(
        lambda x: ReplicaContext(strategy).all_reduce("SUM", x),
        mesh=strategy.mesh,
        in_specs=PartitionSpec("replica"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    np.testing.assert_array_equal(run(np.array([1.0, 2.0])), [6.0])


def test_the_older_name_takes_the_communication_first() -> None:
    names = distribute.experimental
    strategy = names.MultiWorkerMirroredStrategy(names.CollectiveCommunication.RING)
    assert isinstance(strategy, distribute.MultiWorkerMirroredStrategy)
    assert isinstance(strategy.cross_device_ops, distribute.RingAllReduce)
    assert strategy.cluster_resolver.task_type is None and strategy.num_processes == 1
    strategy.barrier()


class OneVariableApart(MirroredStrategy):
    """Large variables live on a device of their own."""

    def sharding_of(self, variable: Any) -> Any:
        if variable.shape == (6,):
            return jax.sharding.SingleDeviceSharding(jax.devices()[3])
        return super().sharding_of(variable)


def test_where_a_variable_lives_is_an_answer_for_each() -> None:
    devices = ["cpu:0", "cpu:1"]
    trained = []
    for strategy in (MirroredStrategy(devices), OneVariableApart(devices)):
        with strategy.scope():
            large = dl.Variable(np.arange(6, dtype=np.float32), aggregation="mean")
            small = dl.Variable(np.float32(2), aggregation="mean")
            read = dl.Variable(np.ones(6, np.float32), aggregation="mean")

        def step(x: Any, large: Any = large, small: Any = small, read: Any = read) -> Any:
            large.assign_add(x * small * read)
            small.assign_add(jnp.sum(large.value) * 0.01)
            return jnp.sum(large.value)

        values = strategy.per_replica([np.full(6, 0.1, np.float32), np.full(6, 0.7, np.float32)])
        losses = [float(strategy.reduce("SUM", strategy.run(step, (values,)))) for _ in range(2)]
        large.assign(np.asarray(large.value) / 2)
        losses.append(float(strategy.reduce("SUM", strategy.run(step, (values,)))))
        trained.append((losses, np.asarray(large.value).tolist(), float(small.value)))
    assert trained[0] == trained[1]
    assert large.value.devices() == read.value.devices() == {jax.devices()[3]}
    assert small.value.devices() == set(jax.devices()[:2])
