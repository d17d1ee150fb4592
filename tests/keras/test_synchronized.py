"""Layers that look across rows give what one device gives, where they ask for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import drumline as dl
from drumline.distribute import MirroredStrategy, OneDeviceStrategy, get_replica_context

Train = Callable[..., Any]


def _normalization(**options: Any) -> keras.layers.Layer:
    return keras.layers.BatchNormalization(synchronized=True, momentum=0.6, **options)


@pytest.fixture(scope="module")
def far() -> tuple[np.ndarray, np.ndarray]:
    """27 rows whose features lie far from zero, and differently in each half of a batch."""
    rng = np.random.default_rng(4)
    x = rng.normal(100.0, 1.0, (27, 5, 3)).astype(np.float32)
    x += 3 * (np.arange(27) % 12 < 6)[:, None, None].astype(np.float32)
    return x, rng.normal(size=(27, 2)).astype(np.float32)


def _model(*layers: keras.layers.Layer, **options: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            *layers,
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2),
        ]
    )
    model.compile(
        **{"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "loss": "mse", **options}
    )
    return model


@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"steps_per_execution": 2},
        pytest.param(
            {"optimizer": keras.optimizers.LossScaleOptimizer}, marks=pytest.mark.thorough
        ),
    ],
    ids=["plain", "several steps", "loss scaling"],
)
def test_fit_equals_one_device(options: Any, replicas: int, far: Any, train: Train) -> None:
    def build() -> keras.Model:
        made = {
            k: v(keras.optimizers.SGD(0.1)) if k == "optimizer" else v for k, v in options.items()
        }
        return _model(_normalization(), **made)

    train(build, replicas, *far).assert_same(train(build, 0, *far), tolerance=5e-5)


def test_it_differs_where_it_is_not_asked_for(far: Any, train: Train) -> None:
    def build() -> keras.Model:
        return _model(keras.layers.BatchNormalization(momentum=0.6))

    one, two = train(build, 0, *far), train(build, 2, *far)
    assert np.abs(one.history["loss"][-1] - two.history["loss"][-1]) > 1e-3


def test_masked_entries_do_not_count(far: Any, train: Train) -> None:
    x, y = far
    x = x.copy()
    lengths = np.random.default_rng(0).integers(0, 6, len(x))
    lengths[:6] = 0  # the first share of the first batch has no entry at all
    x[np.arange(5) >= lengths[:, None]] = 0

    def build() -> keras.Model:
        return _model(
            keras.layers.Masking(0.0), _normalization(), keras.layers.LSTM(4, return_sequences=True)
        )

    train(build, 2, x, y, epochs=1).assert_same(train(build, 0, x, y, epochs=1), tolerance=1e-4)


@pytest.mark.thorough
def test_batch_renormalization_and_mixed_precision(far: Any, train: Train) -> None:
    if "renorm" not in keras.layers.BatchNormalization.__init__.__wrapped__.__code__.co_varnames:
        pytest.skip("this Keras has no batch renormalization")

    def build() -> keras.Model:
        return _model(_normalization(renorm=True), _normalization(dtype="mixed_bfloat16"))

    train(build, 2, *far, epochs=1).assert_same(train(build, 0, *far, epochs=1), tolerance=2e-2)


def test_moments_of_any_layer(far: Any, train: Train) -> None:
    @keras.saving.register_keras_serializable("drumline tests")
    class Standardized(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            mean, variance = ops.moments(x, axes=[0, 1], synchronized=True)
            return (x - mean) / ops.sqrt(variance + 1e-3)

    def build() -> keras.Model:
        normalization = keras.layers.BatchNormalization(momentum=0.6)
        normalization.synchronized = True
        return _model(Standardized(), normalization)

    train(build, 2, *far, epochs=1).assert_same(train(build, 0, *far, epochs=1), tolerance=5e-5)


class AcrossRows(keras.layers.Layer):
    """What `docs/tensorflow/differences.md` shows."""

    def call(self, x: Any) -> Any:
        context = get_replica_context()
        total, rows = context.all_reduce("SUM", (ops.sum(x, 0), ops.shape(x)[0]))
        mean = total / ops.cast(rows, x.dtype)
        squares = context.all_reduce("SUM", ops.sum((x - mean) ** 2, 0))
        return (x - mean) / ops.sqrt(squares / ops.cast(rows, x.dtype) + 1e-3)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_layer_that_reduces_in_its_call(replicas: int, far: Any, train: Train) -> None:
    def build() -> keras.Model:
        return _model(AcrossRows())

    one, several = train(build, 0, *far), train(build, replicas, *far)
    several.assert_same(one, tolerance=1e-4)
    x = far[0][:12]
    expected = one.model.predict(x, verbose=0)
    np.testing.assert_allclose(several.model.predict(x, verbose=0), expected, atol=1e-4)
    np.testing.assert_allclose(several.model(x), expected, atol=1e-4)
    with several.model._drumline_strategy.scope():
        np.testing.assert_allclose(several.model(x), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("way", "eagerly"),
    [
        ("tape", False),
        ("value_and_grad", False),
        pytest.param("tape", True, marks=pytest.mark.thorough),
        pytest.param("value_and_grad", True, marks=pytest.mark.thorough),
    ],
)
def test_custom_loops_equal_one_device(way: str, eagerly: bool, far: Any) -> None:
    x, y = (part[:19] for part in far)

    def loop(strategy: dl.distribute.Strategy) -> list[np.ndarray]:
        with strategy.scope():
            model = _model(_normalization())

        def step(batch: Any) -> None:
            x, y = batch

            def loss() -> Any:
                errors = ops.mean((model(x, training=True) - y) ** 2, axis=1)
                return dl.nn.compute_average_loss(errors, global_batch_size=8)

            variables = model.trainable_variables
            if way == "tape":
                with dl.GradientTape() as tape:
                    value = loss()
                gradients = tape.gradient(value, variables)
            else:
                _, gradients = dl.value_and_grad(loss, variables)()
            model.optimizer.apply_gradients(zip(gradients, variables, strict=True))

        dataset = dl.data.Dataset.from_tensor_slices((x, y)).batch(8)  # 8, 8 and 3
        for batch in strategy.experimental_distribute_dataset(dataset):
            strategy.run(step, args=(batch,))
        return model.get_weights()

    expected = loop(OneDeviceStrategy("cpu:0"))
    dl.config.run_functions_eagerly(eagerly)
    try:
        found = loop(MirroredStrategy(["cpu:0", "cpu:1"]))
    finally:
        dl.config.run_functions_eagerly(False)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=5e-5, atol=5e-5)


def test_it_is_saved_and_works_without_a_strategy(far: Any, tmp_path: Path) -> None:
    layer = keras.layers.BatchNormalization(-1, 0.6, synchronized=True)
    assert layer.synchronized and layer.momentum == 0.6 and layer.get_config()["synchronized"]
    assert not keras.layers.BatchNormalization().synchronized
    model = _model(layer)
    model.fit(*far, batch_size=12, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[0].synchronized
    np.testing.assert_array_equal(
        again.predict(far[0], verbose=0), model.predict(far[0], verbose=0)
    )
