"""A custom loop by the look-alike of TensorFlow's interface, beside the same one by drumline's own.

Under MirroredStrategy on two devices of the CPU: the tutorial's convnet, and a model that is so
small that most of a step is what surrounds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import check_training, seed_weights
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CLASSES, FALLS_TO, SHAPE, TOLERANCE
from benchmarks.workloads.custom_loop import tutorial_model
from benchmarks.workloads.tutorial_loop import tutorial_loop

REPLICAS = 2
DEVICES = [f"cpu:{index}" for index in range(REPLICAS)]


def small_model(keras: Any) -> Any:
    """A single layer, seeded."""
    model = keras.Sequential(
        [keras.layers.Input(SHAPE), keras.layers.Flatten(), keras.layers.Dense(CLASSES)]
    )
    seed_weights(model)
    return model


def look_alike(build: Callable[[Any], Any]) -> Callable[[Scale], Callable[[], Loop]]:
    """As TensorFlow's tutorial writes it, with the import changed."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        import drumline.compat.tf as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(REPLICAS)]
        tf.config.set_logical_device_configuration(cpu, parts)
        strategy = tf.distribute.MirroredStrategy(DEVICES)
        return tutorial_loop(tf, tf.keras, strategy, build, scale)

    return prepare


def own(build: Callable[[Any], Any]) -> Callable[[Scale], Callable[[], Loop]]:
    """As drumline's users write it."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        os.environ["KERAS_BACKEND"] = "jax"
        import drumline as dl

        dl.config.set_logical_devices("cpu", REPLICAS)
        import keras

        return tutorial_loop(dl, keras, dl.distribute.MirroredStrategy(DEVICES), build, scale)

    return prepare


def _workload(
    name: str, title: str, build: Callable[[Any], Any], full: Scale, falls_to: float
) -> Workload:
    return Workload(
        name=name,
        title=f"{title}: tf.function and strategy.run of drumline.compat.tf, 2 devices",
        unit="images",
        baseline="drumline's own names",
        full=full,
        quick=Scale(elements=10 * full.batch_size, batch_size=full.batch_size, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "import drumline.compat.tf as tf",
                ("drumline", "jax", "keras"),
                measured_loop(look_alike(build), "drumline", "jax", "keras"),
            ),
            Contender(
                "drumline's own names",
                "dl.function, strategy.run, dl.GradientTape",
                ("drumline", "jax", "keras"),
                measured_loop(own(build), "drumline", "jax", "keras"),
            ),
        ),
        floors=(Floor("later", at_least=0.9, aim=1.0, against="drumline's own names"),),
        check=check_training(TOLERANCE, falls_to),
    )


WORKLOADS = (
    _workload(
        "compat_step",
        "convnet of the tutorial, batch 64",
        tutorial_model,
        Scale(elements=6_400, batch_size=64, later_epochs=3),
        FALLS_TO,
    ),
    _workload(
        "compat_small_step",
        "one layer, batch 32",
        small_model,
        Scale(elements=16_000, batch_size=32, later_epochs=5),
        1.0,
    ),
)
