"""Files of ``Example`` messages to batches of numbers."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import example_peers
from benchmarks.workloads.example_files import (
    FLOAT_NAMES,
    FLOATS,
    INTEGER_NAMES,
    INTEGERS,
    columns,
    example_file,
)

READ_AT_ONCE = 8 << 20
SHUFFLED = 10_000

Prepare = Callable[[Scale, bool], Build]


def features(library: Any, in_three: bool) -> dict[str, Any]:
    """The descriptions of the features, by a library that has TensorFlow's names for them."""
    of = library.io.FixedLenFeature
    if in_three:
        return {
            "floats": of([FLOATS], np.float32),
            "integers": of([INTEGERS], np.int64),
            "label": of([], np.int64),
        }
    each = {name: of([], np.float32) for name in FLOAT_NAMES}
    return {**each, **{name: of([], np.int64) for name in (*INTEGER_NAMES, "label")}}


def drumline_batches(scale: Scale, in_three: bool) -> Build:
    """As a user writes it."""
    import drumline as dl

    path, wanted = example_file(scale.elements, in_three), features(dl, in_three)

    def build() -> Iterable[Batch]:
        return (
            dl.data.TFRecordDataset(path)
            .batch(scale.batch_size)
            .map(lambda records: dl.io.parse_example(records, wanted))
            .prefetch(dl.data.AUTOTUNE)
        )

    return build


def drumline_singly(scale: Scale, in_three: bool) -> Build:
    """As a user writes it."""
    import drumline as dl

    path, wanted = example_file(scale.elements, in_three), features(dl, in_three)

    def build() -> Iterable[Batch]:
        return (
            dl.data.TFRecordDataset(path)
            .map(lambda record: dl.io.parse_single_example(record, wanted))
            .shuffle(SHUFFLED)
            .batch(scale.batch_size)
            .prefetch(dl.data.AUTOTUNE)
        )

    return build


def tf_batches(scale: Scale, in_three: bool) -> Build:
    """As TensorFlow's guides write it."""
    return _tf_batches(scale, in_three, None)


def tf_batches_expert(scale: Scale, in_three: bool) -> Build:
    """Reads of 8 MB, batches parsed on every core."""
    return _tf_batches(scale, in_three, READ_AT_ONCE)


