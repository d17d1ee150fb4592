"""Learning rates and optimizers of the flags, beside their formulas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from drumline.cnn.optimizers import LearningRate, learning_rate_of, optimizer_of

DEFAULTS = {
    "optimizer": "sgd",
    "momentum": 0.9,
    "rmsprop_decay": 0.9,
    "rmsprop_momentum": 0.9,
    "rmsprop_epsilon": 1.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "init_learning_rate": None,
    "piecewise_learning_rate_schedule": None,
    "num_epochs_per_decay": 0,
    "learning_rate_decay_factor": 0,
    "num_learning_rate_warmup_epochs": 0,
    "minimum_learning_rate": 0,
    "gradient_clip": None,
}


def flags(**given: Any) -> Any:
    assert set(given) <= set(DEFAULTS)
    return SimpleNamespace(**{**DEFAULTS, **given})


def rates(given: Any, steps: list[int], default: Any = 0.25) -> list[float]:
    """An epoch has 100 examples, a step 10."""
    rate = learning_rate_of(given, default, 100, 10)
    return [float(rate(np.int32(step))) for step in steps]


def test_without_flags_the_model_says_it() -> None:
    assert rates(flags(), [0, 50]) == [0.25, 0.25]
    falling = keras.optimizers.schedules.PiecewiseConstantDecay([5], [1.0, 0.5])
    assert rates(flags(), [0, 5, 6], falling) == [1.0, 1.0, 0.5]


def test_a_rate_falls_in_stairs() -> None:
    given = flags(
        init_learning_rate=0.8,
        num_epochs_per_decay=2,
        learning_rate_decay_factor=0.5,
        minimum_learning_rate=0.15,
    )
    steps = [0, 19, 20, 39, 40, 60, 80]
    assert rates(given, steps) == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2, 0.15, 0.15])


def test_pieces_change_behind_the_last_step_of_an_epoch() -> None:
    """As the original's own comment says: the boundary is the last step of the epoch before."""
    given = flags(piecewise_learning_rate_schedule="0.3;2;0.2;3;0.1")
    steps = [0, 19, 20, 29, 30, 99]
    assert rates(given, steps) == pytest.approx([0.3, 0.3, 0.2, 0.2, 0.1, 0.1])


def test_a_rate_rises_first() -> None:
    given = flags(init_learning_rate=0.4, num_learning_rate_warmup_epochs=2)
    assert rates(given, [0, 5, 10, 19, 20]) == pytest.approx([0, 0.1, 0.2, 0.38, 0.4])
    pieces = flags(piecewise_learning_rate_schedule="0.4;3;0.1", num_learning_rate_warmup_epochs=1)
    assert rates(pieces, [5, 10, 30]) == pytest.approx([0.2, 0.4, 0.1])


def test_a_schedule_survives_its_configuration() -> None:
    falling = keras.optimizers.schedules.PiecewiseConstantDecay([5], [1.0, 0.5])
    given = flags(piecewise_learning_rate_schedule="0.4;3;0.1", num_learning_rate_warmup_epochs=1)
    for rate in (
        learning_rate_of(given, 1.0, 100, 10),
        learning_rate_of(flags(), falling, 100, 10),
    ):
        again = LearningRate.from_config(rate.get_config())
        for step in (0, 5, 6, 29, 30):
            assert float(again(np.int32(step))) == float(rate(np.int32(step)))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"piecewise_learning_rate_schedule": "nan;2;0.1"}, "finite numbers from 0 on"),
        ({"piecewise_learning_rate_schedule": "0.1;2;-0.1"}, "finite numbers from 0 on"),
        (
            {
                "init_learning_rate": 0.1,
                "num_epochs_per_decay": 0.01,
                "learning_rate_decay_factor": 0.5,
            },
            "is less than a step",
        ),
        ({"piecewise_learning_rate_schedule": "0.1;2"}, "RATE;EPOCH;RATE"),
        ({"piecewise_learning_rate_schedule": "fast"}, "could not convert"),
        ({"piecewise_learning_rate_schedule": "0.1;2.5;0.2"}, "whole numbers"),
        ({"piecewise_learning_rate_schedule": "0.1;3;0.2;2;0.1"}, "must rise"),
        (
            {"piecewise_learning_rate_schedule": "0.1", "init_learning_rate": 0.1},
            "leave out --init_learning_rate",
        ),
        ({"num_learning_rate_warmup_epochs": 1}, "needs a rate to rise to"),
    ],
)
def test_what_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rates(flags(**given), [0])


TENSORFLOW = {
    "sgd": [1.95, 2.05, 1.75, 1.725],
    "momentum": [1.9049999713897705, 2.054499864578247, 1.5290498733520508, 1.2786448001861572],
    "rmsprop": [1.9639625549316406, 2.0034637451171875, 1.8577533960342407, 1.711024284362793],
    "adam": [1.9000000953674316, 1.9366103410720825, 1.8866243362426758, 1.8412764072418213],
}
"""The weight 2 after each of the gradients, at the rate 0.1, by the optimizers of
``tf.compat.v1.train`` (TensorFlow 2.21) that the original makes of these flags."""


@pytest.mark.parametrize("name", TENSORFLOW)
def test_updates_are_those_of_the_original(name: str) -> None:
    given = flags(optimizer=name, init_learning_rate=0.1)
    optimizer = optimizer_of(given, learning_rate_of(given, 1.0, 100, 10))
    variable = keras.Variable(2.0)
    found = []
    for gradient in [0.5, -1.0, 3.0, 0.25]:
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        found.append(float(variable.value))
    assert found == pytest.approx(TENSORFLOW[name], rel=1e-5)


def test_momentum_does_not_hold_the_rate() -> None:
    """As of TensorFlow 1: Keras's would go on with the steps of the rate before."""
    given = flags(optimizer="momentum", piecewise_learning_rate_schedule="0.4;1;0.1")
    optimizer = optimizer_of(given, learning_rate_of(given, 1.0, 10, 10))
    variable = keras.Variable(2.0)
    for _ in range(3):
        optimizer.apply([keras.ops.convert_to_tensor(1.0)], [variable])
    assert float(variable.value) == pytest.approx(0.6251000165939331, rel=1e-5)


@pytest.mark.parametrize("name", TENSORFLOW)
def test_gradients_are_clipped_element_by_element(name: str) -> None:
    """A step by them is one by gradients that were cut before."""

    def after(gradient: list[float], clip: float | None) -> list[float]:
        given = flags(optimizer=name, init_learning_rate=1.0, gradient_clip=clip)
        optimizer = optimizer_of(given, learning_rate_of(given, 1.0, 100, 10))
        variable = keras.Variable([0.0, 0.0])
        for _ in range(2):
            optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
        found: list[float] = np.asarray(variable.value).tolist()
        return found

    assert after([3.0, -0.25], 0.5) == after([0.5, -0.25], None)
    if name != "adam":  # whose first steps are the same for any gradient
        assert after([3.0, -0.25], 0.5) != after([3.0, -0.25], None)


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(ValueError, match="there are momentum, sgd, rmsprop and adam"):
        optimizer_of(flags(optimizer="lion"), learning_rate_of(flags(), 1.0, 100, 10))
