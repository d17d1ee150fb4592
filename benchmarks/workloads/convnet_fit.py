"""The tutorial's convnet, Keras ``fit`` from a dataset, batch 64, one device."""

from __future__ import annotations

import functools
import os

from benchmarks.harness.floor import Floor
from benchmarks.harness.training import ModelAndFit, Prepared, check_training, fit, measured
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import FALLS_TO, TOLERANCE, compiled_convnet, make_examples


def drumline(scale: Scale) -> Prepared:
    """As a user writes it, under OneDeviceStrategy."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import drumline as dl

    jax.devices()
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    examples = make_examples(scale.elements)

    def build() -> ModelAndFit:
        data = dl.data.Dataset.from_tensor_slices(examples).batch(scale.batch_size)
        data = data.prefetch(dl.data.AUTOTUNE)
        with strategy.scope():
            model = compiled_convnet(keras)
        return model, functools.partial(fit, model, data)

    return keras, build


def keras_on_tensorflow(scale: Scale) -> Prepared:
    """As TensorFlow's guides write it."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    tf.constant(0)
    examples = make_examples(scale.elements)

    def build() -> ModelAndFit:
        data = tf.data.Dataset.from_tensor_slices(examples).batch(scale.batch_size)
        data = data.prefetch(tf.data.AUTOTUNE)
        model = compiled_convnet(keras)
        return model, functools.partial(fit, model, data)

    return keras, build


def keras_on_jax(scale: Scale) -> Prepared:
    """Plain Keras on JAX, from the arrays themselves, which is its fastest input."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    jax.devices()
    images, labels = make_examples(scale.elements)

    def build() -> ModelAndFit:
        model = compiled_convnet(keras)
        return model, functools.partial(
            fit, model, images, y=labels, batch_size=scale.batch_size, shuffle=False
        )

    return keras, build


WORKLOAD = Workload(
    name="convnet_fit",
    title="tutorial convnet, Keras fit from a Dataset, batch 64, 1 device",
    unit="images",
    baseline="Keras on TensorFlow",
    full=Scale(elements=16_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=1_280, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "Dataset, OneDeviceStrategy, Keras fit",
            ("drumline", "jax", "keras"),
            measured(drumline, "drumline", "jax"),
        ),
        Contender(
            "Keras on TensorFlow",
            "tf.data, Keras fit",
            ("tensorflow", "keras"),
            measured(keras_on_tensorflow, "tensorflow-cpu", "tensorflow"),
        ),
        Contender(
            "Keras on JAX",
            "arrays in memory, Keras fit",
            ("jax", "keras"),
            measured(keras_on_jax, "jax"),
        ),
    ),
    floors=(Floor("later", at_least=1.5, aim=2.0, against="Keras on TensorFlow"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
