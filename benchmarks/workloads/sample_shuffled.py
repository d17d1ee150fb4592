"""8 shuffled sources in memory, each element of one drawn at random, batched by 64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measure_pipeline
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

SOURCES = 8
WIDTH = 16
BLOCK = 1024


def sources(scale: Scale) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each source rows of 16 float32, and ids that no other row has."""
    ids = np.arange(scale.elements).reshape(SOURCES, -1)
    return [(np.repeat(part[:, None], WIDTH, 1).astype(np.float32), part) for part in ids]


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    data = dl.data.Dataset
    columns = sources(scale)

    def build() -> Iterable[Batch]:
        parts = [data.from_tensor_slices(part).shuffle(scale.elements) for part in columns]
        return data.sample_from_datasets(parts).batch(scale.batch_size)

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)
    data = tf.data.Dataset
    columns = sources(scale)

    def build() -> Iterable[Batch]:
        parts = [data.from_tensor_slices(part).shuffle(scale.elements) for part in columns]
        return data.sample_from_datasets(parts).batch(scale.batch_size).prefetch(tf.data.AUTOTUNE)

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Shuffles and draws indices, draws made 1,024 at a time, then gathers whole batches."""
    import tensorflow as tf

    data = tf.data.Dataset
    rows, ids = (tf.constant(np.concatenate(c)) for c in zip(*sources(scale), strict=True))
    each = scale.elements // SOURCES

    def draws(_: Any) -> Any:
        return tf.random.uniform([BLOCK], 0, SOURCES, tf.int64)

    def build() -> Iterable[Batch]:
        parts = [data.range(i * each, (i + 1) * each).shuffle(each) for i in range(SOURCES)]
        choices = data.range(1).repeat().map(draws).unbatch()
        return (
            data.choose_from_datasets(parts, choices, stop_on_empty_dataset=False)
            .batch(scale.batch_size)
            .map(lambda index: (tf.gather(rows, index), tf.gather(ids, index)))
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def numpy_by_hand(scale: Scale) -> Build:
    """Draws the order of all at once, then gathers each batch."""
    rows, ids = (np.concatenate(column) for column in zip(*sources(scale), strict=True))
    each = scale.elements // SOURCES
    random = np.random.default_rng()

    def order() -> np.ndarray:
        left = [random.permutation(each) + i * each for i in range(SOURCES)]
        choices = random.integers(0, SOURCES, 4 * scale.elements)
        places = [np.flatnonzero(choices == i)[:each] for i in range(SOURCES)]
        at, number = np.concatenate(places), np.concatenate(left)
        return number[np.argsort(at)]

    def epoch() -> Iterator[Batch]:
        index = order()
        for start in range(0, scale.elements, scale.batch_size):
            part = index[start : start + scale.batch_size]
            yield rows.take(part, axis=0), ids.take(part)

    return lambda: Epochs(epoch)


def evidence(scale: Scale, batches: Iterable[Batch]) -> dict[str, Any]:
    """Whether rows and ids belong together and each came once, and how well they are mixed."""
    rows, ids = (np.concatenate([np.array(b) for b in c]) for c in zip(*batches, strict=True))
    head = ids[: len(ids) // 2] // (scale.elements // SOURCES)
    shares = np.bincount(head, minlength=SOURCES) / len(head)
    displacement = np.abs(np.argsort(ids) - np.arange(len(ids))).mean() / len(ids)
    return {
        "rows": bool((rows == ids[:, None]).all() and rows.dtype == np.float32),
        "once": bool(np.array_equal(np.sort(ids), np.arange(scale.elements))),
        "even": bool(np.abs(shares * SOURCES - 1).max() < 0.25),
        "shuffled": bool(displacement > 0.25),
    }


def measured(
    prepare: Callable[[Scale], Build], libraries: tuple[str, ...]
) -> Callable[[Scale], Measurement]:
    """The contender that builds its pipeline with ``prepare``, made measurable."""

    def run(scale: Scale) -> Measurement:
        return measure_pipeline(
            functools.partial(prepare, scale),
            functools.partial(evidence, scale),
            scale.elements,
            scale.later_epochs,
            ("numpy", *libraries),
        )

    return run


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch must give every row once, from all sources alike, each of them shuffled."""
    wanted = {
        "rows": "rows and ids that belong together",
        "once": "every row once",
        "even": "the sources in equal shares",
        "shuffled": "shuffled sources",
    }
    problems: Problems = {}
    for name, measurement in measurements.items():
        for key, what in wanted.items():
            if not all(epoch[key] for epoch in measurement.evidence["epochs"]):
                problems[name] = f"did not give {what}"
    return problems


WORKLOAD = Workload(
    name="sample_shuffled",
    title="8 shuffled sources of 10,000 rows: sample_from_datasets, batch(64)",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=80_000, batch_size=64, later_epochs=2),
    quick=Scale(elements=8_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices, shuffle, sample_from_datasets, batch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "from_tensor_slices, shuffle, sample_from_datasets, batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "shuffled indices, choose_from_datasets with draws made 1,024 at a time, tf.gather",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy",
            "the order of all rows drawn at once, one take for each batch",
            (),
            measured(numpy_by_hand, ()),
        ),
    ),
    floors=(Floor("later", at_least=10.0, against="tf.data"),),
    check=check,
)
