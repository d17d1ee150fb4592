"""16 arrays in memory, interleaved number by number, batched by 64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as
from benchmarks.workloads.range_filter import measured

SOURCES = 16
BLOCK = 1024


def arrays(scale: Scale) -> np.ndarray:
    """Int64 (16, elements / 16): the number of the array, then the position in it."""
    return np.arange(scale.elements).reshape(SOURCES, -1)


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    sources = arrays(scale)
    data = dl.data.Dataset

    def build() -> Iterable[Batch]:
        return (
            data.range(SOURCES)
            .interleave(lambda i: data.from_tensor_slices(sources[i]), cycle_length=SOURCES)
            .batch(scale.batch_size)
        )

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    sources = tf.constant(arrays(scale))
    data = tf.data.Dataset

    def build() -> Iterable[Batch]:
        return (
            data.range(SOURCES)
            .interleave(lambda i: data.from_tensor_slices(sources[i]), cycle_length=SOURCES)
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Blocks of all arrays side by side, transposed, then rebatched."""
    import tensorflow as tf

    sources = [tf.constant(source) for source in arrays(scale)]
    data = tf.data.Dataset
    options = tf.data.Options()
    options.autotune.enabled = False

    def build() -> Iterable[Batch]:
        blocks = tuple(data.from_tensor_slices(source).batch(BLOCK) for source in sources)
        return (
            data.zip(blocks)
            .map(lambda *parts: tf.reshape(tf.stack(parts, axis=1), [-1]))
            .rebatch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def numpy_by_hand(scale: Scale) -> Build:
    """Blocks transposed with numpy; batches are views of them."""
    sources = arrays(scale)
    step = BLOCK // SOURCES * scale.batch_size

    def epoch() -> Iterator[Batch]:
        for start in range(0, sources.shape[1], step):
            block = np.ascontiguousarray(sources[:, start : start + step].T).reshape(-1)
            for place in range(0, len(block), scale.batch_size):
                yield block[place : place + scale.batch_size]

    return lambda: Epochs(epoch)


def expected(scale: Scale) -> list[Any]:
    """The batches that the workload must give."""
    order = arrays(scale).T.reshape(-1)
    return [order[i : i + scale.batch_size] for i in range(0, len(order), scale.batch_size)]


WORKLOAD = Workload(
    name="interleave_arrays",
    title="16 arrays of 20,000 numbers: interleave(cycle_length=16), batch(64)",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=320_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=16_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "range, interleave(from_tensor_slices), batch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "range, interleave(from_tensor_slices), batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "zip of batches of 1,024, stacked and flattened, rebatch, no autotuning",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy",
            "blocks transposed, batches cut from them",
            (),
            measured(numpy_by_hand, ()),
        ),
    ),
    floors=(Floor("later", at_least=10.0, against="tf.data"),),
    check=same_as(expected),
)
