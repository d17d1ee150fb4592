"""Learning rates against the original's rules, written out step by step."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from drumline.cnn import models
from drumline.cnn.models.learning_rates import LinearWarmup


def rates(schedule: Any, steps: list[int]) -> list[float]:
    return [float(schedule(np.int32(step))) for step in steps]


def by_epochs(step: int, epoch: int, cuts: list[int], values: list[float]) -> float:
    """The value of the first cut that the step is not behind, as tf.train.piecewise_constant."""
    return next((v for c, v in zip(cuts, values, strict=False) if step <= c * epoch), values[-1])


@pytest.mark.parametrize(
    ("name", "batch", "cuts", "values"),
    [
        ("resnet20", 128, [82, 123, 300], [0.1, 0.01, 0.001, 0.0002]),
        ("resnet110_v2", 50, [82, 123, 300], [0.1, 0.01, 0.001, 0.0002]),
        ("densenet40_k12", 64, [150, 225, 300], [0.1, 0.01, 0.001, 0.0001]),
    ],
)
def test_rates_of_cifar10_are_cut(
    name: str, batch: int, cuts: list[int], values: list[float]
) -> None:
    epoch = 50_000 // batch
    steps = [0, 1, *(cut * epoch + near for cut in cuts for near in (-1, 0, 1)), 10**6]
    found = rates(models.find(name, "cifar10").learning_rate_for(batch), steps)
    expected = [by_epochs(step, epoch, cuts, values) for step in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rates_of_alexnet_on_cifar10_fall_by_stairs() -> None:
    schedule = models.find("alexnet", "cifar10").learning_rate_for(100)
    found = rates(schedule, [0, 49_999, 50_000, 99_999, 100_000])
    np.testing.assert_allclose(found, [0.1, 0.1, 0.01, 0.01, 0.001], rtol=1e-5)


@pytest.mark.parametrize("batch", [64, 256, 8192])
def test_rates_of_resnets_rise_and_are_cut(batch: int) -> None:
    epoch, peak = 1_281_167 / batch, 0.128 * batch / 256
    cuts = [int(epoch * epochs) for epochs in (30, 60, 80, 90)]
    warmup = int(epoch * 5)
    steps = [0, 1, warmup - 1, warmup, *(cut + near for cut in cuts for near in (0, 1))]
    found = rates(models.find("resnet50").learning_rate_for(batch), steps)
    values = [peak * 0.1**power for power in range(5)]
    expected = [
        peak * step / warmup if step < warmup else by_epochs(step, 1, cuts, values)
        for step in steps
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_rate_of_ones_own() -> None:
    assert models.find("vgg16").learning_rate_for(64) == 0.005
    assert models.find("vgg16").learning_rate_for(64, 0.3) == 0.3
    schedule = models.find("resnet50").learning_rate_for(256, 0.3)
    assert rates(schedule, [5 * 5_004 + 5])[0] == pytest.approx(0.3)


def test_a_step_has_examples() -> None:
    with pytest.raises(ValueError, match="steps of 0 examples"):
        models.find("resnet50").learning_rate_for(0)


def test_schedules_are_made_again_from_their_settings() -> None:
    schedule = models.find("resnet50").learning_rate_for(256)
    optimizer = keras.optimizers.SGD(schedule)
    again = keras.optimizers.SGD.from_config(optimizer.get_config())
    assert isinstance(again._learning_rate, LinearWarmup)
    assert rates(again._learning_rate, [7, 200_000]) == rates(schedule, [7, 200_000])
