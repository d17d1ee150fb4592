"""Datasets made by functions that close over the element they are made for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.digest import shaped_batch_evidence
from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as
from benchmarks.workloads.range_filter import measured

INNER = 16
"""Elements of each inner dataset of ``nested_closures``."""

CYCLE = 8
LENGTH, WIDTH, SHIFT = 256, 32, 16
WINDOWS = (LENGTH - WIDTH) // SHIFT + 1


def closures(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    data = dl.data.Dataset

    def build() -> Iterable[Batch]:
        return (
            data.range(scale.elements // INNER)
            .flat_map(lambda x: data.range(INNER).map(lambda y: y + x))
            .batch(scale.batch_size)
        )

    return build


def closures_tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)
    data = tf.data.Dataset

    def build() -> Iterable[Batch]:
        return (
            data.range(scale.elements // INNER)
            .flat_map(lambda x: data.range(INNER).map(lambda y: y + x))
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def closures_tf_data_expert(scale: Scale) -> Build:
    """All inner elements of a block of outer ones by one addition."""
    import tensorflow as tf

    tf.constant(0)
    options = tf.data.Options()
    options.autotune.enabled = False

    def sums(x: Any) -> Any:
        return tf.reshape(x[:, None] + tf.range(INNER, dtype=tf.int64), [-1])

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.range(scale.elements // INNER)
            .batch(256)
            .map(sums)
            .rebatch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def closures_expected(scale: Scale) -> list[Any]:
    """The batches that the workload must give."""
    sums = (np.arange(scale.elements // INNER)[:, None] + np.arange(INNER)).reshape(-1)
    return _batches(sums, scale)


def closures_numpy(scale: Scale) -> Build:
    """Blocks of sums; batches are views of them."""
    block = 16 * scale.batch_size

    def epoch() -> Iterator[Batch]:
        for start in range(0, scale.elements, block):
            outer = np.arange(start // INNER, min(start + block, scale.elements) // INNER)
            yield from _batches((outer[:, None] + np.arange(INNER)).reshape(-1), scale)

    return lambda: Epochs(epoch)


def series(scale: Scale) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Float32 (n, 256): one series a row; its mean and its deviation's reciprocal, float32 (n,)."""
    values = np.random.default_rng(0).normal(size=(scale.elements // WINDOWS, LENGTH))
    rows = (values * 3 + 1).astype(np.float32)
    return rows, rows.mean(1), 1 / rows.std(1)


def windows(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    data = dl.data.Dataset
    rows = series(scale)
    places = np.arange(WIDTH)

    def of_one(values: Any, mean: Any, factor: Any) -> Any:
        starts = data.range(0, LENGTH - WIDTH + 1, SHIFT)
        return starts.map(lambda start: (values[start + places] - mean) * factor)

    def build() -> Iterable[Batch]:
        return (
            data.from_tensor_slices(rows)
            .interleave(of_one, cycle_length=CYCLE)
            .batch(scale.batch_size)
        )

    return build


def windows_tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    data = tf.data.Dataset
    rows = tuple(map(tf.constant, series(scale)))

    def of_one(values: Any, mean: Any, factor: Any) -> Any:
        starts = data.range(0, LENGTH - WIDTH + 1, SHIFT)
        return starts.map(lambda start: (values[start : start + WIDTH] - mean) * factor)

    def build() -> Iterable[Batch]:
        return (
            data.from_tensor_slices(rows)
            .interleave(of_one, cycle_length=CYCLE)
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def windows_tf_data_expert(scale: Scale) -> Build:
    """All windows of eight series by one gather, which relies on series of one length."""
    import tensorflow as tf

    rows = tuple(map(tf.constant, series(scale)))
    places = tf.constant(_places())
    options = tf.data.Options()
    options.autotune.enabled = False

    def of_eight(values: Any, mean: Any, factor: Any) -> Any:
        normal = (values - mean[:, None]) * factor[:, None]
        found = tf.transpose(tf.gather(normal, places, axis=1), [1, 0, 2])
        return tf.reshape(found, [-1, WIDTH])

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(rows)
            .batch(CYCLE)
            .map(of_eight)
            .rebatch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def windows_expected(scale: Scale) -> list[Any]:
    """The batches that the workload must give."""
    return _batches(np.concatenate(list(_windows_of_cycles(scale))), scale)


def windows_numpy(scale: Scale) -> Build:
    """Eight series at a time; batches that straddle two such blocks are copied."""

    def epoch() -> Iterator[Batch]:
        rest = np.empty((0, WIDTH), np.float32)
        for block in _windows_of_cycles(scale):
            rest = np.concatenate([rest, block])
            while len(rest) >= scale.batch_size:
                yield rest[: scale.batch_size]
                rest = rest[scale.batch_size :]
        if len(rest):
            yield rest

    return lambda: Epochs(epoch)


def _places() -> np.ndarray:
    """Int64 (windows, width): the positions in a series of each of its windows."""
    return np.arange(0, LENGTH - WIDTH + 1, SHIFT)[:, None] + np.arange(WIDTH)


def _windows_of_cycles(scale: Scale) -> Iterator[np.ndarray]:
    values, mean, factor = series(scale)
    places = _places()
    for start in range(0, len(values), CYCLE):
        part = slice(start, start + CYCLE)
        normal = (values[part] - mean[part, None]) * factor[part, None]
        yield normal[:, places].transpose(1, 0, 2).reshape(-1, WIDTH)


def _batches(rows: np.ndarray, scale: Scale) -> list[Any]:
    return [rows[i : i + scale.batch_size] for i in range(0, len(rows), scale.batch_size)]


def _bits(batches: Iterable[Any]) -> dict[str, Any]:
    """The digest of floats' bits, in order, with shapes, and the dtypes that occurred."""
    arrays = [np.asarray(batch) for batch in batches]
    found = shaped_batch_evidence([np.ascontiguousarray(a).view(np.int32) for a in arrays])
    return {**found, "dtypes": sorted({array.dtype.name for array in arrays})}


_measured_bits = measured_by(_bits)

WORKLOADS = (
    Workload(
        name="nested_closures",
        title="range(2,000): flat_map(range(16).map(y + x)), batch(64)",
        unit="elements",
        baseline="tf.data",
        full=Scale(elements=32_000, batch_size=64, later_epochs=3),
        quick=Scale(elements=3_200, batch_size=64, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "range, flat_map(range, map), batch",
                ("drumline", "jax"),
                measured(closures, ("drumline", "jax")),
            ),
            Contender(
                "tf.data",
                "range, flat_map(range, map), batch, prefetch(AUTOTUNE)",
                ("tensorflow",),
                measured(closures_tf_data, ("tensorflow-cpu", "tensorflow")),
            ),
            Contender(
                "tf.data expert",
                "batches of 256 outer elements added to all inner ones, rebatch, no autotuning",
                ("tensorflow",),
                measured(closures_tf_data_expert, ("tensorflow-cpu", "tensorflow")),
            ),
            Contender(
                "numpy", "blocks of sums, cut into batches", (), measured(closures_numpy, ())
            ),
        ),
        floors=(Floor("later", at_least=0.5, aim=5.0, against="tf.data"),),
        check=same_as(closures_expected),
    ),
    Workload(
        name="nested_series",
        title="1,000 series of 256 numbers: interleave(windows of 32, normalized), batch(64)",
        unit="windows",
        baseline="tf.data",
        full=Scale(elements=1_000 * WINDOWS, batch_size=64, later_epochs=3),
        quick=Scale(elements=96 * WINDOWS, batch_size=64, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "from_tensor_slices, interleave(range, map), batch",
                ("drumline", "jax"),
                _measured_bits(windows, ("drumline", "jax")),
            ),
            Contender(
                "tf.data",
                "from_tensor_slices, interleave(range, map), batch, prefetch(AUTOTUNE)",
                ("tensorflow",),
                _measured_bits(windows_tf_data, ("tensorflow-cpu", "tensorflow")),
            ),
            Contender(
                "tf.data expert",
                "8 series at a time: one gather, a transpose, rebatch, no autotuning",
                ("tensorflow",),
                _measured_bits(windows_tf_data_expert, ("tensorflow-cpu", "tensorflow")),
            ),
            Contender(
                "numpy",
                "8 series at a time, cut into batches",
                (),
                _measured_bits(windows_numpy, ()),
            ),
        ),
        floors=(Floor("later", at_least=0.5, aim=5.0, against="tf.data"),),
        check=same_as(windows_expected, _bits),
    ),
)
