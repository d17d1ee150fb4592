"""What workloads with a contender written in Grain have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.harness.pipelines import Batch, Build, Epochs


def in_memory(dataset: Any) -> Any:
    """A MapDataset read with no threads, as Grain advises for data in memory."""
    import grain

    return dataset.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))


def each_epoch(dataset: Callable[[int], Any]) -> Build:
    """Epochs that each build a new dataset and iterate over it, of a seed that is given to it."""

    def build() -> Iterable[Batch]:
        seeds = iter(range(1_000_000))
        return Epochs(lambda: iter(dataset(next(seeds))))

    return build
