"""Keras under `CentralStorageStrategy`: equal to mirrored variables bit by bit, kept at home."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, Strategy
from drumline.distribute.experimental import CentralStorageStrategy

ROWS, COMPUTE = 40, ["cpu:1", "cpu:2"]
CASES = {
    "apart": (COMPUTE, None, {}),
    "several steps at once": (COMPUTE, None, {"steps_per_execution": 2}),
    "eager": (COMPUTE, None, {"run_eagerly": True}),
    "among the replicas": (COMPUTE, "cpu:2", {}),
    "one replica": (["cpu:1"], "cpu:2", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_fit_evaluate_and_predict_equal_those_of_mirrored_variables(case: str) -> None:
    compute, home, options = CASES[case]
    central = CentralStorageStrategy(compute, home)
    expected, mirrored = _trained(MirroredStrategy(compute), options)
    found, model = _trained(central, options)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    variables = [*model.variables, *model.optimizer.variables]
    others = [*mirrored.variables, *mirrored.optimizer.variables]
    for ours, theirs in zip(variables, others, strict=True):
        np.testing.assert_array_equal(ours.value, theirs.value)
        assert ours.value.devices() == central.variable_sharding.device_set


def _trained(strategy: Strategy, options: Any) -> tuple[list[Any], keras.Model]:
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 6)).astype(np.float32)
    y = rng.integers(0, 3, ROWS)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(8, "relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **options)
    # The last batch of seven rows does not split.
    history = model.fit(x[:-1], y[:-1], batch_size=16, epochs=2, shuffle=False, verbose=0)
    results = [*history.history.values(), model.train_on_batch(x[:8], y[:8])]
    results += [model.evaluate(x, y, batch_size=16, verbose=0), model.predict(x, verbose=0)]
    model.set_weights([weight * 0.5 for weight in model.get_weights()])
    return [*results, model.predict_on_batch(x[:6]), np.asarray(model(x))], model
