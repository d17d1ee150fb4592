"""Opening a file for what it holds."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator

from drumline._core import RecordReader
from drumline._local_path import has_scheme
from drumline.data.files.file_format import FileFormat
from drumline.data.files.read_ahead import ReadAhead
from drumline.data.files.remote import file_system
from drumline.data.files.remote_reads import remote_reads

Source = int | ReadAhead
"""A descriptor, which readers duplicate, or what fetches a remote file's bytes."""


@contextlib.contextmanager
def opened_bytes(path: str, offset: int, compression: str, chunk: int) -> Iterator[Source]:
    """The bytes of a file from a place on, or all of them if it is compressed.

    A descriptor is closed afterwards. What fetches a remote file goes on unless there was an error.

    Args:
        path: a local one, or one with a scheme.
        offset: bytes of the decompressed file before the place.
        compression: one of ``COMPRESSIONS``.
        chunk: how many bytes are read at once.

    Raises:
        OSError: the file cannot be opened.
        ImportError: fsspec lacks a package for the scheme.
    """
    if not has_scheme(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    system, inner = file_system(path)
    reads = remote_reads()
    reads = dataclasses.replace(reads, range_bytes=max(chunk, reads.range_bytes))
    source = ReadAhead(system, inner, 0 if compression else offset, reads)
    try:
        yield source
    except BaseException:
        source.close()
        raise


def open_records(
    path: str, form: FileFormat, offset: int, number: int
) -> tuple[RecordReader, Source]:
    """The reader of a file's records from a place on, and what it reads.

    A compressed file is read, and what comes before the place dropped.

    Args:
        path: a local one, or one with a scheme.
        form: how to read it.
        offset: bytes of the decompressed file before the first record.
        number: records before it.

    Raises:
        OSError: the file cannot be opened.
        ImportError: fsspec lacks a package for the scheme.
    """
    with opened_bytes(path, offset, form.compression, form.chunk) as source:
        reader = RecordReader(
            source, form.kind, form.compression, form.chunk, offset, number, form.sizes
        )
        return reader, source
