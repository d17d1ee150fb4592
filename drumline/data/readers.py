"""Datasets of files' records, as ``tf.data`` names them."""

from __future__ import annotations

from typing import Any

from drumline.data._dataset.files import files_plan
from drumline.data.dataset import Dataset
from drumline.data.files.records import CHUNK, FileFormat, checked_compression
from drumline.data.plan.arguments import count_of

MOST_AT_ONCE = 1 << 30
"""The largest ``buffer_size``: the memory is taken for each file that is open."""


def TFRecordDataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """The records of TFRecord files, as ``bytes``.

    Lengths and checksums are checked. A damaged or truncated record, and a file that cannot be
    opened, raise in their place; the next file follows.

    Args:
        filenames: a path, a list of paths, or a dataset of them. Paths with a scheme (``gs://``,
            ``memory://``) are read by fsspec, with the package it needs for the scheme.
        compression_type: ``None``, ``""``, ``"GZIP"`` or ``"ZLIB"``.
        buffer_size: how many bytes to read at once; ``None`` and 0 leave it to drumline.
        num_parallel_reads: reads so many files at once, each ahead by a thread, one record of each
            by turns, in the same order every time; ``AUTOTUNE`` is 4. ``None``: one file after the
            other.
        name: shown by ``explain()``.

    Raises:
        TypeError: ``filenames`` are no paths.
        ValueError: the compression is none of these, or a number is out of range.
        DataLossError: while iterating, for what is no whole record. It names the file, the byte
            and the record.
        OSError: while iterating, for a file that cannot be read.
    """
    form = FileFormat(
        "tfrecord", *reading_options("TFRecordDataset", compression_type, buffer_size)
    )
    return _dataset("TFRecordDataset", filenames, form, num_parallel_reads, name)


def TextLineDataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    r"""The lines of text files, as ``bytes`` without their ends.

    Lines end with ``\n``; the last one may do without. As in ``tf.data`` every ``\r`` is dropped.
    Arguments and errors are those of ``TFRecordDataset``.
    """
    form = FileFormat("lines", *reading_options("TextLineDataset", compression_type, buffer_size))
    return _dataset("TextLineDataset", filenames, form, num_parallel_reads, name)


def FixedLengthRecordDataset(
    filenames: Any,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
    compression_type: str | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Records of one length, as ``bytes``.

    Args:
        filenames: as of ``TFRecordDataset``, like the arguments that are not described here.
        record_bytes: the length of a record.
        header_bytes: how many bytes at the start of each file to leave out.
        footer_bytes: how many at its end.
        buffer_size: as of ``TFRecordDataset``.
        compression_type: as of ``TFRecordDataset``.
        num_parallel_reads: as of ``TFRecordDataset``.
        name: shown by ``explain()``.

    Raises:
        DataLossError: while iterating, after a file's whole records, if bytes are left over.
    """
    operation = "FixedLengthRecordDataset"
    sizes = (
        count_of(record_bytes, operation, "record_bytes", least=1),
        count_of(header_bytes or 0, operation, "header_bytes", least=0),
        count_of(footer_bytes or 0, operation, "footer_bytes", least=0),
    )
    form = FileFormat("fixed", *reading_options(operation, compression_type, buffer_size), sizes)
    return _dataset(operation, filenames, form, num_parallel_reads, name)


def reading_options(
    operation: str, compression_type: str | None, buffer_size: int | None
) -> tuple[str, int]:
    """A file's compression, one of ``COMPRESSIONS``, and how many bytes of it to read at once."""
    compression = checked_compression(compression_type, operation)
    size = count_of(buffer_size or 0, operation, "buffer_size", least=0)
    if size > MOST_AT_ONCE:
        raise ValueError(f"{operation}: buffer_size must be at most {MOST_AT_ONCE}, got {size}")
    return compression, size or CHUNK


def _dataset(
    operation: str, filenames: Any, form: FileFormat, parallel: int | None, name: str | None
) -> Dataset:
    return Dataset(*files_plan(operation, filenames, form, parallel, name))
