"""A small model trained by a loop written by hand, under a strategy and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline.keras
from drumline.data import Dataset
from drumline.distribute import MirroredStrategy, Strategy

drumline.keras.install()

CLASSES = 5


@dataclass
class Loop:
    """What a loop left: the loss of every step, the weights, and the metric's result."""

    losses: list[float]
    weights: list[np.ndarray]
    accuracy: float

    def assert_same(self, other: Loop, tolerance: float = 1e-5) -> None:
        np.testing.assert_allclose(self.losses, other.losses, rtol=tolerance, atol=tolerance)
        for mine, theirs in zip(self.weights, other.weights, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
        assert self.accuracy == pytest.approx(other.accuracy, abs=1e-6)


def images(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return rng.random((rows, 6, 6, 1), dtype=np.float32), rng.integers(0, CLASSES, rows)


def train(
    strategy: Strategy,
    *,
    rows: int = 24,
    batch: int = 8,
    epochs: int = 2,
    optimizer: Callable[[], Any] = lambda: keras.optimizers.Adam(1e-2),
) -> Loop:
    """Train with `strategy.run`, as TensorFlow's tutorial of custom training does."""
    dataset = Dataset.from_tensor_slices(images(rows)).batch(batch)
    distributed = strategy.experimental_distribute_dataset(dataset)
    with strategy.scope():
        keras.utils.set_random_seed(5)
        model = keras.Sequential(
            [
                keras.Input((6, 6, 1)),
                keras.layers.Flatten(),
                keras.layers.Dense(8, activation="tanh"),
                keras.layers.Dense(CLASSES),
            ]
        )
        update = optimizer()
        accuracy = keras.metrics.SparseCategoricalAccuracy()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def step(x: Any, y: Any) -> Any:
        def loss(values: list[Any]) -> Any:
            with keras.StatelessScope(list(zip(model.trainable_variables, values, strict=True))):
                logits = model(x, training=True)
            return jnp.sum(loss_of(y, logits)) / batch, logits

        values = [variable.value for variable in model.trainable_variables]
        (value, logits), gradients = jax.value_and_grad(loss, has_aux=True)(values)
        update.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, logits)
        return value

    losses = [
        float(strategy.reduce("SUM", strategy.run(step, args=pair)))
        for _ in range(epochs)
        for pair in distributed
    ]
    return Loop(losses, model.get_weights(), float(accuracy.result()))


def mirrored(replicas: int) -> MirroredStrategy:
    return MirroredStrategy([f"cpu:{index}" for index in range(replicas)])
