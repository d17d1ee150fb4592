"""The tutorial's convnet in two processes of one device each, 64 images for each worker."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.ranks import in_ranks, tf_config
from benchmarks.harness.training import Prepared, check_training, from_dataset, measured
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CONVNET, FALLS_TO, TOLERANCE, convnet
from benchmarks.workloads.tutorial_loop import tutorial_loop

OURS = ("drumline", "jax", "keras")
workers = functools.partial(tf_config, 2)


def drumline(scale: Scale) -> Prepared:
    """As a user writes it, under MultiWorkerMirroredStrategy."""
    import drumline as dl

    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    import keras

    return from_dataset(CONVNET, keras, dl.data, scale, strategy.scope)


def drumline_loop(scale: Scale) -> Callable[[], Loop]:
    """As the tutorial on custom loops writes it."""
    import drumline as dl

    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    import keras

    return tutorial_loop(dl, keras, strategy, convnet, scale)


def tensorflow_loop(scale: Scale) -> Callable[[], Loop]:
    """As the tutorial on custom loops writes it."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return tutorial_loop(tf, keras, strategy, convnet, scale)


WORKLOAD = Workload(
    name="multi_worker_step",
    title="tutorial convnet in 2 processes, MultiWorkerMirroredStrategy, batch 2 x 64",
    unit="images",
    baseline="TensorFlow custom loop",
    full=Scale(elements=16_000, batch_size=128, later_epochs=3),
    quick=Scale(elements=1_280, batch_size=128, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "Dataset, MultiWorkerMirroredStrategy, Keras fit",
            OURS,
            in_ranks(workers, measured(drumline, "drumline", "jax")),
        ),
        Contender(
            "drumline custom loop",
            "Dataset, MultiWorkerMirroredStrategy, strategy.run in function",
            OURS,
            in_ranks(workers, measured_loop(drumline_loop, *OURS)),
        ),
        Contender(
            "TensorFlow custom loop",
            "tf.data, tf.distribute.MultiWorkerMirroredStrategy, strategy.run in tf.function",
            ("tensorflow", "keras"),
            in_ranks(workers, measured_loop(tensorflow_loop, "tensorflow-cpu", "tensorflow")),
        ),
    ),
    floors=(Floor("later", at_least=1.5, against="TensorFlow custom loop"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
