"""Keras ``fit`` of one task from a dataset or from arrays, whatever the library under it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.training import ModelAndFit, Prepared, fit, measured
from benchmarks.harness.workload import Contender, Scale


@dataclass(frozen=True)
class Task:
    """What is trained: the examples, and the compiled model with its initial weights.

    ``make_examples`` takes how many; ``compiled_model`` takes the ``keras`` module.
    """

    make_examples: Callable[[int], Any]
    compiled_model: Callable[[Any], Any]


def from_dataset(
    task: Task, keras: Any, data: Any, scale: Scale, scope: Callable[[], Any]
) -> Prepared:
    """As guides write it: slices, batches and a prefetch.

    Args:
        data: ``drumline.data`` or ``tf.data``, which are alike in this.
        scope: gives the context in which the model is built.
    """
    examples = task.make_examples(scale.elements)

    def build() -> ModelAndFit:
        dataset = data.Dataset.from_tensor_slices(examples).batch(scale.batch_size)
        dataset = dataset.prefetch(data.AUTOTUNE)
        with scope():
            model = task.compiled_model(keras)
        return model, functools.partial(fit, model, dataset)

    return keras, build


def from_arrays(task: Task, keras: Any, scale: Scale) -> Prepared:
    """From the arrays themselves, which is the fastest input of Keras on JAX."""
    inputs, labels = task.make_examples(scale.elements)

    def build() -> ModelAndFit:
        model = task.compiled_model(keras)
        return model, functools.partial(
            fit, model, inputs, y=labels, batch_size=scale.batch_size, shuffle=False
        )

    return keras, build


def one_device_contenders(task: Task) -> tuple[Contender, ...]:
    """drumline, Keras on TensorFlow and Keras on JAX, on one device each."""

    def drumline(scale: Scale) -> Prepared:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import keras

        import drumline as dl

        jax.devices()
        strategy = dl.distribute.OneDeviceStrategy("cpu:0")
        return from_dataset(task, keras, dl.data, scale, strategy.scope)

    def keras_on_tensorflow(scale: Scale) -> Prepared:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        import tensorflow as tf

        tf.constant(0)
        return from_dataset(task, keras, tf.data, scale, contextlib.nullcontext)

    def keras_on_jax(scale: Scale) -> Prepared:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import keras

        jax.devices()
        return from_arrays(task, keras, scale)

    return (
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
    )
