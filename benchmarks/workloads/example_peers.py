"""Grain and torch beside the others that parse Examples: protobuf's messages, and Python."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.pipelines import Batch, Build, Run
from benchmarks.harness.workload import Contender, Scale
from benchmarks.workloads.example_files import FLOAT_NAMES, INTEGER_NAMES, example_file
from benchmarks.workloads.grain_epochs import each_epoch

SHUFFLED = 10_000

Parse = Callable[[bytes], Any]


def parsed(record: bytes, parse: Parse, in_three: bool) -> dict[str, Any]:
    """A record's numbers, feature by feature; ``parse`` makes an Example of its bytes."""
    feature = parse(record).features.feature
    if in_three:
        return {
            "floats": np.array(feature["floats"].float_list.value, np.float32),
            "integers": np.array(feature["integers"].int64_list.value, np.int64),
            "label": np.int64(feature["label"].int64_list.value[0]),
        }
    floats = {name: np.float32(feature[name].float_list.value[0]) for name in FLOAT_NAMES}
    names = (*INTEGER_NAMES, "label")
    return {**floats, **{name: np.int64(feature[name].int64_list.value[0]) for name in names}}


def parsed_whole(records: Sequence[bytes], parse: Parse, in_three: bool) -> dict[str, Any]:
    """A batch of records' numbers: those of each feature go into one array."""
    features = [parse(record).features.feature for record in records]
    floats = ("floats",) if in_three else FLOAT_NAMES
    integers = ("integers", "label") if in_three else (*INTEGER_NAMES, "label")
    numbers = {
        **{name: _joined((f[name].float_list.value for f in features), "<f4") for name in floats},
        **{name: _joined((f[name].int64_list.value for f in features), "<i8") for name in integers},
    }
    if in_three:
        for name in ("floats", "integers"):
            numbers[name] = numbers[name].reshape(len(records), -1)
    return numbers


def _joined(values: Iterable[Iterable[float]], dtype: str) -> np.ndarray:
    return np.fromiter(itertools.chain.from_iterable(values), dtype)


def offsets(path: str) -> np.ndarray:
    """Where the records of a file begin, and how long they are: int64 (records, 2)."""
    places = []
    with open(path, "rb") as file:
        while header := file.read(12):
            length = int.from_bytes(header[:8], "little")
            places.append((file.tell(), length))
            file.seek(length + 4, os.SEEK_CUR)
    return np.array(places)


def grain_dataset(scale: Scale, in_three: bool, shuffled: bool, expert: bool) -> Build:
    """Grain's reader and TensorFlow's message; an expert's makes arrays of whole batches."""
    import grain
    import tensorflow as tf

    path, parse = example_file(scale.elements, in_three), tf.train.Example.FromString

    def dataset(seed: int) -> Any:
        records = grain.experimental.TFRecordIterDataset(path)
        if not expert:
            records = records.map(lambda record: parsed(record, parse, in_three))
        if shuffled:
            records = grain.experimental.WindowShuffleIterDataset(
                records, window_size=SHUFFLED, seed=seed
            )
        if not expert:
            return records.batch(scale.batch_size)
        return records.batch(
            scale.batch_size, batch_fn=lambda batch: parsed_whole(batch, parse, in_three)
        )

    return each_epoch(dataset)


def torch_loader(scale: Scale, in_three: bool, shuffled: bool) -> Build:
    """The package tfrecord's Dataset, whose arrays of one number are made numbers."""
    from tfrecord.torch.dataset import TFRecordDataset
    from torch.utils.data import DataLoader

    path = example_file(scale.elements, in_three)
    if in_three:
        description = {"floats": "float", "integers": "int", "label": "int"}
    else:
        description = dict.fromkeys(FLOAT_NAMES, "float")
        description |= dict.fromkeys((*INTEGER_NAMES, "label"), "int")

    def numbers(example: dict[str, np.ndarray]) -> dict[str, Any]:
        return {name: a[0] if len(a) == 1 else a for name, a in example.items()}

    def build() -> Iterable[Batch]:
        dataset = TFRecordDataset(
            path,
            index_path=None,
            description=description,
            shuffle_queue_size=SHUFFLED if shuffled else None,
            transform=numbers,
        )
        return DataLoader(dataset, batch_size=scale.batch_size)

    return build


def torch_expert(scale: Scale, in_three: bool, shuffled: bool) -> Build:
    """The records of a batch read by their places in the file, and parsed as a whole.

    Two workers take longer: sending a batch's tensors between processes costs more than parsing.
    """
    import torch
    from tfrecord import example_pb2
    from torch.utils.data import DataLoader

    path, parse = example_file(scale.elements, in_three), example_pb2.Example.FromString

    class Records:
        def __init__(self) -> None:
            self._places = offsets(path)
            self._file = open(path, "rb")  # noqa: SIM115  # read until the dataset goes

        def __len__(self) -> int:
            return len(self._places)

        def __getitems__(self, indices: list[int]) -> Batch:
            file = self._file.fileno()
            places = self._places[indices].tolist()
            records = [os.pread(file, length, start) for start, length in places]
            return parsed_whole(records, parse, in_three)

    def tensors(batch: dict[str, np.ndarray]) -> dict[str, Any]:
        return {name: torch.from_numpy(column) for name, column in batch.items()}

    return lambda: DataLoader(Records(), scale.batch_size, shuffle=shuffled, collate_fn=tensors)


def contenders(
    measured: Callable[..., Run], in_three: bool, shuffled: bool
) -> tuple[Contender, ...]:
    """Grain and torch.

    Args:
        measured: makes a contender's ``run`` of a function that builds its pipeline.
        in_three: whether records have three features, rather than forty.
        shuffled: whether they are to be shuffled.
    """
    grain, torch = ("grain", "tensorflow"), ("torch", "tfrecord")
    windows = "shuffled in windows of 10,000, " if shuffled else ""
    buffer = ", shuffle_queue_size=10000" if shuffled else ""
    order = "a full shuffle" if shuffled else "in order"
    kind = (in_three, shuffled)
    return (
        Contender(
            "Grain",
            f"TFRecordIterDataset, map(tf.train.Example.FromString, numpy), {windows}batch; "
            "no checksums",
            grain,
            measured(grain_dataset, ("grain", "tensorflow-cpu", "tensorflow"), *kind, False),
        ),
        Contender(
            "Grain expert",
            f"records {windows}batched, then arrays made of each batch as a whole; no checksums",
            grain,
            measured(grain_dataset, ("grain", "tensorflow-cpu", "tensorflow"), *kind, True),
        ),
        Contender(
            "torch",
            f"tfrecord's TFRecordDataset{buffer}, DataLoader, no workers; no checksums",
            torch,
            measured(torch_loader, torch, *kind),
        ),
        Contender(
            "torch expert",
            f"records by their places in the file, {order}, batches parsed as a whole, no workers; "
            "no checksums",
            torch,
            measured(torch_expert, torch, *kind),
        ),
    )
