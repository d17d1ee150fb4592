"""A million numbers: v * 2 + 1, those divisible by 3, batched by 256, in order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.digest import batch_evidence
from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as

BLOCK = 16_384


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")

    def build() -> Iterable[Batch]:
        return (
            dl.data.Dataset.range(scale.elements)
            .map(lambda v: v * 2 + 1)
            .filter(lambda v: v % 3 == 0)
            .batch(scale.batch_size)
            .prefetch(dl.data.AUTOTUNE)
        )

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .map(lambda v: v * 2 + 1, num_parallel_calls=tf.data.AUTOTUNE)
            .filter(lambda v: v % 3 == 0)
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_batch_first(scale: Scale) -> Build:
    """As TensorFlow's performance guide advises: batches mapped and masked, then rebatched."""
    import tensorflow as tf

    tf.constant(0)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .batch(scale.batch_size)
            .map(lambda v: v * 2 + 1, num_parallel_calls=tf.data.AUTOTUNE)
            .map(lambda v: tf.boolean_mask(v, v % 3 == 0), num_parallel_calls=tf.data.AUTOTUNE)
            .rebatch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """The range made in blocks, mapped and masked on every core, then rebatched."""
    import tensorflow as tf

    tf.constant(0)
    options = tf.data.Options()
    options.autotune.enabled = False

    def block(values: Any) -> Any:
        mapped = values * 2 + 1
        return tf.boolean_mask(mapped, mapped % 3 == 0)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(0, scale.elements, BLOCK)
            .map(
                lambda start: block(tf.range(start, tf.minimum(start + BLOCK, scale.elements))),
                num_parallel_calls=os.cpu_count(),
            )
            .rebatch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def numpy_by_hand(scale: Scale) -> Build:
    """Blocks masked with numpy; batches are views of the blocks except where they straddle."""

    def epoch() -> Iterator[Batch]:
        rest = np.empty(0, np.int64)
        size = scale.batch_size
        for start in range(0, scale.elements, BLOCK):
            mapped = np.arange(start, min(start + BLOCK, scale.elements)) * 2 + 1
            kept = np.concatenate([rest, mapped[mapped % 3 == 0]])
            whole = len(kept) - len(kept) % size
            for place in range(0, whole, size):
                yield kept[place : place + size]
            rest = kept[whole:]
        if len(rest):
            yield rest

    return lambda: Epochs(epoch)


def expected(scale: Scale) -> list[np.ndarray]:
    """The batches that the workload must give."""
    values = np.arange(scale.elements, dtype=np.int64) * 2 + 1
    values = values[values % 3 == 0]
    return [values[i : i + scale.batch_size] for i in range(0, len(values), scale.batch_size)]


measured = measured_by(batch_evidence)


WORKLOAD = Workload(
    name="range_filter",
    title="range(1,000,000): map(v * 2 + 1), filter(v % 3 == 0), batch(256)",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=1_000_000, batch_size=256, later_epochs=2),
    quick=Scale(elements=20_000, batch_size=256, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "range, map, filter, batch, prefetch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "map(num_parallel_calls=AUTOTUNE), filter, batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data batch-first",
            "batch, map, map(boolean_mask), all AUTOTUNE, rebatch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data_batch_first, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "blocks of 16,384, arithmetic and boolean_mask on every core, rebatch, no autotuning",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy",
            "blocks of 16,384, arithmetic and mask, batches cut from the blocks",
            (),
            measured(numpy_by_hand, ()),
        ),
    ),
    floors=(Floor("later", at_least=5e6, aim=20e6),),
    check=same_as(expected),
    timeout_s=400.0,
)
