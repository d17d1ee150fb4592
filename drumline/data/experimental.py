"""Names that guides write as ``tf.data.experimental``."""

from drumline.data.operations.ordering.order import SHARD_HINT
from drumline.data.option_groups import AutoShardPolicy
from drumline.data.options import AutotuneOptions, DistributeOptions, OptimizationOptions
from drumline.data.readers import CsvDataset, make_csv_dataset
from drumline.data.runtime.statistics import Statistics
from drumline.data.storage.files.records import DatasetRecordWriter as TFRecordWriter
from drumline.data.storage.files.remote import (
    RemoteReads,
    remote_reads,
    remote_retries,
    set_remote_reads,
)
from drumline.data.transformations import assert_cardinality, prefetch_to_device
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
