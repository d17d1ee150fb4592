"""Sequences of 1 to 100 numbers in padded batches of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as
from benchmarks.workloads.range_filter import measured

BOUNDARIES = [20, 40, 60, 80]


def sequences(scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Int64 values of all sequences, and their splits (elements + 1,)."""
    lengths = np.random.default_rng(0).integers(1, 101, scale.elements)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(1, splits[-1] + 1), splits


def sizes(scale: Scale) -> list[int]:
    """The batch size of each bucket."""
    return [scale.batch_size] * (len(BOUNDARIES) + 1)


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    ragged = dl.data.RaggedArray(*sequences(scale))

    def build() -> Iterable[Batch]:
        return dl.data.Dataset.from_tensor_slices(ragged).bucket_by_sequence_length(
            lambda sequence: sequence.shape[0], BOUNDARIES, sizes(scale)
        )

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it, over rows of a ragged tensor in memory."""
    import tensorflow as tf

    values, splits = (tf.constant(array) for array in sequences(scale))

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .map(lambda i: values[splits[i] : splits[i + 1]], num_parallel_calls=tf.data.AUTOTUNE)
            .bucket_by_sequence_length(
                lambda sequence: tf.shape(sequence)[0], BOUNDARIES, sizes(scale)
            )
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Groups the sequences' numbers, then makes whole batches of a ragged tensor."""
    import tensorflow as tf

    values, splits = sequences(scale)
    ragged = tf.RaggedTensor.from_row_splits(values, splits)
    bucket = tf.constant(np.searchsorted(BOUNDARIES, np.diff(splits), side="right"))

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements)
            .group_by_window(
                lambda i: bucket[i],
                lambda key, window: window.batch(scale.batch_size),
                window_size=scale.batch_size,
            )
            .map(lambda index: tf.gather(ragged, index).to_tensor())
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def batches(scale: Scale) -> Iterator[Any]:
    """What everybody must give, by numpy."""
    values, splits = sequences(scale)
    buckets = np.searchsorted(BOUNDARIES, np.diff(splits), side="right").tolist()
    waiting: dict[int, list[int]] = {}
    for number, bucket in enumerate(buckets):
        waiting.setdefault(bucket, []).append(number)
        if len(waiting[bucket]) == scale.batch_size:
            yield _padded(values, splits, waiting.pop(bucket))
    for bucket in sorted(waiting):
        yield _padded(values, splits, waiting[bucket])


def _padded(values: np.ndarray, splits: np.ndarray, numbers: list[int]) -> np.ndarray:
    rows = [values[splits[i] : splits[i + 1]] for i in numbers]
    out = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


WORKLOAD = Workload(
    name="bucket_sequences",
    title="50,000 sequences of 1 to 100: bucket_by_sequence_length, 5 buckets, batches of 32",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=50_000, batch_size=32, later_epochs=2),
    quick=Scale(elements=2_000, batch_size=32, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices of a RaggedArray, bucket_by_sequence_length",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "range, map(slice of a tensor), bucket_by_sequence_length, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "range, group_by_window by bucket, map(gather of a ragged tensor, to_tensor)",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy",
            "lists of numbers by bucket, rows copied into a batch of zeros",
            (),
            measured(lambda scale: lambda: Epochs(lambda: batches(scale)), ()),
        ),
    ),
    floors=(Floor("later", at_least=3.0, against="tf.data"),),
    check=same_as(lambda scale: list(batches(scale))),
)
