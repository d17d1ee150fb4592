"""value_and_grad by variables, against jax.value_and_grad by arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from keras import layers

from drumline.training.tape import GradientTape
from drumline.training.value_and_grad import value_and_grad

X = jnp.array([0.5, -1.0, 2.0])


def close(found: Any, wanted: Any, rtol: float = 2e-5) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), found, wanted)


def test_value_and_gradients_in_the_structure_of_the_variables() -> None:
    one, two, other = keras.Variable(X), keras.Variable(X + 1), keras.Variable(X * 2)

    def fn(scale: float, power: int = 2) -> jax.Array:
        return scale * jnp.sum(one.value**power * two.value)

    value, gradients = value_and_grad(fn, {"one": one, "rest": (two, [one, other])})(3.0, power=3)
    close(value, 3 * jnp.sum(X**3 * (X + 1)))
    by_one = 9 * X**2 * (X + 1)
    close(gradients, {"one": by_one, "rest": (3 * X**3, [by_one, jnp.zeros(3)])})
    assert one.value is one._value


def test_aux() -> None:
    variable = keras.Variable(X)

    def fn() -> Any:
        return jnp.sum(variable.value**2), {"doubled": variable.value * 2}

    (value, aux), gradient = value_and_grad(fn, variable, has_aux=True)()
    close((value, aux, gradient), (jnp.sum(X**2), {"doubled": 2 * X}, 2 * X))


def make_model() -> tuple[keras.Model, Any]:
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l1"),
            layers.BatchNormalization(),
            layers.Dropout(0.3, seed=1),
            layers.Dense(2),
        ]
    )
    inputs = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    model(inputs)
    return model, inputs


def reference(model: keras.Model, inputs: Any) -> tuple[Any, Any, Any]:
    def loss(trainable: Any, non_trainable: Any) -> Any:
        outputs, state, losses = model.stateless_call(
            trainable, non_trainable, inputs, training=True, return_losses=True
        )
        return jnp.mean(outputs**2) + sum(losses), state

    (value, state), gradients = jax.value_and_grad(loss, has_aux=True)(
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
    )
    return value, gradients, state


def test_a_model_whose_statistics_are_kept() -> None:
    model, inputs = make_model()
    metric = keras.metrics.Mean()

    def fn(inputs: Any) -> Any:
        outputs = model(inputs, training=True)
        loss = jnp.mean(outputs**2) + sum(model.losses)
        metric.update_state(loss)
        return loss

    wanted, wanted_gradients, state = reference(model, inputs)
    value, gradients = value_and_grad(fn, model.trainable_variables)(inputs)
    close((value, gradients), (wanted, wanted_gradients))
    close([variable.value for variable in model.non_trainable_variables], state)
    close(metric.result(), wanted)


def test_within_jit_and_a_stateless_scope() -> None:
    model, inputs = make_model()
    variables = model.trainable_variables + model.non_trainable_variables

    def fn(inputs: Any) -> Any:
        return jnp.mean(model(inputs, training=True) ** 2) + sum(model.losses)

    step = value_and_grad(fn, model.trainable_variables)

    @jax.jit
    def compiled(values: Any, inputs: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))) as scope:
            value, gradients = step(inputs)
        state = [scope.get_current_value(v) for v in model.non_trainable_variables]
        return value, gradients, state

    before = [variable.value for variable in variables]
    close(compiled(before, inputs), reference(model, inputs))
    close([variable.value for variable in variables], before)


def test_a_compiled_function_that_reads_a_variable_sees_its_present_value() -> None:
    variable = keras.Variable(X)
    inner = jax.jit(lambda: jnp.sum(variable.value**2))
    step = value_and_grad(inner, variable)
    close(step(), (jnp.sum(X**2), 2 * X))
    variable.assign(X * 3)
    close(step(), (9 * jnp.sum(X**2), 6 * X))


def test_a_differentiated_variable_that_the_function_assigns() -> None:
    variable = keras.Variable(X)

    def fn() -> Any:
        variable.assign(variable.value * 2)
        return jnp.sum(variable.value**2)

    close(value_and_grad(fn, variable)(), (4 * jnp.sum(X**2), 8 * X))
    close(variable.value, 2 * X)


def test_second_derivatives() -> None:
    variable = keras.Variable(X)

    def fn() -> Any:
        return jnp.sum(variable.value**4)

    def of_gradient() -> Any:
        return jnp.sum(value_and_grad(fn, variable)()[1] ** 2)

    close(value_and_grad(of_gradient, variable)()[1], 96 * X**5)
    with GradientTape() as tape:
        y = of_gradient()
    close(tape.gradient(y, variable), 96 * X**5)

    def by_tape() -> Any:
        with GradientTape() as tape:
            y = fn()
        return jnp.sum(tape.gradient(y, variable) ** 2)

    close(value_and_grad(by_tape, variable)()[1], 96 * X**5)


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="for arrays use jax.value_and_grad"):
        value_and_grad(jnp.sum, [X])
    counter = keras.Variable(1, dtype="int32", name="counter")
    with pytest.raises(TypeError, match="'counter' is of dtype int32"):
        value_and_grad(lambda: 0.0, counter)
    variable = keras.Variable(X)
    with pytest.raises(TypeError, match="scalar"):
        value_and_grad(lambda: variable.value * 2, variable)()
    close(variable.value, X)
