"""60,000 scaled images: the first epoch writes a snapshot, later ones read it, in order."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.digest import order_digest
from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

SHAPE = (28, 28, 1)


def images(scale: Scale) -> np.ndarray:
    """Images (n, 28, 28, 1), uint8."""
    return np.random.default_rng(0).integers(0, 256, (scale.elements, *SHAPE), np.uint8)


def _directory(owner: Callable[[], Any]) -> str:
    """A directory that is deleted with its owner."""
    made = tempfile.TemporaryDirectory(prefix="snapshot-")
    weakref.finalize(owner, made.cleanup)
    return made.name


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    rows = images(scale)

    def build() -> Iterable[Batch]:
        return (
            dl.data.Dataset.from_tensor_slices(rows)
            .map(lambda image: image / 255.0)
            .snapshot(_directory(build))
            .batch(scale.batch_size)
        )

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    rows = images(scale)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(rows)
            .map(lambda image: tf.cast(image, tf.float32) / 255.0, tf.data.AUTOTUNE)
            .snapshot(_directory(build))
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(scale: Scale) -> Build:
    """Whole batches are computed and kept, without compression."""
    import tensorflow as tf

    rows = images(scale)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(rows)
            .batch(scale.batch_size)
            .map(lambda image: tf.cast(image, tf.float32) / 255.0, tf.data.AUTOTUNE)
            .snapshot(_directory(build), compression="NONE")
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def numpy_by_hand(scale: Scale) -> Build:
    """An array in a file, mapped into memory."""
    rows = images(scale)

    def build() -> Iterable[Batch]:
        path = Path(_directory(build)) / "rows.npy"

        def epoch() -> Iterator[Batch]:
            if not path.exists():
                np.save(path, rows / np.float32(255))
            held = np.load(path, mmap_mode="r")
            for start in range(0, len(held), scale.batch_size):
                yield np.array(held[start : start + scale.batch_size])

        return Epochs(epoch)

    return build


def batch_evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """The digest of one epoch's images in order, as bytes again, and the dtypes that occurred."""
    arrays = [np.asarray(batch) for batch in batches]
    parts = [np.rint(array * 255).astype(np.uint8) for array in arrays]
    return {"order": order_digest(parts), "dtypes": sorted({str(a.dtype) for a in arrays})}


measured = measured_by(batch_evidence)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch must give all images in order, as float32."""
    rows, size = images(scale), scale.batch_size
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    wanted = {"order": order_digest(batches), "dtypes": ["float32"]}
    problems: Problems = {}
    for name, measurement in measurements.items():
        evidence = measurement.evidence
        if evidence["batches"] != [len(batches)]:
            found = " or ".join(map(str, evidence["batches"]))
            problems[name] = f"gave {found} batches an epoch, not {len(batches)}"
        elif any(epoch != wanted for epoch in evidence["epochs"]):
            problems[name] = "did not give the images in order, as float32"
    return problems


WORKLOAD = Workload(
    name="snapshot_batches",
    title="60,000 x 28x28x1: map(/ 255), snapshot, batch(64); later epochs read the snapshot",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=60_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=3_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices, map, snapshot, batch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "from_tensor_slices, map, snapshot, batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "batches computed and kept as a whole, without compression",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "numpy", "an array in a file, mapped into memory", (), measured(numpy_by_hand, ())
        ),
    ),
    floors=(Floor("later", at_least=10.0, against="tf.data"),),
    check=check,
    timeout_s=400.0,
)
