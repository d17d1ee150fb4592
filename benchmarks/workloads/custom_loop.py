"""The custom training loop of TensorFlow's tutorial: its convnet, MirroredStrategy, batch 64."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.floor import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import check_training, seed_weights
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CLASSES, FALLS_TO, SHAPE, TOLERANCE, make_examples


def tutorial_model(keras: Any) -> Any:
    """The model of the tutorial "Custom training with tf.distribute.Strategy", seeded."""
    model = keras.Sequential(
        [
            keras.layers.Input(SHAPE),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    seed_weights(model)
    return model


def training(dl: Any, data: Any, nn: Any, keras: Any, scale: Scale) -> Callable[[], Loop]:
    """The tutorial's loop; `dl` is drumline or TensorFlow, which it names alike."""
    strategy = dl.distribute.MirroredStrategy()
    examples = make_examples(scale.elements)
    size = scale.batch_size

    def build() -> Loop:
        dataset = data.Dataset.from_tensor_slices(examples).batch(size)
        distributed = strategy.experimental_distribute_dataset(dataset)
        with strategy.scope():
            losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
            model = tutorial_model(keras)
            optimizer = keras.optimizers.Adam(learning_rate=0.001)
            optimizer.build(model.trainable_variables)
            accuracy = keras.metrics.SparseCategoricalAccuracy()

        def train_step(inputs: Any) -> Any:
            images, labels = inputs
            with dl.GradientTape() as tape:
                predictions = model(images, training=True)
                per_example = losses(labels, predictions)
                loss = nn.compute_average_loss(per_example, global_batch_size=size)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            accuracy.update_state(labels, predictions)
            return loss

        @dl.function
        def distributed_train_step(inputs: Any) -> Any:
            per_replica = strategy.run(train_step, args=(inputs,))
            return strategy.reduce(dl.distribute.ReduceOp.SUM, per_replica, axis=None)

        def epoch() -> tuple[float, int]:
            total, steps = 0.0, 0
            for batch in distributed:
                total += distributed_train_step(batch)
                steps += 1
            return float(np.asarray(total)) / steps, steps

        return Loop(model.get_weights, epoch)

    return build


def drumline(scale: Scale) -> Callable[[], Loop]:
    """As the tutorial writes it."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import drumline as dl

    jax.devices()
    return training(dl, dl.data, dl.nn, keras, scale)


def tensorflow(scale: Scale) -> Callable[[], Loop]:
    """As the tutorial writes it."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    tf.constant(0)
    return training(tf, tf.data, tf.nn, keras, scale)


WORKLOAD = Workload(
    name="custom_loop",
    title="custom loop of the tutorial, MirroredStrategy on 1 device, batch 64",
    unit="images",
    baseline="TensorFlow",
    full=Scale(elements=9_600, batch_size=64, later_epochs=3),
    quick=Scale(elements=640, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "function, strategy.run, GradientTape",
            ("drumline", "jax", "keras"),
            measured_loop(drumline, "drumline", "jax", "keras"),
        ),
        Contender(
            "TensorFlow",
            "tf.function, strategy.run, tf.GradientTape",
            ("tensorflow", "keras"),
            measured_loop(tensorflow, "tensorflow-cpu", "tensorflow", "keras"),
        ),
    ),
    floors=(Floor("later", at_least=2.0, against="TensorFlow"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
