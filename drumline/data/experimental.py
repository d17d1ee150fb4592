"""Names that guides write as ``tf.data.experimental``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.data.operations.ordering.order import SHARD_HINT
from drumline.data.options import (
    AutoShardPolicy,
    AutotuneOptions,
    DistributeOptions,
    OptimizationOptions,
)
from drumline.data.readers import CsvDataset, make_csv_dataset
from drumline.data.runtime.statistics import Statistics
from drumline.data.storage.files.records import DatasetRecordWriter as TFRecordWriter
from drumline.data.storage.files.remote import (
    RemoteReads,
    remote_reads,
    remote_retries,
    set_remote_reads,
)
from drumline.data.workers import service

__all__ = [
    "SHARD_HINT",
    "AutoShardPolicy",
    "AutotuneOptions",
    "CsvDataset",
    "DistributeOptions",
    "OptimizationOptions",
    "RemoteReads",
    "Statistics",
    "TFRecordWriter",
    "assert_cardinality",
    "make_csv_dataset",
    "prefetch_to_device",
    "remote_reads",
    "remote_retries",
    "service",
    "set_remote_reads",
]


def assert_cardinality(expected_cardinality: int) -> Callable[[Any], Any]:
    """``dataset.assert_cardinality`` of the number, for ``dataset.apply``."""
    return lambda dataset: dataset.assert_cardinality(expected_cardinality)


def prefetch_to_device(device: Any, buffer_size: int | None = None) -> Callable[[Any], Any]:
    """``dataset.prefetch_to_device`` with these arguments, for ``dataset.apply``."""
    return lambda dataset: dataset.prefetch_to_device(device, buffer_size)
