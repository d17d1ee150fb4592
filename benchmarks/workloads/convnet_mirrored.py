"""The tutorial's convnet mirrored on two logical CPU devices, 64 images for each replica."""

from __future__ import annotations

import os

from benchmarks.harness.floors import Floor
from benchmarks.harness.training import (
    Prepared,
    check_training,
    from_arrays,
    from_dataset,
    measured,
)
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CONVNET, FALLS_TO, TOLERANCE

REPLICAS = 2


def drumline(scale: Scale) -> Prepared:
    """As a user writes it, under MirroredStrategy."""
    import drumline as dl

    dl.config.set_logical_devices("cpu", REPLICAS)
    import jax
    import keras

    jax.devices()
    strategy = dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(REPLICAS)])
    return from_dataset(CONVNET, keras, dl.data, scale, strategy.scope)


def keras_on_tensorflow(scale: Scale) -> Prepared:
    """As TensorFlow's tutorial writes it, under tf.distribute.MirroredStrategy."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(REPLICAS)]
    tf.config.set_logical_device_configuration(cpu, logical)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(REPLICAS)])
    return from_dataset(CONVNET, keras, tf.data, scale, strategy.scope)


def keras_on_jax(scale: Scale) -> Prepared:
    """Plain Keras on JAX with its DataParallel distribution, from the arrays themselves."""
    os.environ["KERAS_BACKEND"] = "jax"
    # XLA sizes its thread pool by this variable, else by the cores. With as many threads as
    # devices, two all-reduces of one step can each wait for the other's thread for ever.
    os.environ["NPROC"] = str(2 * REPLICAS)
    import jax

    jax.config.update("jax_num_cpu_devices", REPLICAS)
    import keras

    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()))
    return from_arrays(CONVNET, keras, scale)


WORKLOAD = Workload(
    name="convnet_mirrored",
    title="tutorial convnet mirrored on 2 devices, Keras fit, batch 2 x 64",
    unit="images",
    baseline="Keras on TensorFlow",
    full=Scale(elements=16_000, batch_size=128, later_epochs=3),
    quick=Scale(elements=1_280, batch_size=128, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "Dataset, MirroredStrategy over 2 logical CPU devices, Keras fit",
            ("drumline", "jax", "keras"),
            measured(drumline, "drumline", "jax"),
        ),
        Contender(
            "Keras on TensorFlow",
            "tf.data, tf.distribute.MirroredStrategy over 2 logical CPU devices, Keras fit",
            ("tensorflow", "keras"),
            measured(keras_on_tensorflow, "tensorflow-cpu", "tensorflow"),
        ),
        Contender(
            "Keras on JAX",
            "arrays in memory, keras.distribution.DataParallel over 2 CPU devices, Keras fit",
            ("jax", "keras"),
            measured(keras_on_jax, "jax"),
        ),
    ),
    floors=(Floor("later", at_least=1.1, aim=2.0, against="Keras on TensorFlow"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
