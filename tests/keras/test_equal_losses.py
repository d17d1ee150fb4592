"""Every kind of loss gives one device's curve and weights, with a last batch of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest
from keras import ops

CrossEntropy = keras.losses.SparseCategoricalCrossentropy


def contrastive(y: Any, y_pred: Any) -> Any:
    scores = y_pred @ ops.transpose(y_pred)
    return ops.mean(ops.logsumexp(scores, axis=1) - ops.diagonal(scores))


def largest(y: Any, y_pred: Any) -> Any:
    return ops.max(y_pred**2)


class Spread(keras.losses.Loss):
    """A user's loss class: the spread of the predictions over the batch."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return ops.std(y_pred, axis=0) + ops.mean(y_pred**2)


LOSSES: dict[str, Callable[[], Any]] = {
    "mean": lambda: CrossEntropy(from_logits=True),
    "sum": lambda: CrossEntropy(from_logits=True, reduction="sum"),
    "mean_with_sample_weight": lambda: CrossEntropy(
        from_logits=True, reduction="mean_with_sample_weight"
    ),
    "ignore_class": lambda: CrossEntropy(from_logits=True, ignore_class=0),
    "contrastive": lambda: contrastive,
    "max": lambda: largest,
    "user's class": lambda: Spread(),
}
WEIGHTED = (
    "mean",
    pytest.param("sum", marks=pytest.mark.thorough),
    "mean_with_sample_weight",
    "ignore_class",
)


def rate(name: str) -> float:
    return 0.003 if name == "sum" else 0.05


@pytest.fixture(params=LOSSES)
def build(request: pytest.FixtureRequest, perceptron: Any) -> Callable[[], keras.Model]:
    name = request.param
    return lambda: perceptron(
        loss=LOSSES[name](), optimizer=keras.optimizers.SGD(rate(name)), metrics=["accuracy"]
    )


@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_loss_is_one_devices(build: Any, replicas: int, images: Any, train: Any) -> None:
    train(build, replicas, *images).assert_same(train(build, 0, *images))


@pytest.mark.parametrize("name", WEIGHTED)
def test_sample_weights(name: str, perceptron: Any, images: Any, train: Any) -> None:
    weights = np.random.default_rng(1).random(len(images[0]))
    weights[:9] = 0

    def build() -> keras.Model:
        return perceptron(
            loss=LOSSES[name](),
            optimizer=keras.optimizers.SGD(rate(name)),
            weighted_metrics=["accuracy"],
        )

    options = {"sample_weight": weights}
    train(build, 4, *images, **options).assert_same(train(build, 0, *images, **options))


def test_class_weights(perceptron: Any, images: Any, train: Any) -> None:
    options = {"class_weight": {0: 2.0, 1: 0.5, 4: 0.0}}
    train(perceptron, 2, *images, **options).assert_same(train(perceptron, 0, *images, **options))


@pytest.mark.parametrize("last", [1, 6, 8])
def test_a_last_batch_of_any_size(last: int, convnet: Any, images: Any, train: Any) -> None:
    x, y = (part[: 12 + last] for part in images)
    train(convnet, 4, x, y, epochs=2).assert_same(train(convnet, 0, x, y, epochs=2))


def test_one_replica_is_plain_keras_to_the_bit(convnet: Any, images: Any, train: Any) -> None:
    train(convnet, 1, *images).assert_same(train(convnet, 0, *images), tolerance=0)


def test_several_outputs_with_weights_and_metrics(images: Any, train: Any) -> None:
    x, y = images

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = keras.Input((8, 8, 1), name="image")
        hidden = keras.layers.Dense(6, activation="relu")(keras.layers.Flatten()(inputs))
        model = keras.Model(
            {"image": inputs},
            {
                "kind": keras.layers.Dense(5, name="kind")(hidden),
                "size": keras.layers.Dense(1, name="size")(hidden),
            },
        )
        model.compile(
            "adam",
            loss={"kind": CrossEntropy(from_logits=True), "size": "mae"},
            loss_weights={"kind": 0.3, "size": 2.0},
            metrics={"kind": ["accuracy"], "size": ["mse"]},
        )
        return model

    targets = {"kind": y, "size": x.mean((1, 2, 3), keepdims=False)[:, None]}
    one = train(build, 0, {"image": x}, targets)
    several = train(build, 4, {"image": x}, targets)
    assert len(one.history) == 5
    several.assert_same(one)


@pytest.mark.thorough
def test_masked_outputs_are_averaged_over_valid_entries(train: Any) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 6, (26, 7))
    x[::3, 3:] = 0
    y = rng.integers(0, 4, (26, 7))

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.Input((7,), dtype="int32"),
                keras.layers.Embedding(6, 5, mask_zero=True),
                keras.layers.LSTM(4, return_sequences=True),
                keras.layers.Dense(4),
            ]
        )
        model.compile("sgd", loss=CrossEntropy(from_logits=True), metrics=["accuracy"])
        return model

    options = {"batch_size": 8, "epochs": 2}
    train(build, 4, x, y, **options).assert_same(train(build, 0, x, y, **options))


@pytest.mark.thorough
def test_an_overridden_compute_loss_sees_the_global_batch(images: Any, train: Any) -> None:
    class Centered(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(5)
            self.seen = keras.metrics.Mean(name="seen")

        def call(self, x: Any) -> Any:
            return self.dense(ops.reshape(x, (-1, 64)))

        def compute_loss(
            self,
            x: Any = None,
            y: Any = None,
            y_pred: Any = None,
            sample_weight: Any = None,
            training: bool = True,
        ) -> Any:
            loss = jnp.sum((y_pred - y_pred.mean(0)) ** 2) / 50 + (x.std(0) * y_pred.mean()).sum()
            self.seen.update_state(loss)
            return loss

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = Centered()
        model.compile(keras.optimizers.SGD(0.01))
        return model

    one = train(build, 0, *images)
    assert "seen" in one.history
    train(build, 4, *images).assert_same(one)
