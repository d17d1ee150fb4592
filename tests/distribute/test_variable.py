"""What replicas' reads and writes do to a variable, as ``tf.Variable`` defines it."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy, get_replica_context
from tests.distribute.step.loops import mirrored


@pytest.fixture
def strategy() -> MirroredStrategy:
    return mirrored(2)


def replica() -> Any:
    return get_replica_context().replica_id_in_sync_group


@pytest.mark.parametrize(
    ("aggregation", "assigned", "added"),
    [("SUM", 3.0, 13.0), ("MEAN", 1.5, 11.5), ("ONLY_FIRST_REPLICA", 1.0, 11.0)],
)
def test_what_replicas_write_is_aggregated(
    strategy: MirroredStrategy, aggregation: str, assigned: float, added: float
) -> None:
    with strategy.scope():
        v = dl.Variable(10.0, aggregation=aggregation)

    def add() -> Any:
        v.assign_add(replica() + 1.0)
        return v.value

    def assign() -> None:
        v.assign(jnp.float32(replica() + 1))

    seen = strategy.run(add)
    assert float(v.value) == added
    assert [float(value) for value in seen.values] == [added, added]
    strategy.run(assign)
    assert float(v.value) == assigned
    strategy.run(lambda: v.assign_sub(replica() + 1.0))
    assert float(v.value) == 10.0 + assigned - added


def test_without_aggregation_a_replica_may_not_write(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        v = dl.Variable(0.0, name="counter")
    with pytest.raises(ValueError, match="'counter' has no aggregation.*aggregation=SUM"):
        strategy.run(lambda: v.assign_add(1.0))
    assert float(v.value) == 0.0
    v.assign(2.0)
    assert float(strategy.reduce("SUM", strategy.run(lambda: v.value * 1))) == 4.0


@pytest.mark.parametrize(
    ("aggregation", "read"), [("SUM", 6.0), ("MEAN", 3.0), ("ONLY_FIRST_REPLICA", 2.0)]
)
def test_on_read_each_replica_keeps_its_own(
    strategy: MirroredStrategy, aggregation: str, read: float
) -> None:
    with strategy.scope():
        v = dl.Variable(0.0, synchronization="ON_READ", aggregation=aggregation)

    def step() -> Any:
        v.assign_add(replica() + 1.0)
        return v.value

    strategy.run(step)
    seen = strategy.run(step)
    assert [float(value) for value in seen.values] == [2.0, 4.0]
    assert float(v.value) == read
    assert [float(value) for value in strategy.experimental_local_results(v)] == [2.0, 4.0]
    v.assign(8.0)
    assert float(v.value) == 8.0
    copies = [float(value) for value in strategy.experimental_local_results(v)]
    assert copies == ([4.0, 4.0] if aggregation == "SUM" else [8.0, 8.0])


def test_on_read_without_aggregation_has_no_value_outside(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        v = dl.Variable([0, 0], synchronization="ON_READ", name="own")
    strategy.run(lambda: v.assign(jnp.array([1, 2]) + replica()))
    with pytest.raises(ValueError, match="'own'.*experimental_local_results"):
        v.read_value()
    copies = strategy.experimental_local_results(v)
    assert [copy.tolist() for copy in copies] == [[1, 2], [2, 3]]


def test_on_read_within_function(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        v = dl.Variable(1, synchronization="ON_READ", aggregation="SUM", dtype="int32")

    @dl.function
    def twice() -> Any:
        strategy.run(lambda: v.assign_add(replica() + 1))
        before = v.value
        v.assign(5)
        strategy.run(lambda: v.assign_add(1))
        return before

    assert int(twice()) == 1 + 3
    assert int(v.value) == 5 + 2


def test_bad_arguments(strategy: MirroredStrategy) -> None:
    with pytest.raises(ValueError, match="VariableAggregation 'MAX': use one of 'NONE', 'SUM'"):
        dl.Variable(0.0, aggregation="MAX")
    with pytest.raises(ValueError, match="trainable=False"):
        dl.Variable(0.0, trainable=True, synchronization=dl.VariableSynchronization.ON_READ)


def test_created_in_the_first_step_only(strategy: MirroredStrategy) -> None:
    made: list[dl.Variable] = []

    def once(x: Any) -> Any:
        if not made:
            made.append(dl.Variable(lambda: jnp.full((2,), 3.0), aggregation="MEAN"))
        made[0].assign_add(x)
        return made[0].value

    strategy.run(once, args=(np.float32(1),))
    strategy.run(once, args=(np.ones(2, np.float32),))
    np.testing.assert_array_equal(np.asarray(made[0].value), [5.0, 5.0])

    def always(x: Any) -> Any:
        return dl.Variable(lambda: jnp.zeros(2), name="fresh").value + x

    with pytest.raises(ValueError, match="'fresh'.*the first time it is traced only"):
        strategy.run(always, args=(np.float32(1),))


def test_a_variable_of_another_strategy(strategy: MirroredStrategy) -> None:
    with mirrored(4).scope():
        v = dl.Variable(0.0, name="theirs")
    with pytest.raises(RuntimeError, match="'theirs' was made in the scope of"):
        strategy.run(lambda: v.value + 1)


def test_two_variables_of_one_array(strategy: MirroredStrategy) -> None:
    """Steps use up the old values: an array that two hold must not be used up twice."""
    with strategy.scope():
        a = dl.Variable(jnp.arange(4.0), aggregation="MEAN")
        b = dl.Variable(jnp.zeros(4), aggregation="MEAN")
    array = a.value
    b.assign(a)

    def step() -> None:
        a.assign_add(jnp.ones(4))
        b.assign_sub(jnp.ones(4))

    for _ in range(2):
        strategy.run(step)
    np.testing.assert_array_equal(np.asarray(a.value), [2, 3, 4, 5])
    np.testing.assert_array_equal(np.asarray(b.value), [-2, -1, 0, 1])
    np.testing.assert_array_equal(np.asarray(array), [0, 1, 2, 3])
    mine = jnp.full(4, 7.0)
    a.assign(mine)
    strategy.run(step)
    np.testing.assert_array_equal(np.asarray(mine), [7, 7, 7, 7])
    np.testing.assert_array_equal(np.asarray(a.value), [8, 8, 8, 8])


def test_steps_that_share_variables(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        a, b, c = (dl.Variable(float(i), aggregation="MEAN") for i in range(3))

    def first() -> None:
        a.assign_add(1.0)
        b.assign_add(1.0)

    def second() -> None:
        b.assign_add(10.0)
        c.assign_add(10.0)

    for _ in range(2):
        strategy.run(first)
        strategy.run(second)
        c.assign_add(100.0)
    assert [float(v.value) for v in (a, b, c)] == [2.0, 23.0, 222.0]
    twin = copy.deepcopy(b)
    strategy.run(first)
    assert (float(twin.value), float(b.value)) == (23.0, 24.0)


def test_layers_and_optimizers_take_it() -> None:
    class Scale(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.factor = dl.Variable(2.0, name="factor")

        def call(self, x: Any) -> Any:
            return x * self.factor

    layer = Scale()
    assert float(layer(jnp.float32(3))) == 6.0
    assert [v.name for v in layer.trainable_variables] == ["factor"]
    assert isinstance(jnp.asarray(layer.factor), jax.Array)
