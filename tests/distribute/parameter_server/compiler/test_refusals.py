"""What cannot run on workers is refused, with its name and where the user wrote it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from keras import ops

import drumline as dl
from drumline.distribute.parameter_server import compiler

IDS = np.arange(6, dtype="int32").reshape(2, 3)


@pytest.fixture
def table() -> Any:
    return keras.Variable(np.ones((50, 4), "float32"), name="embeddings")


def training(table: Any, loss: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    optimizer = keras.optimizers.SGD(0.1)

    def step(ids: Any) -> Any:
        with dl.GradientTape() as tape:
            value = loss(table.value, ids)
        optimizer.apply([tape.gradient(value, table)], [table])
        return value

    return step


def looped(t: Any, ids: Any) -> Any:
    return jax.lax.map(lambda row: jnp.take(t, row, axis=0), ids).sum()


NEEDS_ALL: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "a regularizer": ("reduce_sum", lambda t, i: ops.take(t, i, axis=0).sum() + ops.sum(t**2)),
    "tied weights": ("transpose", lambda t, i: (ops.take(t, i, 0) @ ops.transpose(t)).sum()),
    "one-hot products": ("dot_general", lambda t, i: (jax.nn.one_hot(i, 50) @ t).sum()),
    "a loop over lookups": ("scan", looped),
    "some rows by their place": ("slice", lambda t, i: ops.sum(t[:20])),
    "a lookup of columns": ("transpose", lambda t, i: ops.take(t.T, i, axis=1).sum()),
    "the largest row": ("reduce_max", lambda t, i: ops.sum(ops.max(t, axis=0))),
    "another table": ("mul", lambda t, i: ops.take(t * jnp.eye(50, 4), i, axis=0).sum()),
}


@pytest.mark.parametrize("name", NEEDS_ALL)
def test_what_needs_all_of_a_table_is_refused_with_its_line(
    name: str, table: Any, trace: Any
) -> None:
    primitive, loss = NEEDS_ALL[name]
    with pytest.raises(compiler.WholeTableReadError, match=r"'embeddings' is used by") as refused:
        trace(training(table, loss), IDS)
    assert (refused.value.key, refused.value.path) == ("embeddings", "embeddings")
    assert primitive in refused.value.primitive
    assert "test_refusals.py:" in refused.value.line
    whole = trace(training(table, loss), IDS, tables=())
    assert whole.program.inputs[0].shape == (50, 4)


def test_returning_a_table_is_refused(table: Any, trace: Any) -> None:
    with pytest.raises(compiler.WholeTableReadError, match="embeddings"):
        trace(lambda ids: table.value * 2, IDS)


def test_assigning_a_table_is_refused(table: Any, trace: Any) -> None:
    with pytest.raises(compiler.StepError, match="'embeddings' is assigned"):
        trace(lambda ids: table.assign(table * 2), IDS)


OPTIMIZERS = {
    "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
    "gradient_accumulation_steps": lambda: keras.optimizers.SGD(gradient_accumulation_steps=2),
    "use_ema": lambda: keras.optimizers.SGD(use_ema=True),
}
if hasattr(keras.optimizers, "MultiOptimizer"):
    OPTIMIZERS["MultiOptimizer"] = lambda: keras.optimizers.MultiOptimizer(
        [(keras.optimizers.SGD(), "embeddings")]
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_that_need_more_than_one_variable_are_refused(
    name: str, table: Any, trace: Any
) -> None:
    try:
        optimizer = OPTIMIZERS[name]()
    except (TypeError, ValueError):
        pytest.skip("made in another way by this version of Keras")
    with pytest.raises(compiler.OptimizerError, match=name):
        trace(lambda ids: optimizer.apply([jnp.ones((50, 4))], [table]), IDS)


def test_two_optimizers_of_one_variable_are_refused(trace: Any) -> None:
    weight = keras.Variable(np.ones(3, "float32"), name="weight")
    first, second = keras.optimizers.SGD(name="first"), keras.optimizers.Adam(name="second")

    def step(x: Any) -> None:
        first.apply([x], [weight])
        second.apply([x], [weight])

    with pytest.raises(compiler.OptimizerError, match=r"'weight' is given .* twice .* 'second'"):
        trace(step, np.ones(3, "float32"))


def test_constraints_are_refused(trace: Any) -> None:
    weight = keras.Variable(np.ones(3, "float32"), name="weight")
    weight.constraint = keras.constraints.NonNeg()
    optimizer = keras.optimizers.SGD()
    with pytest.raises(compiler.OptimizerError, match="NonNeg"):
        trace(lambda x: optimizer.apply([x], [weight]), np.ones(3, "float32"))


def test_a_variable_is_not_read_after_its_update(trace: Any) -> None:
    weight = keras.Variable(np.ones(3, "float32"), name="weight")
    optimizer = keras.optimizers.SGD()

    def step(x: Any) -> Any:
        optimizer.apply([x], [weight])
        return weight.value.sum()

    with pytest.raises(compiler.StepError, match="'weight' is used after"):
        trace(step, np.ones(3, "float32"))


def test_a_variable_is_not_assigned_and_updated(trace: Any) -> None:
    weight = keras.Variable(np.ones(3, "float32"), name="weight")
    optimizer = keras.optimizers.SGD()

    def step(x: Any) -> None:
        weight.assign(weight * 2)
        optimizer.apply([x], [weight])

    with pytest.raises(compiler.StepError, match="'weight' is assigned in a step that also"):
        trace(step, np.ones(3, "float32"))


def test_an_optimizer_inside_a_function_of_jax_is_refused(trace: Any) -> None:
    weight = keras.Variable(np.ones(3, "float32"), name="weight")
    optimizer = keras.optimizers.SGD(name="inner")

    def step(x: Any) -> Any:
        def branch(y: Any) -> Any:
            optimizer.apply([y], [weight])
            return y

        return jax.lax.cond(x.sum() > 0, branch, lambda y: y, x)

    with pytest.raises(compiler.StepError, match="'inner' is applied inside a function"):
        trace(step, np.ones(3, "float32"))


def test_calls_back_into_python_are_refused(trace: Any) -> None:
    def step(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    with pytest.raises(compiler.ProgramError, match=r"jax\.debug\.print"):
        trace(step, np.ones(3, "float32"))


def test_gradients_that_are_all_none_are_refused_as_by_keras(trace: Any) -> None:
    weight = keras.Variable(np.ones(3, "float32"), name="weight")
    optimizer = keras.optimizers.SGD()
    with pytest.raises(ValueError, match="No gradients provided"):
        trace(lambda x: optimizer.apply([None], [weight]), np.ones(3, "float32"))


def test_variables_are_made_in_the_first_trace_alone(trace: Any) -> None:
    made = []

    def step(x: Any) -> Any:
        made.append(dl.Variable(np.ones(3, "float32"), name="made"))
        return x + made[-1]

    with pytest.raises(ValueError, match=r"created the variable.*'made'"):
        trace(step, np.ones(3, "float32"))
