"""100,000 integer sequences of 1 to 128 tokens in memory, batched by 64 and padded, in order."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.harness.digest import shaped_batch_evidence
from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as

LONGEST = 128
VOCABULARY = 30_000


def sequences(scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of all sequences, int32, and where each begins and ends, int64 (n + 1,)."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, LONGEST + 1, scale.elements)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return generator.integers(1, VOCABULARY, splits[-1]).astype(np.int32), splits


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    ragged = dl.RaggedArray(*sequences(scale))

    def build() -> Iterable[Batch]:
        return dl.data.Dataset.from_tensor_slices(ragged).padded_batch(scale.batch_size)

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it; the map makes tensors of the rows of a ragged tensor."""
    import tensorflow as tf

    ragged = tf.RaggedTensor.from_row_splits(*sequences(scale))

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(ragged)
            .map(lambda row: row, num_parallel_calls=tf.data.AUTOTUNE)
            .padded_batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_ragged(scale: Scale) -> Build:
    """Batches stay ragged until they are whole, and are padded by one operation."""
    import tensorflow as tf

    ragged = tf.RaggedTensor.from_row_splits(*sequences(scale))

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(ragged)
            .batch(scale.batch_size)
            .map(lambda rows: rows.to_tensor(), num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Batches of indices, each gathered and padded as a whole on every core, no autotuning."""
    import tensorflow as tf

    ragged = tf.RaggedTensor.from_row_splits(*sequences(scale))
    options = tf.data.Options()
    options.autotune.enabled = False

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .batch(scale.batch_size)
            .map(
                lambda index: tf.gather(ragged, index).to_tensor(),
                num_parallel_calls=os.cpu_count(),
            )
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def numpy_by_hand(scale: Scale) -> Build:
    """A mask of each batch filled in one assignment."""
    values, splits = sequences(scale)

    def epoch() -> Iterator[Batch]:
        for start in range(0, scale.elements, scale.batch_size):
            edges = splits[start : start + scale.batch_size + 1]
            lengths = np.diff(edges)
            out = np.zeros((len(lengths), lengths.max()), np.int32)
            out[np.arange(out.shape[1]) < lengths[:, None]] = values[edges[0] : edges[-1]]
            yield out

    return lambda: Epochs(epoch)


def expected(scale: Scale) -> list[np.ndarray]:
    """The batches that the workload must give, row by row."""
    values, splits = sequences(scale)
    rows = [values[a:b] for a, b in itertools.pairwise(splits)]
    batches = []
    for start in range(0, scale.elements, scale.batch_size):
        part = rows[start : start + scale.batch_size]
        batch = np.zeros((len(part), max(map(len, part))), np.int32)
        for place, row in zip(batch, part, strict=True):
            place[: len(row)] = row
        batches.append(batch)
    return batches


measured = measured_by(shaped_batch_evidence)


WORKLOAD = Workload(
    name="padded_batch",
    title="100,000 sequences of 1 to 128 int32: padded_batch(64)",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=100_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=5_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices of a RaggedArray, padded_batch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "from_tensor_slices of a RaggedTensor, map, padded_batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data ragged",
            "from_tensor_slices of a RaggedTensor, batch, map(to_tensor), prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data_ragged, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "indices batched, gathered and padded as a whole on every core, no autotuning",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy",
            "a mask of each batch filled in one assignment",
            (),
            measured(numpy_by_hand, ()),
        ),
    ),
    floors=(Floor("later", at_least=5.0, against="tf.data"),),
    check=same_as(expected, shaped_batch_evidence),
    timeout_s=400.0,
)
