"""Grain and torch beside the others that read a CSV file: pandas reads it for both.

Neither library reads CSV. Files are read again for each epoch, as the others do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.pipelines import Batch, Build, Epochs, Run
from benchmarks.harness.workload import Contender, Scale
from benchmarks.workloads import index_batches
from benchmarks.workloads.csv_files import NAMES, csv_file
from benchmarks.workloads.grain_epochs import each_epoch, in_memory

KINDS = {"x": np.float32, "n": np.int32, "s": str}

Read = Callable[[str], dict[str, np.ndarray]]


def reader(engine: str) -> Read:
    """Imports pandas and makes what reads a file's columns, of float32, int32 and objects.

    Args:
        engine: pandas': ``"c"``, or ``"pyarrow"``, which reads on every core.
    """
    import pandas

    types = {name: KINDS[name[0]] for name in NAMES}

    def read(path: str) -> dict[str, np.ndarray]:
        frame = pandas.read_csv(path, engine=engine, dtype=types)
        return {name: frame[name].to_numpy() for name in NAMES}

    return read


class Rows:
    """Rows by their numbers, as both libraries ask for them."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns["n0"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: column[index] for name, column in self._columns.items()}


def grain_dataset(scale: Scale) -> Build:
    """Rows shuffled, and stacked column by column."""
    import grain

    path, read = csv_file(scale.elements), reader("c")

    def dataset(seed: int) -> Any:
        rows = grain.MapDataset.source(Rows(read(path))).shuffle(seed=seed)
        return in_memory(rows.batch(scale.batch_size))

    return each_epoch(dataset)


def grain_expert(scale: Scale) -> Build:
    """Shuffled indices batched, and columns gathered."""
    import grain

    path, read = csv_file(scale.elements), reader("pyarrow")

    def dataset(seed: int) -> Any:
        columns = read(path)

        def gathered(index: Any) -> Batch:
            return {name: column[index] for name, column in columns.items()}

        indices = grain.MapDataset.range(scale.elements).shuffle(seed=seed)
        return in_memory(indices.batch(scale.batch_size).map(gathered))

    return each_epoch(dataset)


def torch_loader(scale: Scale) -> Build:
    """A row for each index, collated by torch, whose strings stay lists."""
    from torch.utils.data import DataLoader

    path, read = csv_file(scale.elements), reader("c")
    return lambda: Epochs(
        lambda: iter(DataLoader(Rows(read(path)), batch_size=scale.batch_size, shuffle=True))
    )


def torch_expert(scale: Scale) -> Build:
    """Tensors indexed once for each batch; strings are an array of objects."""
    import torch

    path, read = csv_file(scale.elements), reader("pyarrow")

    class Table:
        def __init__(self) -> None:
            arrays = read(path)
            self._strings = {name: a for name, a in arrays.items() if name[0] == "s"}
            self._tensors = {
                name: torch.tensor(a) for name, a in arrays.items() if name not in self._strings
            }

        def __getitem__(self, index: Any) -> Batch:
            numbers = {name: column[index] for name, column in self._tensors.items()}
            return numbers | {name: a[index.numpy()] for name, a in self._strings.items()}

    build = index_batches.torch_expert(Table, scale)
    return lambda: Epochs(lambda: iter(build()))


def contenders(measured: Callable[..., Run]) -> tuple[Contender, ...]:
    """Grain and torch; ``measured`` makes a contender's ``run`` of its function."""
    return (
        Contender(
            "Grain",
            "pandas.read_csv of the whole file, MapDataset of its rows, full shuffle, batch",
            ("grain", "pandas"),
            measured(grain_dataset, ("grain", "pandas")),
        ),
        Contender(
            "Grain expert",
            "read_csv(engine='pyarrow'), shuffled indices batched, then a gather of each column",
            ("grain", "pandas", "pyarrow"),
            measured(grain_expert, ("grain", "pandas", "pyarrow")),
        ),
        Contender(
            "torch",
            "pandas.read_csv of the whole file, a Dataset of its rows, "
            "DataLoader(shuffle=True), a full shuffle, no workers",
            ("torch", "pandas"),
            measured(torch_loader, ("torch", "pandas")),
        ),
        Contender(
            "torch expert",
            "read_csv(engine='pyarrow'), columns as tensors, indexed once for each batch",
            ("torch", "pandas", "pyarrow"),
            measured(torch_expert, ("torch", "pandas", "pyarrow")),
        ),
    )