def _tf_batches(scale: Scale, in_three: bool, buffer_size: int | None) -> Build:
    import tensorflow as tf

    tf.constant(0)
    path, wanted = example_file(scale.elements, in_three), features(tf, in_three)
    workers = None if buffer_size is None else tf.data.AUTOTUNE

    def build() -> Iterable[Batch]:
        return (
            tf.data.TFRecordDataset(path, buffer_size=buffer_size)
            .batch(scale.batch_size)
            .map(lambda records: tf.io.parse_example(records, wanted), num_parallel_calls=workers)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_singly(scale: Scale, in_three: bool) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)
    path, wanted = example_file(scale.elements, in_three), features(tf, in_three)

    def build() -> Iterable[Batch]:
        return (
            tf.data.TFRecordDataset(path)
            .map(
                lambda record: tf.io.parse_single_example(record, wanted),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .shuffle(SHUFFLED)
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_singly_expert(scale: Scale, in_three: bool) -> Build:
    """Shuffles and batches the records, and parses batches on every core."""
    import tensorflow as tf

    tf.constant(0)
    path, wanted = example_file(scale.elements, in_three), features(tf, in_three)

    def build() -> Iterable[Batch]:
        return (
            tf.data.TFRecordDataset(path, buffer_size=READ_AT_ONCE)
            .shuffle(SHUFFLED)
            .batch(scale.batch_size)
            .map(
                lambda records: tf.io.parse_example(records, wanted),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def _joined(batch: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """A batch's floats and integers, the label last."""
    label = np.asarray(batch["label"])[:, None]
    if "floats" in batch:
        return np.asarray(batch["floats"]), np.hstack([np.asarray(batch["integers"]), label])
    numbers = [np.asarray(batch[name])[:, None] for name in INTEGER_NAMES]
    return (
        np.hstack([np.asarray(batch[name])[:, None] for name in FLOAT_NAMES]),
        np.hstack([*numbers, label]),
    )


def _digest(floats: np.ndarray, integers: np.ndarray) -> str:
    """Of the rows, whatever their order."""
    order = np.lexsort(integers.T)
    return hashlib.sha256(floats[order].tobytes() + integers[order].tobytes()).hexdigest()


def evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """The digest of one epoch's rows, the batches' sizes, and whether the file's order was kept."""
    found = [_joined(batch) for batch in batches]
    floats, integers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    kept = columns(len(floats))
    return {
        "rows": _digest(floats, integers),
        "sizes": [len(part) for part, _ in found],
        "in_order": bool(np.array_equal(floats, kept[0])),
    }


measured = measured_by(evidence)


def check(scale: Scale, measurements: Mapping[str, Measurement], *, shuffled: bool) -> Problems:
    """Every epoch must give the records' numbers, in their order or shuffled."""
    floats, integers, label = columns(scale.elements)
    full, rest = divmod(scale.elements, scale.batch_size)
    wanted = {
        "rows": _digest(floats, np.hstack([integers, label[:, None]])),
        "sizes": [scale.batch_size] * full + [rest] * (rest > 0),
        "in_order": not shuffled,
    }
    return {
        name: "did not give the records' numbers, " + ("shuffled" if shuffled else "in order")
        for name, measurement in measurements.items()
        if any(epoch != wanted for epoch in measurement.evidence["epochs"])
    }


def _contenders(
    in_three: bool,
    shuffled: bool,
    ours: tuple[str, Prepare],
    theirs: tuple[str, Prepare],
    best: tuple[str, Prepare],
) -> tuple[Contender, ...]:
    tensorflow = ("tensorflow-cpu", "tensorflow")
    return (
        Contender(
            "drumline",
            ours[0],
            ("drumline", "jax"),
            measured(ours[1], ("drumline", "jax"), in_three),
        ),
        Contender("tf.data", theirs[0], ("tensorflow",), measured(theirs[1], tensorflow, in_three)),
        Contender(
            "tf.data expert", best[0], ("tensorflow",), measured(best[1], tensorflow, in_three)
        ),
        *example_peers.contenders(measured, in_three, shuffled),
    )


_BATCHES = (
    ("TFRecordDataset, batch, map(parse_example), prefetch", drumline_batches),
    ("TFRecordDataset, batch, map(parse_example), prefetch(AUTOTUNE)", tf_batches),
    ("the same with reads of 8 MB and num_parallel_calls=AUTOTUNE", tf_batches_expert),
)
_SINGLY = (
    ("TFRecordDataset, map(parse_single_example), shuffle, batch, prefetch", drumline_singly),
    ("the same with num_parallel_calls=AUTOTUNE and prefetch(AUTOTUNE)", tf_singly),
    ("shuffle and batch of records, then map(parse_example) on every core", tf_singly_expert),
)
_NUMBERS = f"{FLOATS} floats, {INTEGERS} integers and a label"

WORKLOADS = (
    Workload(
        name="parse_batches",
        title=f"Example records of {_NUMBERS} in 3 features: batch(256), parse_example",
        unit="records",
        baseline="tf.data",
        full=Scale(elements=200_000, batch_size=256, later_epochs=3),
        quick=Scale(elements=5_000, batch_size=256, later_epochs=1),
        contenders=_contenders(True, False, *_BATCHES),
        floors=(Floor("later", at_least=5.0, aim=15.0, against="tf.data"),),
        check=functools.partial(check, shuffled=False),
    ),
    Workload(
        name="parse_forty",
        title=f"Example records of {_NUMBERS}, a feature each: batch(256), parse_example",
        unit="records",
        baseline="tf.data",
        full=Scale(elements=100_000, batch_size=256, later_epochs=3),
        quick=Scale(elements=5_000, batch_size=256, later_epochs=1),
        contenders=_contenders(False, False, *_BATCHES),
        floors=(Floor("later", at_least=4.0, against="tf.data"),),
        check=functools.partial(check, shuffled=False),
    ),
    Workload(
        name="parse_singly",
        title="Example records of the first kind: parse_single_example, shuffle(10000), batch(256)",
        unit="records",
        baseline="tf.data",
        full=Scale(elements=100_000, batch_size=256, later_epochs=3),
        quick=Scale(elements=5_000, batch_size=256, later_epochs=1),
        contenders=_contenders(True, True, *_SINGLY),
        floors=(Floor("later", at_least=30.0, against="tf.data"),),
        check=functools.partial(check, shuffled=True),
    ),
)
