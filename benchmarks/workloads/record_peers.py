"""Grain and torch beside the others that read TFRecords one by one."""

from __future__ import annotations

import gzip
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness.pipelines import Batch, Build, Epochs, Run
from benchmarks.harness.workload import Contender, Scale
from benchmarks.workloads.record_files import record_file

BUFFER = 1 << 20
EXPERT_BATCH = 1024


def read_records(path: str, compression: str) -> Iterator[bytes]:
    """A file's records, each by two reads of a buffer, nothing checked."""
    with (
        gzip.open(path) if compression else open(path, "rb", 0) as file,
        io.BufferedReader(file, BUFFER) as buffered,
    ):
        while header := buffered.read(12):
            length = int.from_bytes(header[:8], "little")
            yield buffered.read(length + 4)[:-4]


def grain_plain(scale: Scale) -> Build:
    """Grain's own reader."""
    import grain

    dataset = grain.experimental.TFRecordIterDataset(record_file(scale.elements, ""))
    return lambda: Epochs(lambda: iter(dataset))


def grain_own(scale: Scale, compression: str) -> Build:
    """A custom IterDataset: Grain's reads plain files alone, and without a large buffer."""
    import grain

    path = record_file(scale.elements, compression)

    class Records(grain.DatasetIterator):
        def __init__(self) -> None:
            super().__init__()
            self.set_state({"given": 0})

        def __next__(self) -> bytes:
            record = next(self._records)
            self._given += 1
            return record

        def get_state(self) -> dict[str, int]:
            return {"given": self._given}

        def set_state(self, state: dict[str, int]) -> None:
            self._given = state["given"]
            records = read_records(path, compression)
            self._records = itertools.islice(records, self._given, None)

    class Own(grain.IterDataset):
        def __iter__(self) -> Any:
            return Records()

    dataset = Own()
    return lambda: Epochs(lambda: iter(dataset))


def torch_loader(scale: Scale, compression: str) -> Build:
    """An IterableDataset over tfrecord's iterator: the Dataset of that package parses Examples.

    Records are copied, since it reads all of them into one buffer. It inflates a compressed file
    twice, the first time to know its size.
    """
    from tfrecord.reader import tfrecord_iterator
    from torch.utils.data import DataLoader, IterableDataset

    path, kind = record_file(scale.elements, compression), compression.lower() or None

    class Records(IterableDataset):
        def __iter__(self) -> Iterator[bytes]:
            return map(bytes, tfrecord_iterator(path, compression_type=kind))

    return lambda: DataLoader(Records(), batch_size=None)


def torch_expert(scale: Scale, compression: str) -> Build:
    """A custom reader, whose records torch handles in lists, which are split again."""
    from torch.utils.data import DataLoader, IterableDataset

    path = record_file(scale.elements, compression)

    class Records(IterableDataset):
        def __iter__(self) -> Iterator[bytes]:
            return read_records(path, compression)

    lists = DataLoader(Records(), batch_size=EXPERT_BATCH, collate_fn=list)

    def epoch() -> Iterator[Batch]:
        for records in lists:
            yield from records

    return lambda: Epochs(epoch)


def contenders(measured: Callable[..., Run], compression: str) -> tuple[Contender, ...]:
    """Grain and torch, of one compression.

    Args:
        measured: makes a contender's ``run`` of a function that builds its pipeline.
        compression: ``""`` or ``"GZIP"``.
    """
    grain: tuple[Contender, ...] = (
        Contender(
            "Grain",
            "a custom IterDataset over gzip, which Grain's reader cannot read; no checksums",
            ("grain",),
            measured(grain_own, ("grain",), compression),
        ),
    )
    if not compression:
        grain = (
            Contender(
                "Grain",
                "experimental.TFRecordIterDataset; no checksums",
                ("grain",),
                measured(grain_plain, ("grain",)),
            ),
            Contender(
                "Grain expert",
                "a custom IterDataset, reads of 1 MB; no checksums",
                ("grain",),
                measured(grain_own, ("grain",), compression),
            ),
        )
    return (
        *grain,
        Contender(
            "torch",
            "tfrecord's iterator in an IterableDataset, DataLoader(batch_size=None); no checksums",
            ("torch", "tfrecord"),
            measured(torch_loader, ("torch", "tfrecord"), compression),
        ),
        Contender(
            "torch expert",
            "a custom IterableDataset, reads of 1 MB, DataLoader of lists of 1,024 records, "
            "split again; no checksums",
            ("torch",),
            measured(torch_expert, ("torch",), compression),
        ),
    )
