"""What a traced step takes, gives and writes, beside the same step run by Keras on one device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from keras import ops

import drumline as dl
from drumline.distribute.parameter_server import compiler

X = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")
Y = np.random.default_rng(1).normal(size=(8, 1)).astype("float32")


@pytest.fixture(scope="module")
def trained(trace: Any, run: Any) -> Any:
    """One step on workers and the same with Keras, from the same start."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.5, seed=3), layers.Dense(1)]
    )
    optimizer = keras.optimizers.SGD(1.0)
    metric = keras.metrics.Mean(name="loss")

    def step(x: Any, y: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = ops.mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(loss)
        return {"loss": loss, "so far": metric.result(), "name": "a step"}

    traced = trace(step, X, Y)
    metric.update_state([5.0, 7.0])
    ran = run(traced, X, Y)
    variables = {**{v.path: v for v in model.variables}, **{v.path: v for v in metric.variables}}
    before = {path: np.asarray(variable.value) for path, variable in variables.items()}
    result = dl.function(step)(X, Y)
    after = {path: np.asarray(variable.value) for path, variable in variables.items()}
    return ran, result, before, after


def test_the_results_are_those_of_one_device(trained: Any) -> None:
    ran, result, _, _ = trained
    assert ran.result["name"] == "a step"
    np.testing.assert_allclose(ran.result["loss"], result["loss"], rtol=1e-5)
    np.testing.assert_allclose(ran.result["so far"], result["so far"], rtol=1e-5)


def test_every_variable_changes_as_on_one_device(trained: Any) -> None:
    ran, _, before, after = trained
    written = {key: (kind, value) for (kind, key), value in ran.writes.items()}
    for path, new in after.items():
        kind, value = written[path]
        expected = {"gradient": before[path] - new, "add": new - before[path]}.get(kind, new)
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6, err_msg=path)


def test_the_kinds_of_writes(trained: Any) -> None:
    ran, _, _, _ = trained
    kinds = {key.rpartition("/")[2]: kind for kind, key in ran.writes}
    assert kinds["kernel"] == kinds["gamma"] == "gradient"
    assert kinds["moving_mean"] == kinds["moving_variance"] == "assign"
    assert kinds["total"] == kinds["count"] == "add"
    assert kinds["seed_generator_state"] == "state"
    assert ran.traced.program.applied == (1,)


def test_the_model_is_built_by_the_first_trace(trained: Any) -> None:
    ran, _, before, _ = trained
    assert any("dense" in path and path.endswith("/kernel") for path in before)
    assert all(variable._value is not None for variable in ran.traced.variables.values())


def test_what_is_only_added_to_is_no_input(trace: Any, run: Any) -> None:
    count = dl.Variable(3, name="count", aggregation="SUM")
    total = keras.Variable(np.ones(2, "float32"), name="total")
    scaled = keras.Variable(2.0, name="scaled")

    def step(x: Any) -> None:
        count.assign_add(2)
        count.assign_sub(ops.cast(x[0], "int32"))
        total.assign_add(x)
        total.assign(total + ops.sum(x))
        scaled.assign(scaled * 0.5 + 1.0)

    x = np.float32([4.0, 1.0])
    traced = trace(step, x)
    assert {i.key for i in traced.program.inputs} == {None, "scaled"}
    writes = run(traced, x).writes
    assert writes["add", "count"] == -2
    np.testing.assert_array_equal(writes["add", "total"], x + 5)
    assert writes["assign", "scaled"] == 2.0


def test_a_sum_with_itself_is_no_addition(trace: Any, run: Any) -> None:
    variable = keras.Variable(3.0, name="doubled")
    ran = run(trace(lambda: variable.assign(variable + variable)))
    assert ran.writes == {("assign", "doubled"): 6.0}


def test_reading_after_adding_gives_the_sum(trace: Any, run: Any) -> None:
    variable = keras.Variable(3.0, name="count")

    def step() -> Any:
        variable.assign_add(2.0)
        return variable.value

    ran = run(trace(step))
    assert ran.result == 5 and ran.writes == {("add", "count"): 2.0}


def test_two_optimizers_have_their_own_gradients(trace: Any) -> None:
    one, two = (keras.Variable(np.ones(2, "float32"), name=name) for name in ("one", "two"))
    first, second = keras.optimizers.SGD(), keras.optimizers.Adam(loss_scale_factor=4.0)

    def step(x: Any) -> None:
        second.apply([4 * x], [two])
        first.apply([x], [one])

    traced = trace(step, X[0, :2])
    assert list(traced.optimizers) == [second, first]
    assert {o.key: o.optimizer for o in traced.program.outputs} == {"two": 0, "one": 1}
    assert not first.built and not second.built


def test_unscaled_gradients(trace: Any, run: Any) -> None:
    weight = keras.Variable(np.ones(5, "float32"), name="weight")
    optimizer = keras.optimizers.SGD(loss_scale_factor=4.0)
    ran = run(trace(lambda x: optimizer.apply([4 * x], [weight]), X[0]), X[0])
    np.testing.assert_allclose(ran.gradient("weight"), X[0], rtol=1e-6)


def test_a_gradient_has_the_dtype_of_its_variable(trace: Any, run: Any) -> None:
    weight = keras.Variable(np.ones(5, "float32"), name="weight")
    optimizer = keras.optimizers.SGD()
    ran = run(trace(lambda x: optimizer.apply([x.astype("bfloat16")], [weight]), X[0]), X[0])
    assert ran.gradient("weight").dtype == np.float32
    with pytest.raises(ValueError, match=r"shape \(4,\) for variable 'weight' of shape \(5,\)"):
        trace(lambda x: optimizer.apply([x[:4]], [weight]), X[0])


def test_specifications_in_the_place_of_arrays(trace: Any, run: Any) -> None:
    spec = {"x": jax.ShapeDtypeStruct((8, 5), "float64"), "scale": 3}
    traced = trace(lambda batch: batch["x"].sum() * batch["scale"], spec)
    (wanted,) = traced.program.inputs
    assert (wanted.kind, wanted.index, wanted.dtype) == ("argument", 0, "float32")
    doubles = X.astype("float64")
    np.testing.assert_allclose(run(traced, {"x": doubles}).result, 3 * X.sum(), rtol=1e-5)


def test_another_shape_is_refused_by_name(trace: Any) -> None:
    traced = trace(lambda x: x.sum(), X)
    with pytest.raises(ValueError, match=r"Array 0 .* \(3,\).*\(8, 5\)"):
        compiler.prepared(np.zeros(3), traced.program.inputs[0])


def test_workers_draw_differently_and_repeatably(trace: Any) -> None:
    generator = keras.random.SeedGenerator(7)
    program = trace(lambda: keras.random.uniform((64,), seed=generator)).program
    chief = np.asarray(generator.state.value)
    assert [each.kind for each in program.outputs] == ["result", "state"]
    draw = compiler.load(program)
    drawn = [np.asarray(draw([compiler.worker_state(chief, worker)])[0]) for worker in (0, 1, 1)]
    np.testing.assert_array_equal(drawn[1], drawn[2])
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 0.5
    assert compiler.worker_state(chief, 0).dtype == chief.dtype


def test_a_strategys_replica_context_works_in_a_step(trace: Any, run: Any) -> None:
    def step(x: Any) -> Any:
        return dl.distribute.get_replica_context().all_reduce("SUM", jnp.sum(x))

    np.testing.assert_allclose(run(trace(step, X), X).result, X.sum(), rtol=1e-5)
