"""OneDeviceStrategy computes where it says; without a strategy Keras is as before."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, OneDeviceStrategy


def variables_of(model: keras.Model) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables, *model.metrics_variables]


def test_variables_and_computation_are_on_the_device(perceptron: Any, images: Any) -> None:
    device = jax.devices("cpu")[1]
    with OneDeviceStrategy("cpu:1").scope():
        model = perceptron(metrics=["accuracy"])
        assert {v.value.device for v in model.variables} == {device}
    ran_on = set()

    class Where(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            for values in self.model._jax_state.values():
                ran_on.update(value.device for value in values)

    model.fit(*images, verbose=0, callbacks=[Where()])
    assert ran_on == {device}
    assert {v.value.device for v in variables_of(model)} == {device}
    assert model.predict_on_batch(images[0]).shape == (39, 5)


def test_a_model_built_by_fit_is_on_the_device(images: Any) -> None:
    with OneDeviceStrategy("cpu:2").scope():
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(5)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*images, verbose=0)
    assert {v.value.device for v in variables_of(model)} == {jax.devices("cpu")[2]}


def test_mirrored_variables_are_on_every_device_from_the_start(perceptron: Any) -> None:
    with MirroredStrategy(["cpu:1", "cpu:3"]).scope():
        model = perceptron()
    devices = set(jax.devices("cpu")[1::2])
    for variable in model.variables:
        assert variable.value.sharding.device_set == devices
        assert variable.value.sharding.is_fully_replicated
    model.layers[-1].bias.assign(np.ones(5))
    assert model.layers[-1].bias.value.sharding.device_set == devices


def test_an_optimizer_made_outside_of_the_scope_serves(perceptron: Any, images: Any) -> None:
    optimizer = keras.optimizers.Adam(1e-3)
    with MirroredStrategy(["cpu:1", "cpu:2"]).scope():
        model = perceptron(optimizer=optimizer)
    model.fit(*images, verbose=0, batch_size=12)
    assert int(optimizer.iterations.value) == 4


def test_without_a_strategy_variables_stay_where_jax_puts_them(
    perceptron: Any, images: Any
) -> None:
    model = perceptron()
    model.fit(*images, verbose=0)
    assert {v.value.device for v in variables_of(model)} == {jax.devices()[0]}
    assert not any(v.value.committed for v in model.variables)


@pytest.mark.parametrize("devices", [["cpu:2"], ["cpu:2", "cpu:3"]])
def test_arrays_of_jax_as_input(devices: Any, perceptron: Any, images: Any) -> None:
    x, y = map(jax.numpy.asarray, images)
    with MirroredStrategy(devices).scope():
        model = perceptron()
    model.fit(x, y, verbose=0, batch_size=12)
    assert model.train_on_batch(x[:12], y[:12]) > 0
    assert model.predict(x, verbose=0).shape == (39, 5)
