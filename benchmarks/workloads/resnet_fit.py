"""ResNet-50 on images of 224x224x3, batch 16, SGD, Keras ``fit``, one device."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.floor import Floor
from benchmarks.harness.training import (
    ModelAndFit,
    Prepared,
    check_training,
    fit,
    measured,
    seed_weights,
)
from benchmarks.harness.workload import Contender, Scale, Workload

SHAPE = (224, 224, 3)
CLASSES = 1000
USED_CLASSES = 2


def make_examples(elements: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Noise images (n, 224, 224, 3), float32, lighter or darker by class, and labels, int64."""
    random = np.random.RandomState(11)
    labels = random.randint(USED_CLASSES, size=elements)
    images = random.standard_normal((elements, *SHAPE)).astype(np.float32)
    return images + labels.astype(np.float32)[:, None, None, None], labels.astype(np.int64)


def compiled_resnet(keras: Any) -> Any:
    """ResNet-50 with seeded weights, compiled with plain SGD."""
    model = keras.applications.ResNet50(
        weights=None, input_shape=SHAPE, classes=CLASSES, classifier_activation=None
    )
    seed_weights(model)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=1e-4),
    )
    return model


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
            model = compiled_resnet(keras)
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
        model = compiled_resnet(keras)
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
        model = compiled_resnet(keras)
        return model, functools.partial(
            fit, model, images, y=labels, batch_size=scale.batch_size, shuffle=False
        )

    return keras, build


WORKLOAD = Workload(
    name="resnet_fit",
    title="ResNet-50, 224x224x3, Keras fit, batch 16, 1 device",
    unit="images",
    baseline="Keras on TensorFlow",
    full=Scale(elements=48, batch_size=16, later_epochs=2),
    quick=Scale(elements=16, batch_size=16, later_epochs=1),
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
    floors=(Floor("later", at_least=0.85, aim=1.0, against="Keras on TensorFlow"),),
    check=check_training(tolerance=0.01, falls_to=0.97),
    timeout_s=600.0,
)
