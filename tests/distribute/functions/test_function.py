"""`function`: compiled programs, and loops over datasets inside them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline import config
from drumline.data import Dataset
from drumline.distribute import Strategy
from drumline.distribute.functions.batches import MAX_STEPS
from tests.distribute.step.loops import mirrored


def descent(strategy: Strategy) -> tuple[Callable[..., Any], dl.Variable]:
    with strategy.scope():
        w = dl.Variable(np.zeros(3, np.float32), aggregation="SUM")

    def step(x: Any) -> Any:
        loss = jnp.sum((x @ w.value - 1) ** 2)
        w.assign_sub(0.01 * 2 * x.T @ (x @ w.value - 1))
        return loss

    def epoch(batches: Any) -> Any:
        total, count = 0.0, 0
        for batch in batches:
            losses = strategy.run(step, args=(batch,))
            total += strategy.reduce("SUM", losses)
            count += 1
        return total / count, count, losses

    return epoch, w


def examples(strategy: Strategy, rows: int) -> Any:
    x = np.random.default_rng(1).normal(size=(rows, 3)).astype(np.float32)
    return strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(x).batch(2))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 5, 4 * MAX_STEPS + 7])
def test_a_staged_loop_computes_the_same(replicas: int, rows: int) -> None:
    results = []
    for compile_it in (False, True):
        strategy = mirrored(replicas)
        epoch, w = descent(strategy)
        run = dl.function(epoch) if compile_it else epoch
        data = examples(strategy, rows)
        runs = [run(data) for _ in range(2)]
        losses = [float(mean) for mean, _, _ in runs]
        counts = [int(count) for _, count, _ in runs]
        last = [np.asarray(v).tolist() for v in strategy.experimental_local_results(runs[1][2])]
        results.append((losses, counts, last, np.asarray(w.value).tolist()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][3], results[1][3], rtol=1e-6)
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-6)
    assert results[0][1] == results[1][1] == [-(-rows // 2)] * 2


def test_an_empty_dataset_runs_no_step() -> None:
    strategy = mirrored(2)

    @dl.function
    def count(data: Any) -> Any:
        steps = 0
        for _ in data:
            steps += 1
        return steps

    assert count(Dataset.range(0).batch(2)) == 0
    assert int(count(strategy.experimental_distribute_dataset(Dataset.range(6).batch(2)))) == 3


def test_python_runs_when_traced() -> None:
    calls: list[str] = []
    data = Dataset.from_tensor_slices(np.arange(300.0, dtype=np.float32)).batch(2)

    @dl.function
    def total(data: Any) -> Any:
        result = jnp.float32(0)
        for x in data:
            calls.append("step")
            result = result + x.sum()
        return result

    assert float(total(data)) == 300 * 299 / 2
    traced = len(calls)
    assert traced < 20
    assert float(total(data)) == 300 * 299 / 2
    assert len(calls) == traced


def test_a_dataset_of_the_closure() -> None:
    data = Dataset.range(10).batch(3)

    @dl.function
    def total(start: Any) -> Any:
        for x in data:
            start = start + x.sum()
        return start

    assert int(total(np.int64(5))) == 50
    assert int(total(np.int64(0))) == 45


def test_arrays_around_the_loop_are_seen_anew() -> None:
    data = Dataset.range(4).batch(1)

    @dl.function
    def scaled(data: Any, factor: Any) -> Any:
        weight = factor * 2
        total = np.int64(0)
        for x in data:
            total = total + x.sum() * weight
        return total

    assert [int(scaled(data, np.int64(k))) for k in (1, 2, 3)] == [12, 24, 36]


@pytest.mark.parametrize("reason", ["break", "concrete"])
def test_a_loop_that_cannot_be_staged_tells_why(reason: str) -> None:
    data = Dataset.range(6).batch(1)

    @dl.function
    def broken(data: Any) -> Any:
        total = 0
        for x in data:
            if total > 3:
                break
            total += int(x.sum())
        return total

    @dl.function
    def concrete(data: Any) -> Any:
        total = 0
        for x in data:
            if x.sum() > 2:
                total += int(x.sum())
        return total

    function, result, text = {
        "break": (broken, 6, "has a break statement"),
        "concrete": (concrete, 12, "needs a concrete value"),
    }[reason]
    with pytest.warns(UserWarning, match=text):
        assert function(data) == result
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(data) == result


def test_a_name_that_changes_its_kind_is_refused() -> None:
    data = Dataset.range(4).batch(1)

    @dl.function
    def grow(data: Any) -> Any:
        rows = jnp.zeros((1,))
        for _ in data:
            rows = jnp.concatenate([rows, rows])
        return rows

    with pytest.raises(TypeError, match="changes 'rows'"):
        grow(data)


def test_loops_over_anything_else_are_left_alone() -> None:
    @dl.function
    def plain(x: Any) -> Any:
        for i in range(3):
            if i == 2:
                break
            x = x + i
        return x, i

    x, i = plain(np.float32(1))
    assert (float(x), int(i)) == (2.0, 2)


def test_variables_and_tapes_in_a_function() -> None:
    v = dl.Variable(3.0)

    @dl.function
    def step(x: Any) -> Any:
        with dl.GradientTape() as tape:
            y = v * v * x
        v.assign_add(1.0)
        return tape.gradient(y, v)

    assert float(step(np.float32(2))) == 12.0
    assert float(step(np.float32(2))) == 16.0
    assert float(v.value) == 5.0
    config.run_functions_eagerly(True)
    try:
        assert float(step(jnp.float32(2))) == 20.0
    finally:
        config.run_functions_eagerly(False)


def test_methods() -> None:
    class Model:
        def __init__(self) -> None:
            self.v = dl.Variable(1.0)

        @dl.function
        def add(self, x: Any) -> Any:
            self.v.assign_add(x)
            return self.v.value

    first, second = Model(), Model()
    first.add(np.float32(2))
    assert float(second.add(np.float32(5))) == 6.0
    assert float(first.v.value) == 3.0


def test_a_step_defined_in_the_function_is_compiled_once() -> None:
    strategy = mirrored(2)
    traced: list[float] = []
    scale = np.float32(1)

    @dl.function
    def train_step(iterator: Any, factor: float) -> Any:
        def times(x: Any) -> Any:
            return x.sum() * scale * factor

        def step(x: Any) -> Any:
            traced.append(factor)
            return times(x)

        return strategy.reduce("SUM", strategy.run(step, args=(next(iterator),)))

    iterator = iter(examples(strategy, 12))
    x = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
    found = [float(train_step(iterator, factor)) for factor in (2.0, 2.0, 3.0, 2.0)]
    once = traced.count(2.0)
    scale = np.float32(10)
    found += [float(train_step(iterator, 2.0)) for _ in range(2)]
    wanted = np.float32([2, 2, 3, 2, 20, 20]) * x.reshape(6, -1).sum(1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert once == traced.count(3.0) == 2, "to find the variables, and to compile"
    assert traced.count(2.0) == 2 * once


def test_a_method_given_to_run_is_traced_once() -> None:
    traces = []

    class Model:
        def __init__(self, factor: float):
            self.factor = factor

        @dl.function
        def step(self, x: Any) -> Any:
            traces.append(self.factor)
            return x * self.factor

    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    two, three = Model(2.0), Model(3.0)
    assert two.step == two.step and two.step != three.step
    strategy.run(two.step, args=(np.float32(1),))
    first = len(traces)
    for _ in range(3):
        strategy.run(two.step, args=(np.float32(1),))
    assert len(traces) == first
    (value, _) = strategy.run(three.step, args=(np.float32(1),)).values
    assert float(value) == 3.0 and traces[-1] == 3.0


class TestPythonRunsOnce:
    """A function is compiled from the trace that finds its variables."""

    def test_what_it_does_to_python_objects(self) -> None:
        seen: list[Any] = []
        v = dl.Variable(2.0)

        @dl.function
        def scaled(x: Any) -> Any:
            seen.append(x.shape)
            v.assign_add(1.0)
            return {"y": x * v.value, "twice": v.value * 2}

        for count in (1, 2):
            found = scaled(np.ones(3, np.float32))
            np.testing.assert_array_equal(found["y"], np.full(3, 2.0 + count))
            assert float(found["twice"]) == 2 * float(v.value) == 2 * (2.0 + count)
        assert seen == [(3,)]
        scaled(np.ones(4, np.float32))
        scaled(np.ones(3, np.float32))
        assert seen == [(3,), (4,)] and float(v.value) == 6.0

    def test_variables_of_other_types_are_traced_again(self) -> None:
        seen = []
        v = dl.Variable(np.zeros(2, np.float32))

        @dl.function
        def total() -> Any:
            seen.append(1)
            return jnp.sum(v.value)

        assert float(total()) == 0.0
        v.assign([1.0, 2.0])
        assert float(total()) == 3.0
        assert len(seen) == 1

    def test_a_training_step_is_that_of_plain_python(self) -> None:
        def trained(compiled: bool) -> tuple[int, list[Any]]:
            keras.utils.set_random_seed(5)
            model = keras.Sequential(
                [
                    keras.Input((4,)),
                    keras.layers.Dense(6, activation="relu"),
                    keras.layers.BatchNormalization(),
                    keras.layers.Dropout(0.5, seed=3),
                    keras.layers.Dense(2),
                ]
            )
            optimizer = keras.optimizers.Adam(0.05)
            optimizer.build(model.trainable_variables)
            traces = []

            def step(x: Any) -> Any:
                traces.append(1)
                with dl.GradientTape() as tape:
                    loss = jnp.mean(jnp.square(model(x, training=True) - 1.0))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                return loss

            run = dl.function(step) if compiled else step
            x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
            losses = [np.asarray(run(x)) for _ in range(4)]
            return len(traces), [*losses, *model.get_weights()]

        count, found = trained(True)
        assert count == 1
        for one, other in zip(found, trained(False)[1], strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)

    def test_a_value_of_a_variable_does_not_become_a_constant(self) -> None:
        v = dl.Variable(1.0)

        @dl.function
        def branching(x: Any) -> Any:
            return x if v.value > 0 else -x

        with pytest.raises(jax.errors.TracerBoolConversionError):
            branching(np.float32(1.0))

    def test_a_value_that_is_computed_with_at_once_does_not_become_a_constant(self) -> None:
        v = dl.Variable(1.0)

        @dl.function
        def branching(x: Any) -> Any:
            with jax.ensure_compile_time_eval():
                is_positive = bool(v.value > 0)
            return x if is_positive else -x

        with pytest.raises(jax.errors.TracerBoolConversionError):
            branching(np.float32(1.0))

    def test_a_function_that_creates_variables_is_traced_again(self) -> None:
        layer, seen = keras.layers.Dense(2), []

        @dl.function
        def dense(x: Any) -> Any:
            seen.append(1)
            return layer(x)

        x = np.ones((3, 4), np.float32)
        first = np.asarray(dense(x))
        np.testing.assert_allclose(first, x @ layer.get_weights()[0], rtol=1e-6)
        assert len(seen) == 2

    def test_loops_conditions_and_callbacks(self) -> None:
        seen: list[float] = []
        v = dl.Variable(np.zeros(3, np.float32))

        @dl.function
        def filled(x: Any) -> Any:
            def body(number: Any, carried: Any) -> Any:
                return carried + v.value[number]

            jax.debug.callback(lambda total: seen.append(float(total)), jnp.sum(x))
            v.assign(jnp.where(x > 0, x, v.value))
            start = jax.lax.cond(x[0] > 0, lambda: v.value[0], lambda: jnp.float32(10.0))
            return jax.lax.fori_loop(0, 3, body, start)

        assert float(filled(np.float32([1, 2, 3]))) == 7.0
        assert float(filled(np.float32([-1, 5, -1]))) == 10.0 + 1 + 5 + 3
        jax.effects_barrier()
        assert seen == [6.0, 3.0]
