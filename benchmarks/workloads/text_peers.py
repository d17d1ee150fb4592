"""Grain and torch beside the others that look up the words of lines; lines are read each epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.pipelines import Batch, Build, Epochs, Run
from benchmarks.harness.workload import Contender, Scale
from benchmarks.workloads.grain_epochs import each_epoch, in_memory
from benchmarks.workloads.text_files import (
    looked_up,
    numbers_of_words,
    padded,
    read_lines,
    text_file,
)


class LineBatches:
    """Batches of a file's lines by their numbers, split, looked up and padded as a whole."""

    def __init__(self, path: str, known: dict[str, int], size: int) -> None:
        self._lines, self._known, self._size = read_lines(path), known, size

    def __len__(self) -> int:
        return -(-len(self._lines) // self._size)

    def __getitem__(self, index: int) -> np.ndarray:
        start = index * self._size
        part = self._lines[start : start + self._size]
        return padded([looked_up(text, self._known) for text in part])


def grain_dataset(scale: Scale) -> Build:
    """Lines mapped one by one."""
    import grain

    path, known = text_file(scale.elements), numbers_of_words()

    def dataset(_seed: int) -> Any:
        rows = grain.MapDataset.source(read_lines(path)).map(lambda line: looked_up(line, known))
        return in_memory(rows.batch(scale.batch_size, batch_fn=padded))

    return each_epoch(dataset)


def grain_expert(scale: Scale) -> Build:
    """A source whose elements are batches."""
    import grain

    path, known = text_file(scale.elements), numbers_of_words()

    def dataset(_seed: int) -> Any:
        return in_memory(grain.MapDataset.source(LineBatches(path, known, scale.batch_size)))

    return each_epoch(dataset)


def torch_loader(scale: Scale) -> Build:
    """A tensor for each line, padded when they are collated."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from torch.utils.data import DataLoader, Dataset

    path, known = text_file(scale.elements), numbers_of_words()

    class Lines(Dataset):
        def __init__(self) -> None:
            self._lines = read_lines(path)

        def __len__(self) -> int:
            return len(self._lines)

        def __getitem__(self, index: int) -> Any:
            return torch.tensor(looked_up(self._lines[index], known))

    def collated(rows: list[Any]) -> Batch:
        return pad_sequence(rows, batch_first=True)

    return lambda: Epochs(lambda: iter(DataLoader(Lines(), scale.batch_size, collate_fn=collated)))


def torch_expert(scale: Scale) -> Build:
    """A dataset whose elements are batches."""
    from torch.utils.data import DataLoader

    path, known = text_file(scale.elements), numbers_of_words()
    return lambda: Epochs(
        lambda: iter(DataLoader(LineBatches(path, known, scale.batch_size), batch_size=None))
    )


def contenders(measured: Callable[..., Run]) -> tuple[Contender, ...]:
    """Grain and torch; ``measured`` makes a contender's ``run`` of its function."""
    return (
        Contender(
            "Grain",
            "MapDataset of lines, map(str.split, a dict), batch with a batch_fn that pads",
            ("grain",),
            measured(grain_dataset, ("grain",)),
        ),
        Contender(
            "Grain expert",
            "MapDataset of batches, each split, looked up and padded as a whole",
            ("grain",),
            measured(grain_expert, ("grain",)),
        ),
        Contender(
            "torch",
            "a Dataset of lines, DataLoader, pad_sequence, no workers",
            ("torch",),
            measured(torch_loader, ("torch",)),
        ),
        Contender(
            "torch expert",
            "a Dataset of batches, each split, looked up and padded as a whole, no workers",
            ("torch",),
            measured(torch_expert, ("torch",)),
        ),
    )
