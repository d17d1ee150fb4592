"""Models whose layers need the whole batch, and what Keras says of a model changed since."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy
from drumline.keras import install

install()


def _recurrent(layer: Any) -> keras.Model:
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input(batch_shape=(8, 5, 3)), layer(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.LSTM(4, stateful=True),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(4, stateful=True)),
    ],
)
def test_stateful_layers_equal_one_device(layer: Any) -> None:
    x = np.random.default_rng(0).normal(size=(16, 5, 3)).astype(np.float32)
    y = x[:, 0, :1]

    def train(model: keras.Model) -> list[Any]:
        losses = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
        return [losses, model.predict(x, batch_size=8, verbose=0), *model.get_weights()]

    expected = train(_recurrent(layer))
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = _recurrent(layer)
    for one, other in zip(train(model), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_in_a_step_of_ones_own_the_reason_is_said() -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        model = _recurrent(lambda: keras.layers.LSTM(4, stateful=True))
    x = strategy.experimental_distribute_values_from_function(
        lambda _: np.zeros((4, 5, 3), np.float32)
    )
    with pytest.raises(ValueError, match=r"Expected batch size: 8[\s\S]*each of 2 replicas"):
        strategy.run(model, args=(x,))


@pytest.mark.parametrize("replicas", [0, 2])
def test_freezing_without_compiling_is_refused_by_keras(replicas: int) -> None:
    def build() -> keras.Model:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model

    x, y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)
    if replicas:
        with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
            model = build()
    else:
        model = build()
    model.fit(x, y, verbose=0)
    model.layers[0].trainable = False
    with pytest.raises(ValueError, match=r"corresponding 1:1 to the trainable variables list"):
        model.fit(x, y, verbose=0)


def test_too_few_gradients_are_refused_by_keras() -> None:
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        variables = [keras.Variable(1.0), keras.Variable(2.0)]
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(variables)
    with pytest.raises(ValueError, match="gradients"):
        optimizer.apply([np.float32(1.0)])
