"""Lines of text by preprocessing layers in a map: as fast as the functions they are made of.

The lines, the vocabulary and the batches are those of `text_vocabulary`. Layers number padding 0,
unknown words 1, and words from 2 on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.harness.digest import shaped_batch_evidence
from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, measured_by
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads import text_vocabulary
from benchmarks.workloads.exact_batches import same_as
from benchmarks.workloads.text_files import text_file, vocabulary
from benchmarks.workloads.text_vocabulary import expected, layer_evidence


def _of_lines(scale: Scale, numbers: Callable[[Any], Any]) -> Build:
    import jax

    import drumline as dl

    jax.devices("cpu")
    path = text_file(scale.elements)
    return lambda: dl.data.TextLineDataset(path).map(numbers).padded_batch(scale.batch_size)


def string_lookup(scale: Scale) -> Build:
    """Lower, split and look up by the layer."""
    import drumline as dl

    layer = dl.keras.layers.StringLookup(vocabulary=vocabulary(), mask_token="")
    return _of_lines(scale, lambda line: layer(dl.strings.split(dl.strings.lower(line))))


def text_vectorization(scale: Scale) -> Build:
    """All of it by the layer."""
    import drumline as dl

    layer = dl.keras.layers.TextVectorization(vocabulary=vocabulary(), standardize="lower")
    return _of_lines(scale, layer)


def _tf_data(scale: Scale, make: Callable[[Any], Callable[[Any], Any]]) -> Build:
    """The same with Keras's layers on TensorFlow, as its guides write it."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    path, numbers = text_file(scale.elements), make(keras.layers)

    def build() -> Iterable[Batch]:
        return (
            tf.data.TextLineDataset(path)
            .map(numbers, num_parallel_calls=tf.data.AUTOTUNE)
            .padded_batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_string_lookup(scale: Scale) -> Build:
    """Keras's `StringLookup` in a tf.data map."""

    def make(layers: Any) -> Callable[[Any], Any]:
        import tensorflow as tf

        layer = layers.StringLookup(vocabulary=vocabulary(), mask_token="")
        return lambda line: layer(tf.strings.split(tf.strings.lower(line)))

    return _tf_data(scale, make)


def tf_text_vectorization(scale: Scale) -> Build:
    """Keras's `TextVectorization` in a tf.data map."""

    def make(layers: Any) -> Callable[[Any], Any]:
        layer = layers.TextVectorization(vocabulary=vocabulary(), standardize="lower")
        return lambda line: layer(line)

    return _tf_data(scale, make)


_OURS = ("drumline", "jax", "keras")
_THEIRS = ("tensorflow-cpu", "tensorflow", "keras")
_numbered = measured_by(layer_evidence)


def _workload(
    layer: str,
    ours: Callable[[Scale], Build],
    functions: Contender,
    theirs: Callable[[Scale], Build],
) -> Workload:
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in layer)
    return Workload(
        name=f"{snake[1:]}_layer",
        title=f"the lines of text_vocabulary by a {layer} layer in map, padded_batch(64)",
        unit="lines",
        baseline="tf.data",
        full=text_vocabulary.WORKLOAD.full,
        quick=text_vocabulary.WORKLOAD.quick,
        contenders=(
            Contender("drumline", f"map(dl.keras.layers.{layer})", _OURS, _numbered(ours, _OURS)),
            functions,
            Contender(
                "tf.data",
                f"keras.layers.{layer} on TensorFlow, AUTOTUNE",
                ("tensorflow",),
                _numbered(theirs, _THEIRS),
            ),
        ),
        floors=(
            Floor("later", at_least=0.95, against=functions.name),
            Floor("later", at_least=5.0, against="tf.data"),
        ),
        check=same_as(expected, shaped_batch_evidence),
        timeout_s=400.0,
    )


WORKLOADS = (
    _workload(
        "StringLookup",
        string_lookup,
        Contender(
            "drumline functions",
            "map(lower, split, StaticVocabularyTable), as in text_vocabulary",
            ("drumline", "jax"),
            measured_by(shaped_batch_evidence)(text_vocabulary.drumline, ("drumline", "jax")),
        ),
        tf_string_lookup,
    ),
    _workload(
        "TextVectorization",
        text_vectorization,
        Contender(
            "drumline functions",
            "map(dl.strings.TextVectorization), as in text_vocabulary",
            ("drumline", "jax"),
            _numbered(text_vocabulary.drumline_layer, ("drumline", "jax")),
        ),
        tf_text_vectorization,
    ),
)
