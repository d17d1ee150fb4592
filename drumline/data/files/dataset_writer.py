"""Writing a dataset's records to a TFRecord file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from drumline.data.files.record_writer import TFRecordOptions, TFRecordWriter


class DatasetRecordWriter:
    """Writes all records of a dataset, as ``tf.data.experimental.TFRecordWriter``.

    Args:
        filename: of the file, which ``write`` makes anew.
        compression_type: ``None``, ``""``, ``"GZIP"`` or ``"ZLIB"``.

    Raises:
        ValueError: the compression is not known.
    """

    def __init__(
        self, filename: str | bytes | os.PathLike[str], compression_type: str | None = None
    ):
        self._filename = filename
        self._options = TFRecordOptions(compression_type)

    def write(self, dataset: Iterable[bytes]) -> None:
        """Writes a dataset of strings, a record each.

        Raises:
            TypeError: elements are no strings.
            OSError: the file cannot be written.
        """
        with TFRecordWriter(self._filename, self._options) as writer:
            for record in dataset:
                writer.write(record)
