"""What is each replica's own: dropout, batch statistics; and what must stay in common."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np
import pytest
from keras import ops

from drumline.distribute import MirroredStrategy, get_replica_context
from drumline.keras import ReplicaDivergenceError


class RecordMask(keras.layers.Layer):
    """Keeps, in a variable a row, what it saw in the last training step."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        shape = (rows, width)
        self.seen = self.add_weight(
            shape=shape, initializer="zeros", trainable=False, aggregation="sum", name="seen"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            context = get_replica_context()
            rows = ops.shape(x)[0]
            start = 0 if context is None else context.replica_id_in_sync_group * rows
            whole = jax.lax.dynamic_update_slice_in_dim(self.seen * 0, x, start, 0)
            self.seen.assign(whole if context is None else self.seen + whole)
        return x


def dropout_masks(seed: int, replicas: int) -> np.ndarray:
    with MirroredStrategy([f"cpu:{i}" for i in range(replicas)]).scope():
        keras.utils.set_random_seed(seed)
        model = keras.Sequential(
            [
                keras.Input((32,)),
                keras.layers.Dropout(0.5),
                RecordMask(8, 32),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mse")
    model.train_on_batch(np.ones((8, 32), np.float32), np.zeros((8, 1), np.float32))
    return np.asarray(model.layers[1].seen.value) > 0


def test_dropout_differs_by_replica_and_repeats_by_seed() -> None:
    masks = dropout_masks(seed=5, replicas=2)
    assert 0.3 < masks.mean() < 0.7
    assert (masks[:4] != masks[4:]).mean() > 0.3
    np.testing.assert_array_equal(masks, dropout_masks(seed=5, replicas=2))
    assert (masks != dropout_masks(seed=6, replicas=2)).any()


def normalized(replicas: int) -> keras.Model:
    strategy = MirroredStrategy([f"cpu:{i}" for i in range(replicas)], check_agreement=True)
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.BatchNormalization(momentum=0.5),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mse")
    return model


def test_batch_normalization_is_per_replica_with_averaged_moving_statistics() -> None:
    x = np.random.default_rng(0).normal(2.0, 3.0, (8, 3)).astype(np.float32)
    x[4:] += 10
    model = normalized(2)
    model.train_on_batch(x, np.zeros((8, 1), np.float32))
    layer = model.layers[0]
    halves = x.reshape(2, 4, 3)
    np.testing.assert_allclose(layer.moving_mean, 0.5 * halves.mean(1).mean(0), rtol=1e-5)
    expected = 0.5 + 0.5 * halves.var(1).mean(0)
    np.testing.assert_allclose(layer.moving_variance, expected, rtol=1e-5)


def test_batch_normalization_never_sees_padding() -> None:
    x = np.random.default_rng(0).normal(5.0, 1.0, (3, 3)).astype(np.float32)
    model = normalized(4)
    model.train_on_batch(x, np.zeros((3, 1), np.float32))
    np.testing.assert_allclose(model.layers[0].moving_mean, 0.5 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(model.layers[0].moving_variance, 0.5 + 0.5 * x.var(0), rtol=1e-4)


def test_random_numbers_in_an_optimizer_are_the_same_on_every_replica() -> None:
    class Noisy(keras.optimizers.SGD):
        def __init__(self) -> None:
            super().__init__(0.1)
            self.seeds = keras.random.SeedGenerator(4)

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            noise = keras.random.normal(ops.shape(gradient), seed=self.seeds)
            super().update_step(gradient + noise, variable, learning_rate)

    with MirroredStrategy(["cpu:0", "cpu:1"], check_agreement=True).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(Noisy(), "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0, batch_size=4)


class Diverging(keras.optimizers.SGD):
    """An optimizer with a fault: it updates by the replica's number."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        context = get_replica_context()
        if context is not None and variable.name == "bias":
            gradient = gradient + context.replica_id_in_sync_group.astype("float32")
        super().update_step(gradient, variable, learning_rate)


def diverging_model(check: bool) -> keras.Model:
    with MirroredStrategy(["cpu:0", "cpu:1"], check_agreement=check).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="head")])
        model.compile(Diverging(0.1), "mse")
    return model


def test_a_variable_that_diverged_is_named() -> None:
    model = diverging_model(check=True)
    with pytest.raises(ReplicaDivergenceError, match="head/bias") as raised:
        model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)
    assert "kernel" not in str(raised.value)
    assert np.isfinite(model.predict(np.ones((2, 2)), verbose=0)).all()


def test_the_check_is_asked_for() -> None:
    diverging_model(check=False).fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)
