"""The custom training loop of TensorFlow's tutorial: its convnet, MirroredStrategy, batch 64."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import check_training, seed_weights
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CLASSES, FALLS_TO, SHAPE, TOLERANCE
from benchmarks.workloads.tutorial_loop import tutorial_loop


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


def drumline(scale: Scale) -> Callable[[], Loop]:
    """As the tutorial writes it."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import drumline as dl

    jax.devices()
    return tutorial_loop(dl, keras, dl.distribute.MirroredStrategy(), tutorial_model, scale)


def tensorflow(scale: Scale) -> Callable[[], Loop]:
    """As the tutorial writes it."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    tf.constant(0)
    return tutorial_loop(tf, keras, tf.distribute.MirroredStrategy(), tutorial_model, scale)


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
