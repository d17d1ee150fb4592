"""Lines of text: split, looked up in a vocabulary, batched by 64 and padded, in order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.digest import shaped_batch_evidence
from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads import text_peers
from benchmarks.workloads.exact_batches import same_as
from benchmarks.workloads.text_files import (
    KNOWN,
    looked_up,
    numbers_of_words,
    padded,
    read_lines,
    text_file,
    vocabulary,
)


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    path = text_file(scale.elements)
    table = dl.strings.StaticVocabularyTable(vocabulary(), num_oov_buckets=1)

    def numbers(line: Any) -> Any:
        return table.lookup(dl.strings.split(dl.strings.lower(line)))

    return lambda: dl.data.TextLineDataset(path).map(numbers).padded_batch(scale.batch_size)


def drumline_layer(scale: Scale) -> Build:
    """By a text vectorization layer, one native operation."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    path = text_file(scale.elements)
    layer = dl.strings.TextVectorization(vocabulary=vocabulary(), standardize="lower")

    def numbers(line: Any) -> Any:
        return layer(line)

    return lambda: dl.data.TextLineDataset(path).map(numbers).padded_batch(scale.batch_size)


def _table() -> Any:
    import tensorflow as tf

    keys = tf.constant(vocabulary())
    pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.range(KNOWN, dtype=tf.int64))
    return tf.lookup.StaticVocabularyTable(pairs, num_oov_buckets=1)


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    path, table = text_file(scale.elements), _table()

    def numbers(line: Any) -> Any:
        return table.lookup(tf.strings.split(tf.strings.lower(line)))

    def build() -> Iterable[Batch]:
        return (
            tf.data.TextLineDataset(path)
            .map(numbers, num_parallel_calls=tf.data.AUTOTUNE)
            .padded_batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Whole batches split and looked up as ragged tensors on every core."""
    import tensorflow as tf

    path, table = text_file(scale.elements), _table()

    def numbers(batch: Any) -> Any:
        words = tf.strings.split(tf.strings.lower(batch))
        return words.with_flat_values(table.lookup(words.flat_values)).to_tensor()

    def build() -> Iterable[Batch]:
        return (
            tf.data.TextLineDataset(path, buffer_size=8 << 20)
            .batch(scale.batch_size)
            .map(numbers, num_parallel_calls=os.cpu_count())
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def python_by_hand(scale: Scale) -> Build:
    """A dict, str.split and numpy."""
    path, known = text_file(scale.elements), numbers_of_words()

    def epoch() -> Iterator[Batch]:
        texts = read_lines(path)
        for start in range(0, len(texts), scale.batch_size):
            part = texts[start : start + scale.batch_size]
            yield padded([looked_up(text, known) for text in part])

    return lambda: Epochs(epoch)


def expected(scale: Scale) -> list[np.ndarray]:
    """The batches that the workload must give."""
    return list(python_by_hand(scale)())


def layer_evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """That of a layer, which numbers padding 0, unknown words 1, and words from 2 on."""

    def renumbered(batch: np.ndarray) -> np.ndarray:
        return np.select([batch == 0, batch == 1], [0, KNOWN], batch - 2)

    return shaped_batch_evidence(renumbered(np.asarray(batch)) for batch in batches)


measured = measured_by(shaped_batch_evidence)


WORKLOAD = Workload(
    name="text_vocabulary",
    title="100,000 lines of 1 to 40 words: lower, split, vocabulary of 10,000, padded_batch(64)",
    unit="lines",
    baseline="tf.data",
    full=Scale(elements=100_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=5_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "TextLineDataset, map(lower, split, lookup), padded_batch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "drumline layer",
            "TextLineDataset, map(TextVectorization), padded_batch",
            ("drumline", "jax"),
            measured_by(layer_evidence)(drumline_layer, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "the same with tf.strings and StaticVocabularyTable, AUTOTUNE",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "batches split and looked up as ragged tensors on every core",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "Python",
            "str.split, a dict and numpy",
            (),
            measured(python_by_hand, ()),
        ),
        *text_peers.contenders(measured),
    ),
    floors=(Floor("later", at_least=5.0, against="tf.data"),),
    check=same_as(expected, shaped_batch_evidence),
    timeout_s=400.0,
)
