"""Datasets of files: ``tf.data.TextLineDataset`` and the like."""

from __future__ import annotations

from typing import Any

from drumline import data
from drumline.compat.data.dataset import TensorDataset
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.convert import static


def _names(filenames: Any) -> Any:
    """Files as users give them: text, tensors of strings, datasets, lists."""
    return static(unwrap(filenames))


class LinesOfFiles(TensorDataset):
    """The lines of text files, as ``tf.data.TextLineDataset``."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ):
        reads = static(num_parallel_reads)
        files, kind = _names(filenames), static(compression_type)
        super().__init__(data.TextLineDataset(files, kind, num_parallel_reads=reads))


class RecordsOfFiles(TensorDataset):
    """The records of TFRecord files, as ``tf.data.TFRecordDataset``."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ):
        reads = static(num_parallel_reads)
        files, kind = _names(filenames), static(compression_type)
        super().__init__(data.TFRecordDataset(files, kind, num_parallel_reads=reads))


class FixedLengthRecordsOfFiles(TensorDataset):
    """Records of one length, as ``tf.data.FixedLengthRecordDataset``."""

    def __init__(self, filenames: Any, record_bytes: Any, *args: Any, **kwargs: Any):
        kwargs.pop("name", None)
        size = static(record_bytes)
        super().__init__(
            data.FixedLengthRecordDataset(_names(filenames), size, *map(static, args), **kwargs)
        )


LinesOfFiles.__name__ = LinesOfFiles.__qualname__ = "TextLineDataset"
RecordsOfFiles.__name__ = RecordsOfFiles.__qualname__ = "TFRecordDataset"
FixedLengthRecordsOfFiles.__name__ = "FixedLengthRecordDataset"
FixedLengthRecordsOfFiles.__qualname__ = "FixedLengthRecordDataset"
