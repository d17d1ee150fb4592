"""Where replicas meet, and what may be called where."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline import config
from drumline.distribute import (
    MirroredStrategy,
    OneDeviceStrategy,
    PerReplica,
    RingAllReduce,
    Strategy,
    get_replica_context,
    in_cross_replica_context,
)
from tests.distribute.step.loops import mirrored

BOTH = pytest.mark.parametrize("eager", [False, True])


@pytest.fixture
def strategy() -> MirroredStrategy:
    return mirrored(4)


def run(strategy: Strategy, eager: bool, fn: Any, *args: Any) -> Any:
    config.run_functions_eagerly(eager)
    try:
        return strategy.run(fn, args=args)
    finally:
        config.run_functions_eagerly(False)


def numbers(value: Any) -> list[Any]:
    return [np.asarray(v).tolist() for v in value.values]


@BOTH
def test_replicas_meet(strategy: MirroredStrategy, eager: bool) -> None:
    def step(x: Any) -> Any:
        context = get_replica_context()
        assert context is not None and not in_cross_replica_context()
        assert context.num_replicas_in_sync == 4
        reduced = context.all_reduce("SUM", {"x": x, "none": None})
        return {
            "id": jnp.asarray(context.replica_id_in_sync_group),
            "sum": reduced["x"],
            "none": reduced["none"],
            "mean": context.all_reduce(dl.distribute.ReduceOp.MEAN, x),
            "all": context.all_gather(x[None], axis=0),
        }

    x = strategy.experimental_distribute_values_from_function(
        lambda context: np.float32(context.replica_id_in_sync_group + 1)
    )
    out = run(strategy, eager, step, x)
    assert numbers(out["id"]) == [0, 1, 2, 3]
    assert numbers(out["sum"]) == [10.0] * 4
    assert numbers(out["mean"]) == [2.5] * 4
    assert numbers(out["all"]) == [[1.0, 2.0, 3.0, 4.0]] * 4
    assert out["none"] is None


@BOTH
def test_merge_call(strategy: MirroredStrategy, eager: bool) -> None:
    with strategy.scope():
        v = dl.Variable(1.0, name="merged")

    def merge(strategy: Strategy, value: Any, factor: float) -> Any:
        assert in_cross_replica_context() and get_replica_context() is None
        assert len(strategy.experimental_local_results(value)) == 4
        total = strategy.reduce("SUM", value)
        (mean,) = strategy.extended.batch_reduce_to("MEAN", [(value, v)])
        strategy.extended.update(v, lambda var, t: var.assign_add(t * factor), args=(total,))
        return mean

    def step() -> Any:
        context = get_replica_context()
        value = jnp.float32(context.replica_id_in_sync_group)
        mean = context.merge_call(merge, args=(value,), kwargs={"factor": 2.0})
        return mean + v.value

    out = run(strategy, eager, step)
    assert float(v.value) == 1.0 + 6.0 * 2.0
    assert numbers(out) == [1.5 + 13.0] * 4


def test_calls_in_the_wrong_place(strategy: MirroredStrategy) -> None:
    x = np.float32(1)

    def errors(fn: Any) -> str:
        with pytest.raises((RuntimeError, ValueError)) as caught:
            strategy.run(fn)
        return str(caught.value)

    assert "Call the function itself" in errors(lambda: strategy.run(lambda: x))
    assert "all_reduce" in errors(lambda: strategy.reduce("SUM", jnp.asarray(x)))
    assert "all_gather" in errors(lambda: strategy.gather(jnp.asarray(x), 0))
    assert "merge_call" in errors(lambda: strategy.extended.update(None, lambda v: None))
    assert "axis" in errors(lambda: get_replica_context().all_gather(jnp.asarray(x)))
    with strategy.scope(), pytest.raises(RuntimeError, match=r"strategy\.run"):
        dl.nn.compute_average_loss(np.ones(2, np.float32))


def test_replicas_that_call_differently(strategy: MirroredStrategy) -> None:
    def step() -> Any:
        context = get_replica_context()
        if context.replica_id_in_sync_group == 1:
            return context.all_reduce("MEAN", jnp.float32(1))
        return context.all_reduce("SUM", jnp.float32(1))

    with pytest.raises(RuntimeError, match=r"Replica 0 called all_reduce\(SUM\), but replica 1"):
        run(strategy, True, step)

    def leave() -> Any:
        context = get_replica_context()
        if context.replica_id_in_sync_group == 0:
            return jnp.float32(0)
        return context.all_reduce("SUM", jnp.float32(1))

    with pytest.raises(RuntimeError, match="ended its step|met the others|waits for"):
        run(strategy, True, leave)


def test_an_error_in_one_replica_ends_all(strategy: MirroredStrategy) -> None:
    import threading

    def step() -> Any:
        if get_replica_context().replica_id_in_sync_group == 2:
            raise KeyError("mine")
        return get_replica_context().all_reduce("SUM", jnp.float32(1))

    with pytest.raises(KeyError, match="mine"):
        run(strategy, True, step)
    assert not [t for t in threading.enumerate() if t.name.startswith("replica ")]


def test_eager_steps_see_values(strategy: MirroredStrategy) -> None:
    seen: list[float] = []

    def step(x: Any) -> Any:
        if float(jnp.sum(x)) > 2:
            seen.append(float(jnp.sum(x)))
        return x

    batch = next(iter(strategy.experimental_distribute_dataset([np.arange(4.0)])))
    run(strategy, True, step, batch)
    assert seen == [3.0]
    with pytest.raises(jax.errors.ConcretizationTypeError):
        strategy.run(step, args=(batch,))


def test_collectives_of_ones_own_are_used() -> None:
    class Counting(RingAllReduce):
        arrays = 0

        def sum_array(self, array: Any, axis: Any) -> Any:
            Counting.arrays += 1
            return super().sum_array(array, axis)

    strategy = MirroredStrategy(["cpu:0", "cpu:1", "cpu:2"], Counting())
    out = strategy.run(lambda: get_replica_context().all_reduce("SUM", jnp.arange(5.0)))
    assert numbers(out) == [[0.0, 3.0, 6.0, 9.0, 12.0]] * 3
    assert Counting.arrays > 0
    with pytest.raises(TypeError, match="RingAllReduce"):
        MirroredStrategy(["cpu:0"], cross_device_ops="ring")  # type: ignore[arg-type]


def test_average_losses() -> None:
    losses = np.array([1.0, 2.0, 3.0, 6.0], np.float32)
    strategy = mirrored(2)
    batch = next(iter(strategy.experimental_distribute_dataset([losses])))

    def step(x: Any) -> Any:
        return (
            dl.nn.compute_average_loss(x),
            dl.nn.compute_average_loss(x, sample_weight=np.float32(2), global_batch_size=8),
            dl.nn.scale_regularization_loss([jnp.float32(4), jnp.ones(2)]),
        )

    sums = strategy.reduce("SUM", strategy.run(step, args=(batch,)))
    np.testing.assert_allclose([float(s) for s in sums], [3.0, 3.0, 6.0])
    with pytest.raises(ValueError, match="scalar"):
        OneDeviceStrategy("cpu:0").run(lambda: dl.nn.compute_average_loss(jnp.float32(1)))
    with pytest.raises(ValueError, match="positive"):
        dl.nn.compute_average_loss(losses, global_batch_size=0)


def test_per_replica_values_are_stacked_when_alike(strategy: MirroredStrategy) -> None:
    value = PerReplica([np.full(2, i, np.float32) for i in range(4)])
    out = strategy.run(lambda x: x * 2, args=(value,))
    assert numbers(out) == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    assert [v.device for v in out.values] == list(strategy.replica_devices)


@pytest.mark.parametrize("rows", [4, 3])
@BOTH
def test_how_values_meet_is_the_strategys_everywhere(eager: bool, rows: int) -> None:
    """Compiled and eager, for even and for uneven shares."""

    class Doubling(Strategy):
        def all_reduce(self, op: Any, value: Any) -> Any:
            return jax.tree.map(lambda leaf: 2 * leaf, super().all_reduce(op, value))

    strategy = Doubling(["cpu:0", "cpu:1"])
    (batch,) = strategy.experimental_distribute_dataset([np.ones(rows, np.float32)])
    out = run(
        strategy, eager, lambda x: get_replica_context().all_reduce("SUM", {"n": x.sum()}), batch
    )
    assert numbers(out["n"]) == [2.0 * rows] * 2
