"""Optimizers, regularizers and ways to train give one device's curve and weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from drumline.distribute import MirroredStrategy

OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "EMA": lambda: keras.optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3
    ),
    "accumulation": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "global clipping": lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.05),
    "clipping by value": lambda: keras.optimizers.SGD(0.5, clipvalue=0.01),
    "loss scaling": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=2.0**10, dynamic_growth_steps=3
    ),
    "fixed loss scale": lambda: keras.optimizers.SGD(0.1, loss_scale_factor=16.0),
    "adamw": lambda: keras.optimizers.AdamW(1e-3),
}


def several_optimizers() -> keras.optimizers.Optimizer:
    from keras.src.optimizers.multi_optimizer import MultiOptimizer, OptimizerMap

    chosen = OptimizerMap(keras.optimizers.SGD(0.1))
    chosen[".*conv2d.*"] = keras.optimizers.Adam(1e-3)
    return MultiOptimizer(chosen)


ALIKE = ("adamw", "clipping by value", "fixed loss scale")
"""Those whose way through the replicas is another one's too."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.thorough) if n in ALIKE else n for n in OPTIMIZERS],
)
def test_optimizer(name: str, perceptron: Any, images: Any, train: Any) -> None:
    def build() -> keras.Model:
        return perceptron(optimizer=OPTIMIZERS[name]())

    train(build, 4, *images).assert_same(train(build, 0, *images))


def test_several_optimizers_in_one(convnet: Any, images: Any, train: Any) -> None:
    pytest.importorskip("keras.src.optimizers.multi_optimizer", reason="Keras has none")

    def build() -> keras.Model:
        return convnet(optimizer=several_optimizers())

    train(build, 2, *images).assert_same(train(build, 0, *images))


def test_weight_regularizers(perceptron: Any, images: Any, train: Any) -> None:
    def build() -> keras.Model:
        return perceptron(
            keras.layers.Dense(9, kernel_regularizer=keras.regularizers.L1L2(0.05, 0.1))
        )

    train(build, 4, *images).assert_same(train(build, 0, *images))


class SumOfActivations(keras.layers.Layer):
    """Adds the sum of the squared activations: a loss that is no mean over the batch."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.01 * ops.sum(x**2))
        return x


class LargestActivation(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        self.add_loss(ops.max(x))
        return x


@pytest.mark.parametrize(
    "layer",
    [
        SumOfActivations,
        LargestActivation,
        lambda: keras.layers.Dense(6, activity_regularizer="l2"),
    ],
)
def test_losses_added_on_activations(layer: Any, perceptron: Any, images: Any, train: Any) -> None:
    def build() -> keras.Model:
        hidden = keras.layers.Dense(8, activation="tanh")
        return perceptron(hidden, layer(), optimizer=keras.optimizers.SGD(0.01))

    train(build, 4, *images).assert_same(train(build, 0, *images))


def test_steps_per_execution(perceptron: Any, images: Any, train: Any) -> None:
    def build() -> keras.Model:
        return perceptron(steps_per_execution=3, metrics=["accuracy"])

    one, several = train(build, 0, *images), train(build, 2, *images)
    several.assert_same(one)
    np.testing.assert_allclose(
        several.model.predict(images[0], batch_size=12, verbose=0),
        one.model.predict(images[0], batch_size=12, verbose=0),
        atol=1e-5,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"run_eagerly": True}, {"jit_compile": False}])
def test_uncompiled(options: Any, convnet: Any, images: Any, train: Any) -> None:
    def build() -> keras.Model:
        return convnet(metrics=["accuracy"], **options)

    def compiled() -> keras.Model:
        return convnet(metrics=["accuracy"])

    x, y = (part[:15] for part in images)
    train(build, 2, x, y, epochs=1).assert_same(train(compiled, 0, x, y, epochs=1))


def test_validation_split_and_a_functional_model(images: Any, train: Any) -> None:
    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        left, right = keras.Input((8, 8, 1)), keras.Input((8, 8, 1))
        both = keras.layers.Concatenate()([left, right])
        outputs = keras.layers.Dense(5)(keras.layers.Flatten()(both))
        model = keras.Model([left, right], outputs)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    x, y = images
    options = {"validation_split": 0.3}
    one = train(build, 0, [x, x[::-1]], y, **options)
    assert "val_loss" in one.history
    train(build, 4, [x, x[::-1]], y, **options).assert_same(one)


class OwnStep(keras.Model):
    """A training step in the form of Keras's guide for JAX, with a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(5)

    def call(self, x: Any) -> Any:
        return self.dense(ops.reshape(x, (-1, 64)))

    def compute_loss_and_updates(
        self, trainable: Any, non_trainable: Any, x: Any, y: Any, training: bool = False
    ) -> Any:
        y_pred, non_trainable = self.stateless_call(trainable, non_trainable, x)
        loss = ops.sum(ops.relu(ops.std(y_pred, axis=0) - 0.1))
        return loss, (y_pred, non_trainable)

    def train_step(self, state: Any, data: Any) -> Any:
        import jax

        trainable, non_trainable, optimizer, metrics = state
        x, y = data
        grad_fn = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
        (loss, (y_pred, non_trainable)), grads = grad_fn(
            trainable, non_trainable, x, y, training=True
        )
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, grads, trainable)
        logs, updated = {}, []
        for metric in self.metrics:
            own = metrics[len(updated) : len(updated) + len(metric.variables)]
            if metric.name == "loss":
                own = metric.stateless_update_state(own, loss)
            else:
                own = metric.stateless_update_state(own, y, y_pred)
            logs[metric.name] = metric.stateless_result(own)
            updated += own
        return logs, (trainable, non_trainable, optimizer, updated)


def test_a_train_step_of_ones_own(images: Any, train: Any) -> None:
    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = OwnStep()
        model.compile("sgd", loss="mse")
        return model

    x, y = images[0], keras.utils.to_categorical(images[1], 5)
    train(build, 4, x, y).assert_same(train(build, 0, x, y))


@pytest.mark.parametrize("replicas", [0, 2])
def test_evaluate_and_a_second_fit_after_averages_became_the_weights(replicas: int) -> None:
    devices = [f"cpu:{number}" for number in range(replicas)]
    scope = MirroredStrategy(devices).scope() if devices else contextlib.nullcontext()
    with scope:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile(keras.optimizers.SGD(0.05, use_ema=True), "mse")
    rows = np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)
    (first,) = model.fit(*rows, batch_size=4, verbose=0).history["loss"]
    after = model.evaluate(*rows, verbose=0)
    model.predict(rows[0], verbose=0)
    (second,) = model.fit(*rows, batch_size=4, verbose=0).history["loss"]
    assert second < after < first
