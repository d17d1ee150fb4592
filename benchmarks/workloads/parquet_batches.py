"""Batches of 1,024 rows of 20 columns of a Parquet file, as numpy arrays."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.epochs import Batch, Build, Epochs
from benchmarks.harness.floor import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

COLUMNS = 20
GROUP_ROWS = 50_000
EXPERT_ROWS = 16 * 1024

Prepare = Callable[[Scale], Build]


def columns(rows: int) -> dict[str, np.ndarray]:
    """Float32 and int64 columns by turns, of ``rows`` rows."""
    rng = np.random.default_rng(1)
    return {
        f"c{i}": rng.integers(0, 1000, rows) if i % 2 else rng.standard_normal(rows, np.float32)
        for i in range(COLUMNS)
    }


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-parquet-")


def table_file(rows: int) -> str:
    """The path of a Parquet file of these columns, removed when the process ends."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = str(Path(_folder().name) / "table.parquet")
    parquet.write_table(pa.table(columns(rows)), path, row_group_size=GROUP_ROWS)
    return path


def drumline(scale: Scale) -> Build:
    """As a user writes it."""
    import drumline as dl

    path = table_file(scale.elements)
    return lambda: dl.data.Dataset.from_parquet(path).batch(scale.batch_size)


def pyarrow_alone(scale: Scale) -> Build:
    """As pyarrow's guide writes it."""
    path = table_file(scale.elements)
    return lambda: Epochs(lambda: _batches(path, scale.batch_size))


def pyarrow_expert(scale: Scale) -> Build:
    """Decodes many batches at once and cuts them."""
    path = table_file(scale.elements)

    def epoch() -> Iterator[Batch]:
        size = scale.batch_size
        left: dict[str, np.ndarray] | None = None
        for part in _batches(path, EXPERT_ROWS, use_threads=False):
            if left is not None:
                part = {name: np.concatenate([left[name], part[name]]) for name in part}
            rows = len(part["c0"])
            whole = rows - rows % size
            for start in range(0, whole, size):
                yield {name: column[start : start + size] for name, column in part.items()}
            left = {name: column[whole:] for name, column in part.items()} if whole < rows else None
        if left is not None:
            yield left

    return lambda: Epochs(epoch)


def tf_data(scale: Scale) -> Build:
    """``from_generator`` over pyarrow's batches: TensorFlow alone reads no Parquet."""
    import tensorflow as tf

    path = table_file(scale.elements)
    types = {name: column.dtype for name, column in columns(1).items()}
    signature = {name: tf.TensorSpec((None,), dtype) for name, dtype in types.items()}

    def build() -> Iterable[Batch]:
        dataset = tf.data.Dataset.from_generator(
            lambda: _batches(path, scale.batch_size), output_signature=signature
        )
        return dataset.prefetch(tf.data.AUTOTUNE)

    return build


def grain_rows(scale: Scale) -> Build:
    """Grain's Parquet source, whose elements are rows."""
    import grain

    path = table_file(scale.elements)
    source = grain.experimental.ParquetIterDataset(path).batch(scale.batch_size)
    return lambda: Epochs(lambda: iter(source))


def _batches(path: str, rows: int, **options: Any) -> Iterator[dict[str, np.ndarray]]:
    import pyarrow.parquet as parquet

    for batch in parquet.ParquetFile(path).iter_batches(rows, **options):
        arrays = zip(batch.schema.names, batch.columns, strict=True)
        yield {name: array.to_numpy(zero_copy_only=False) for name, array in arrays}


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
        Contender(
            "Grain",
            "ParquetIterDataset, batch",
            ("grain", "pyarrow"),
            measured(grain_rows, ("pyarrow", "grain")),
        ),
    ),
    floors=(Floor("later", at_least=0.8, against="pyarrow"),),
    check=check,
)
