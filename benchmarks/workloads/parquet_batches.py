"""Batches of 1,024 rows of 20 columns of a Parquet file, as numpy arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import parquet_peers
from benchmarks.workloads.parquet_files import (
    COLUMNS,
    columns,
    decoded,
    decoded_and_cut,
    table_file,
)

Prepare = Callable[[Scale], Build]


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import drumline as dl

    path = table_file(scale.elements)
    return lambda: dl.data.Dataset.from_parquet(path).batch(scale.batch_size)


def pyarrow_alone(scale: Scale) -> Build:
    """As pyarrow's guide writes it."""
    path = table_file(scale.elements)
    return lambda: Epochs(lambda: decoded(path, scale.batch_size))


def pyarrow_expert(scale: Scale) -> Build:
    """Decodes many batches at once and cuts them."""
    path = table_file(scale.elements)
    return lambda: Epochs(lambda: decoded_and_cut(path, scale.batch_size))


def tf_data(scale: Scale) -> Build:
    """``from_generator`` over pyarrow's batches: TensorFlow alone reads no Parquet."""
    import tensorflow as tf

    path = table_file(scale.elements)
    types = {name: column.dtype for name, column in columns(1).items()}
    signature = {name: tf.TensorSpec((None,), dtype) for name, dtype in types.items()}

    def build() -> Iterable[Batch]:
        dataset = tf.data.Dataset.from_generator(
            lambda: decoded(path, scale.batch_size), output_signature=signature
        )
        return dataset.prefetch(tf.data.AUTOTUNE)

    return build


def evidence(batches: Iterable[Any]) -> dict[str, Any]:
    """The digest of one epoch's columns, their dtypes, and the sizes of batches."""
    held = [{name: np.asarray(batch[name]) for name in sorted(batch)} for batch in batches]
    joined = {name: np.concatenate([batch[name] for batch in held]) for name in held[0]}
    return {
        "columns": _digest(joined),
        "dtypes": sorted({column.dtype.name for column in joined.values()}),
        "sizes": sorted({len(batch["c0"]) for batch in held}),
    }


def _digest(table: Mapping[str, np.ndarray]) -> str:
    whole = hashlib.sha256()
    for name in sorted(table):
        whole.update(name.encode() + table[name].tobytes())
    return whole.hexdigest()


measured = measured_by(evidence)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch must give the table, in order, in batches of the size asked for."""
    rest = scale.elements % scale.batch_size
    wanted = {
        "columns": _digest(columns(scale.elements)),
        "dtypes": ["float32", "int64"],
        "sizes": sorted({scale.batch_size, rest or scale.batch_size}),
    }
    return {
        name: "did not give the table in batches"
        for name, measurement in measurements.items()
        if any(epoch != wanted for epoch in measurement.evidence["epochs"])
    }


WORKLOAD = Workload(
    name="parquet_batches",
    title=f"Parquet file of {COLUMNS} columns, batches of 1,024 rows",
    unit="rows",
    baseline="pyarrow",
    full=Scale(elements=400_000, batch_size=1024, later_epochs=3),
    quick=Scale(elements=20_000, batch_size=1024, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_parquet, batch",
            ("drumline", "jax"),
            measured(drumline, ("pyarrow", "drumline", "jax")),
        ),
        Contender(
            "pyarrow",
            "iter_batches(1024), each column to_numpy",
            ("pyarrow",),
            measured(pyarrow_alone, ("pyarrow",)),
        ),
        Contender(
            "pyarrow expert",
            "16 batches decoded at once by one thread, and cut",
            ("pyarrow",),
            measured(pyarrow_expert, ("pyarrow",)),
        ),
        Contender(
            "tf.data",
            "from_generator over pyarrow's batches, prefetch(AUTOTUNE)",
            ("tensorflow", "pyarrow"),
            measured(tf_data, ("pyarrow", "tensorflow-cpu", "tensorflow")),
        ),
        *parquet_peers.contenders(measured),
    ),
    floors=(Floor("later", at_least=0.8, against="pyarrow"),),
    check=check,
)
