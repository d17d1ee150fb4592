"""Grain and torch beside the others that read a Parquet file; pyarrow decodes it for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness.pipelines import Batch, Build, Epochs, Run
from benchmarks.harness.workload import Contender, Scale
from benchmarks.workloads.parquet_files import (
    Columns,
    decoded,
    decoded_and_cut,
    table_file,
)

AT_ONCE = 1 << 16


def grain_rows(scale: Scale) -> Build:
    """Grain's Parquet source, whose elements are rows."""
    import grain

    source = grain.experimental.ParquetIterDataset(table_file(scale.elements))
    batches = source.batch(scale.batch_size)
    return lambda: Epochs(lambda: iter(batches))


def grain_expert(scale: Scale) -> Build:
    """A source of row groups, decoded by two threads, and Grain's rebatching."""
    import grain
    import pyarrow.parquet as parquet

    path = table_file(scale.elements)

    class Groups:
        def __init__(self) -> None:
            self._count = parquet.ParquetFile(path).num_row_groups

        def __len__(self) -> int:
            return self._count

        def __getitem__(self, index: int) -> Columns:
            group = parquet.ParquetFile(path).read_row_group(index, use_threads=False)
            return {name: group[name].to_numpy() for name in group.column_names}

    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
    groups = grain.MapDataset.source(Groups()).to_iter_dataset(options)
    batches = grain.experimental.RebatchIterDataset(groups, scale.batch_size)
    return lambda: Epochs(lambda: iter(batches))


def torch_rows(scale: Scale) -> Build:
    """An IterableDataset of rows, which torch collates."""
    from torch.utils.data import DataLoader, IterableDataset

    path = table_file(scale.elements)

    class Rows(IterableDataset):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            for columns in decoded(path, AT_ONCE):
                for values in zip(*columns.values(), strict=True):
                    yield dict(zip(columns, values, strict=True))

    return lambda: DataLoader(Rows(), batch_size=scale.batch_size)


def torch_expert(scale: Scale) -> Build:
    """An IterableDataset of batches, each column made a tensor in place."""
    from torch.utils.data import DataLoader, IterableDataset

    path = table_file(scale.elements)

    class Batches(IterableDataset):
        def __iter__(self) -> Iterator[Batch]:
            return decoded_and_cut(path, scale.batch_size)

    return lambda: DataLoader(Batches(), batch_size=None)


def contenders(measured: Callable[..., Run]) -> tuple[Contender, ...]:
    """Grain and torch; ``measured`` makes a contender's ``run`` of its function."""
    return (
        Contender(
            "Grain",
            "ParquetIterDataset, whose elements are rows, batch",
            ("grain", "pyarrow"),
            measured(grain_rows, ("pyarrow", "grain")),
        ),
        Contender(
            "Grain expert",
            "MapDataset of row groups, decoded by 2 threads, RebatchIterDataset",
            ("grain", "pyarrow"),
            measured(grain_expert, ("pyarrow", "grain")),
        ),
        Contender(
            "torch",
            "an IterableDataset of the rows that pyarrow decodes, DataLoader, no workers",
            ("torch", "pyarrow"),
            measured(torch_rows, ("pyarrow", "torch")),
        ),
        Contender(
            "torch expert",
            "an IterableDataset of batches as pyarrow's expert makes them, no workers",
            ("torch", "pyarrow"),
            measured(torch_expert, ("pyarrow", "torch")),
        ),
    )
