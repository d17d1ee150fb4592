"""An interrupt at any moment of `fit` leaves a model as some whole number of steps did."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.interruptions import Interrupted, interrupted_at

X = np.ones((8, 1), np.float32)
PLACES = ("/drumline/", "keras/src/backend/jax/trainer.py", "jax/_src/pjit.py")


def _model(strategy: dl.distribute.Strategy | None, **compiling: Any) -> keras.Model:
    """A model whose only weight goes down by one in each step."""
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        model = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
        )
        model.compile(
            keras.optimizers.SGD(1.0), loss=lambda y, outputs: outputs.mean(axis=-1), **compiling
        )
    return model


def _steps(model: keras.Model) -> int:
    """How many steps the model has done, by its weight and its optimizer alike."""
    done = int(model.optimizer.iterations.value)
    np.testing.assert_array_equal(np.asarray(model.layers[-1].kernel.value), [[-done]])
    return done


def _strategy(replicas: int) -> dl.distribute.Strategy | None:
    if not replicas:
        return None
    return dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(replicas)])


CALLS: dict[str, Callable[[keras.Model], Any]] = {
    "fit": lambda model: model.fit(X, X, batch_size=4, verbose=0, shuffle=False),
    "train_on_batch": lambda model: model.train_on_batch(X, X),
    "evaluate": lambda model: model.evaluate(X, X, batch_size=4, verbose=0),
    "predict": lambda model: model.predict(X, batch_size=4, verbose=0),
}


@pytest.mark.parametrize("replicas", [0, 1, 2])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.thorough)])
def test_at_many_instructions(replicas: int, call: str, every: int) -> None:
    model = _model(_strategy(replicas), steps_per_execution=2)
    for _ in range(2):
        CALLS["fit"](model)
        CALLS[call](model)
    steps, position = _steps(model), 1
    at_once = {"fit": 2, "train_on_batch": 2}.get(call, 0)
    while interrupted_at(lambda: CALLS[call](model), position, PLACES):
        done = _steps(model)
        assert steps <= done <= steps + at_once, position
        steps = done
        position += every if replicas == 0 else 7 * every
    assert position > 300
    CALLS["fit"](model)
    assert _steps(model) > steps


def test_a_failed_batch_does_not_undo_what_was_assigned() -> None:
    model = _model(None)
    model.train_on_batch(X, X)
    model.layers[-1].kernel.assign([[5.0]])
    with pytest.raises(Exception, match="shape"):
        model.train_on_batch(np.ones((8, 3), np.float32), X)
    np.testing.assert_array_equal(np.asarray(model.layers[-1].kernel.value), [[5.0]])


class Awaited:
    """The result of a step: a signal arrives while its number is waited for."""

    def __float__(self) -> float:
        raise Interrupted


@pytest.mark.parametrize("module", ["utils.python_utils", "backend.jax.trainer"])
def test_an_interrupt_while_results_are_awaited_is_not_lost(module: str) -> None:
    names = vars(importlib.import_module(f"keras.src.{module}"))
    if "pythonify_logs" not in names:  # not every release has it in both
        pytest.skip("this Keras has no such function there")
    pythonify = names["pythonify_logs"]
    with pytest.raises(Interrupted):
        pythonify({"loss": Awaited()})
    logs = {
        "b": {"inner": keras.ops.ones(())},
        "a": np.float32(0.5),
        "rows": keras.ops.ones(2),
        "text": "x",
        "nothing": None,
    }
    numbers = pythonify(logs)
    assert list(numbers) == ["a", "inner", "nothing", "rows", "text"]
    assert type(numbers["inner"]) is float and numbers["inner"] == 1 and numbers["a"] == 0.5
    assert isinstance(numbers["rows"], np.ndarray) and numbers["rows"].shape == (2,)
    assert numbers["text"] == "x" and numbers["nothing"] is None
    assert pythonify(None) == {}
