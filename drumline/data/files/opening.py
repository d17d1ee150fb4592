"""Opening a file for its records."""

from __future__ import annotations

import os

from drumline._core import RecordReader
from drumline.data.files.file_format import FileFormat
from drumline.data.files.read_ahead import RANGE_BYTES, ReadAhead
from drumline.data.files.remote import file_system, has_scheme


def open_records(
    path: str, form: FileFormat, offset: int, number: int
) -> tuple[RecordReader, ReadAhead | None]:
    """The reader of a file's records from a place on, and what fetches a remote file's bytes.

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
    if has_scheme(path):
        system, inner = file_system(path)
        start = 0 if form.compression else offset
        source = ReadAhead(system, inner, start, max(form.chunk, RANGE_BYTES))
        return _reader(source, form, offset, number), source
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _reader(descriptor, form, offset, number), None
    finally:
        os.close(descriptor)


def _reader(source: int | ReadAhead, form: FileFormat, offset: int, number: int) -> RecordReader:
    return RecordReader(source, form.kind, form.compression, form.chunk, offset, number, form.sizes)
