"""Numbers gathered by their remainder, 32 at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as
from benchmarks.workloads.range_filter import measured

KEYS = 8


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")

    def build() -> Iterable[Batch]:
        return dl.data.Dataset.range(scale.elements).group_by_window(
            lambda v: v % KEYS,
            lambda key, window: window.batch(scale.batch_size),
            window_size=scale.batch_size,
        )

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .group_by_window(
                lambda v: v % KEYS,
                lambda key, window: window.batch(scale.batch_size),
                window_size=scale.batch_size,
            )
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Sorts batches by key, which relies on keys that come equally often."""
    import tensorflow as tf

    tf.constant(0)
    options = tf.data.Options()
    options.autotune.enabled = False
    block = KEYS * scale.batch_size

    def sort(values: Any) -> Any:
        order = tf.argsort(values % KEYS, stable=True)
        return tf.reshape(tf.gather(values, order), [KEYS, scale.batch_size])

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .batch(block)
            .map(sort)
            .unbatch()
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def batches(scale: Scale) -> Iterator[Any]:
    """What everybody must give, by numpy."""
    size = scale.batch_size
    for start in range(0, scale.elements, KEYS * size):
        yield from np.arange(start, start + KEYS * size).reshape(size, KEYS).T.copy()


WORKLOAD = Workload(
    name="group_by_window",
    title="range(204,800): group_by_window(v % 8, batch(32))",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=204_800, batch_size=32, later_epochs=2),
    quick=Scale(elements=5_120, batch_size=32, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "range, group_by_window",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "range, group_by_window, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "batches of 256 sorted by key and split (keys come equally often)",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy",
            "blocks of 256 transposed",
            (),
            measured(lambda scale: lambda: Epochs(lambda: batches(scale)), ()),
        ),
    ),
    floors=(Floor("later", at_least=3.0, against="tf.data"),),
    check=same_as(lambda scale: list(batches(scale))),
)
