"""Files of tables, opened to be read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from drumline.data.files.remote import file_system, has_scheme
from drumline.data.files.remote_file import RemoteFile

BATCH_BYTES = 2 << 20
"""How much is decoded at once, about."""

_MOST_ROWS = 1 << 16
_READ_BYTES = 1 << 20
_ARROW_MAGIC = b"ARROW1"


class ParquetTable:
    """A Parquet file. Its groups are row groups.

    Args:
        path: a local one, or one with a scheme.

    Raises:
        OSError: the file cannot be opened.
        pa.ArrowInvalid: it is no Parquet file.
    """

    def __init__(self, path: str):
        import pyarrow.parquet as parquet

        remote = has_scheme(path)
        self._source = _opened(path)
        # Ranges of a remote file are fetched together; a local one is read a little at a time.
        self._file = parquet.ParquetFile(
            self._source, pre_buffer=remote, buffer_size=0 if remote else _READ_BYTES
        )
        self.schema: pa.Schema = self._file.schema_arrow

    def batches(self, group: int, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The columns of the rows from a group on, in pieces, each with its group's number."""
        for number in range(group, self._file.num_row_groups):
            rows = _rows_at_once(self._group_nbytes(number), self._rows_of(number))
            for batch in self._file.iter_batches(rows, [number], columns, use_threads=False):
                yield number, batch

    def offset(self, group: int) -> int:
        """Where a group's columns begin in the file."""
        first = self._file.metadata.row_group(group).column(0)
        return int(first.dictionary_page_offset or first.data_page_offset)

    def close(self) -> None:
        """Closes the file."""
        self._file.close(force=True)

    def _rows_of(self, group: int) -> int:
        return int(self._file.metadata.row_group(group).num_rows)

    def _group_nbytes(self, group: int) -> int:
        return int(self._file.metadata.row_group(group).total_byte_size)


class ArrowTable:
    """A file of Arrow's, whether in the file format (also called Feather) or the stream format.

    Its groups are record batches. Arguments and errors are those of ``ParquetTable``.
    """

    def __init__(self, path: str):
        self._source = _opened(path)
        start = self._source.read(len(_ARROW_MAGIC))
        self._source.seek(0)
        self._by_number = start == _ARROW_MAGIC
        self._reader: Any = (
            ipc.open_file(self._source) if self._by_number else ipc.open_stream(self._source)
        )
        self.schema: pa.Schema = self._reader.schema

    def batches(self, group: int, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """As ``ParquetTable.batches``; of a stream the batches before are read and dropped."""
        for number, batch in self._from(group):
            chosen = batch.select(columns)
            rows = _rows_at_once(chosen.nbytes, len(chosen))
            for start in range(0, len(chosen), rows):
                yield number, chosen.slice(start, rows)

    def _from(self, group: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._by_number:
            for number in range(group, self._reader.num_record_batches):
                yield number, self._reader.get_batch(number)
            return
        for number, batch in enumerate(self._reader):
            if number >= group:
                yield number, batch

    def offset(self, group: int) -> int:
        """Where reading stands: Arrow does not tell where a record batch begins."""
        return int(self._source.tell())

    def close(self) -> None:
        """Closes the file."""
        self._source.close()


TABLES: dict[str, type[ParquetTable] | type[ArrowTable]] = {
    "parquet": ParquetTable,
    "arrow": ArrowTable,
}


def first_schema(kind: str, path: str) -> pa.Schema:
    """The names and types of a file's columns.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no such file.
    """
    try:
        table = TABLES[kind](path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        return table.schema
    finally:
        table.close()


def _opened(path: str) -> Any:
    if not has_scheme(path):
        return pa.OSFile(path, "rb")
    system, inner = file_system(path)
    return pa.PythonFile(RemoteFile(system, inner), "r")


def _rows_at_once(nbytes: int, rows: int) -> int:
    """A power of two of rows that take about ``BATCH_BYTES``."""
    fitting = BATCH_BYTES * max(1, rows) // max(1, nbytes)
    return 1 << (max(1, min(fitting, _MOST_ROWS)).bit_length() - 1)
