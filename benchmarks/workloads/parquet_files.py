"""The Parquet file for the workload that reads it, and pyarrow's ways of reading it."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 20
GROUP_ROWS = 50_000
EXPERT_ROWS = 16 * 1024

Columns = dict[str, np.ndarray]


def columns(rows: int) -> Columns:
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


def decoded(path: str, rows: int, **options: Any) -> Iterator[Columns]:
    """The file's rows, so many at a time; ``options`` are those of ``iter_batches``."""
    import pyarrow.parquet as parquet

    for batch in parquet.ParquetFile(path).iter_batches(rows, **options):
        arrays = zip(batch.schema.names, batch.columns, strict=True)
        yield {name: array.to_numpy(zero_copy_only=False) for name, array in arrays}


def decoded_and_cut(path: str, rows: int) -> Iterator[Columns]:
    """The same, many batches decoded at once by one thread and cut."""
    left: Columns | None = None
    for part in decoded(path, EXPERT_ROWS, use_threads=False):
        if left is not None:
            part = {name: np.concatenate([left[name], part[name]]) for name in part}
        count = len(part["c0"])
        whole = count - count % rows
        for start in range(0, whole, rows):
            yield {name: column[start : start + rows] for name, column in part.items()}
        left = {name: column[whole:] for name, column in part.items()} if whole < count else None
    if left is not None:
        yield left
