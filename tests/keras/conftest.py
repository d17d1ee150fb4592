"""A small convnet, data for it, and training it under a strategy and in plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest

import drumline.keras
from drumline.distribute import MirroredStrategy

drumline.keras.install()

ROWS, CLASSES = 39, 5


@dataclass
class Trained:
    """What a training run left."""

    model: keras.Model
    history: dict[str, list[float]]
    weights: list[np.ndarray]

    def assert_same(self, other: Trained, tolerance: float = 1e-5) -> None:
        assert self.history.keys() == other.history.keys()
        for name, curve in self.history.items():
            np.testing.assert_allclose(
                curve, other.history[name], rtol=tolerance, atol=tolerance, err_msg=name
            )
        for mine, theirs in zip(self.weights, other.weights, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="session")
def images() -> tuple[np.ndarray, np.ndarray]:
    """39 images of 8 x 8 and their classes: batches of 12 leave a last one of 3."""
    rng = np.random.default_rng(7)
    return rng.random((ROWS, 8, 8, 1), dtype=np.float32), rng.integers(0, CLASSES, ROWS)


@pytest.fixture(scope="session")
def convnet() -> Callable[..., keras.Model]:
    def build(*extra: keras.Layer, **compile_options: Any) -> keras.Model:
        keras.utils.set_random_seed(3)
        layers = keras.layers
        model = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                layers.Conv2D(4, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                *extra,
                layers.Dense(8, activation="tanh"),
                layers.Dense(CLASSES),
            ]
        )
        options: dict[str, Any] = {
            "optimizer": keras.optimizers.SGD(0.1, momentum=0.9),
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        }
        model.compile(**{**options, **compile_options})
        return model

    return build


@pytest.fixture(scope="session")
def perceptron() -> Callable[..., keras.Model]:
    """Where the kind of model does not matter: one that compiles fast."""

    def build(*extra: keras.Layer, **compile_options: Any) -> keras.Model:
        keras.utils.set_random_seed(3)
        layers = keras.layers
        model = keras.Sequential(
            [keras.Input((8, 8, 1)), layers.Flatten(), *extra, layers.Dense(CLASSES)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(**{"optimizer": "sgd", "loss": loss, **compile_options})
        return model

    return build


@pytest.fixture(scope="session")
def train() -> Callable[..., Trained]:
    """Train what `build` makes on `replicas` devices; in plain Keras for 0."""

    def run(
        build: Callable[[], keras.Model], replicas: int, x: Any, y: Any = None, **fit: Any
    ) -> Trained:
        keras.utils.set_random_seed(3)
        if replicas:
            with MirroredStrategy([f"cpu:{i}" for i in range(replicas)]).scope():
                model = build()
        else:
            model = build()
        options: dict[str, Any] = {"epochs": 3, "verbose": 0, "shuffle": False, "batch_size": 12}
        history = model.fit(x, y, **{**options, **fit})
        return Trained(model, history.history, model.get_weights())

    return run
