"""Files of tables, opened to be read batch by batch, and the memory that takes.

Arrow's own format is memory as it is: an offset in it leads wherever it says, out of the file as
well, and Arrow checks the last one of a column alone unless it is asked for more. So columns of
such files are validated in full before anything looks at their values. Parquet's decoder makes the
arrays itself, and checks what it reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from drumline._lazy import lazy_module, pa
from drumline._local_path import has_scheme
from drumline.data.storage.files.remote import RemoteFile, file_system

ipc = lazy_module("pyarrow.ipc")

_STORED_BYTES = {
    "BOOLEAN": 1,
    "INT32": 4,
    "INT64": 8,
    "INT96": 12,
    "FLOAT": 4,
    "DOUBLE": 8,
}
"""The format's physical types once they are decoded; integers of 8 and 16 bits are INT32."""

_LEVELS_BYTES = 4
"""A repetition and a definition level of 16 bits, which each value of a list has."""


class DecodedSizes:
    """The bytes of row groups while some of their columns are decoded.

    A value of a list exists twice: as it is stored, with its levels, and in the list's array. A
    string becomes an object, and is taken to be as long as it is in the file; one that is there
    once for many rows (the format's dictionaries) is longer than that.

    Args:
        file: a ``pyarrow.parquet.ParquetFile``.
        columns: names of those at the top.
    """

    def __init__(self, file: Any, columns: list[str]):
        self._metadata = file.metadata
        self._row_nbytes = 0
        self._values: list[tuple[int, int]] = []
        self._strings: list[int] = []
        for leaf in range(len(file.schema)):
            column = file.schema.column(leaf)
            if any(column.path == name or column.path.startswith(f"{name}.") for name in columns):
                self._add(leaf, column)

    def _add(self, leaf: int, column: Any) -> None:
        nbytes = _STORED_BYTES.get(column.physical_type, column.length)
        if column.physical_type == "BYTE_ARRAY":
            nbytes = _OBJECT_BYTES
            self._strings.append(leaf)
        if column.max_repetition_level:
            self._values.append((leaf, 3 * nbytes // 2 + _LEVELS_BYTES))
        else:
            self._row_nbytes += nbytes

    def of(self, group: int) -> int:
        """Return the bytes of a row group, all of it decoded at once."""
        found = self._metadata.row_group(group)
        nbytes = self._row_nbytes * int(found.num_rows)
        nbytes += sum(each * found.column(leaf).num_values for leaf, each in self._values)
        return nbytes + sum(found.column(leaf).total_uncompressed_size for leaf in self._strings)


PIECE_BYTES = 8 << 20
"""How much is decoded at once, about: each piece costs some time for each of its columns."""

COLUMN_BYTES = (256 << 10) + (1 << 20)
"""What a column of a Parquet file is decoded from: what is read at once of it, and a page of the
size that writers make by default."""

_MOST_ROWS = 1 << 16
_FEW_ROWS = 64
_OBJECT_BYTES = 64
_SHARED_BYTES = 1 << 20
_READ_BYTES = 256 << 10
_ARROW_MAGIC = b"ARROW1"


class ParquetTable:
    """A Parquet file. Its groups are row groups.

    Args:
        path: a local one, or one with a scheme.
        piece_nbytes: how much to decode at once, about.
        threads: whether Arrow's threads may share the columns among them.

    Raises:
        OSError: the file cannot be opened.
        pa.ArrowInvalid: it is no Parquet file.
    """

    def __init__(self, path: str, piece_nbytes: int = PIECE_BYTES, threads: bool = False):
        import pyarrow.parquet as parquet

        remote = has_scheme(path)
        self._piece_nbytes = piece_nbytes
        self._threads = threads
        self._source = _opened(path)
        # Ranges of a remote file are fetched together; a local one is read a little at a time.
        self._file = parquet.ParquetFile(
            self._source, pre_buffer=remote, buffer_size=0 if remote else _READ_BYTES
        )
        self.schema: pa.Schema = self._file.schema_arrow

    def batches(self, group: int, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the columns of the rows from a group on, in pieces, each with a group's number.

        Small groups are decoded together: a piece of several has the number of the first.
        """
        for run, rows, nbytes in self._runs(group, columns):
            for batch in self._pieces(run, rows, nbytes, columns):
                yield run[0], batch

    def _runs(self, group: int, columns: list[str]) -> Iterator[tuple[list[int], int, int]]:
        """Yield groups to decode together, with the rows to decode at once, and their bytes."""
        sizes = DecodedSizes(self._file, columns)
        run, run_rows, run_nbytes = [group], 0, 0
        for number in range(group, self._file.num_row_groups):
            rows, nbytes = self._rows_of(number), sizes.of(number)
            fits = run_nbytes + nbytes <= self._piece_nbytes and run_rows + rows <= _MOST_ROWS
            if run_rows and not fits:
                yield run, self._rows_at_once(run_rows, run_nbytes), run_nbytes
                run, run_rows, run_nbytes = [number], 0, 0
            elif number > group:
                run.append(number)
            run_rows, run_nbytes = run_rows + rows, run_nbytes + nbytes
        if run_rows:
            yield run, self._rows_at_once(run_rows, run_nbytes), run_nbytes

    def _rows_at_once(self, rows: int, nbytes: int) -> int:
        if nbytes <= self._piece_nbytes and rows <= _MOST_ROWS:
            return rows
        return _rows_at_once(nbytes, rows, self._piece_nbytes)

    def _pieces(
        self, run: list[int], rows: int, nbytes: int, columns: list[str]
    ) -> Iterator[pa.RecordBatch]:
        # Waking threads takes as long as decoding some hundred kilobytes.
        threads = self._threads and min(nbytes, self._piece_nbytes) > _SHARED_BYTES
        given = 0
        try:
            for batch in self._file.iter_batches(rows, run, columns, use_threads=threads):
                yield batch
                given += len(batch)
        except (pa.ArrowException, OSError):
            yield from self._few_at_once(run, columns, given)

    def _few_at_once(
        self, run: list[int], columns: list[str], given: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of damaged groups after those given, up to the few with the damage.

        The elements before an error thus do not depend on how much is decoded at once.
        """
        start = 0
        for group in run:
            for batch in self._file.iter_batches(_FEW_ROWS, [group], columns, use_threads=False):
                if start + len(batch) > given:
                    yield batch.slice(max(0, given - start))
                start += len(batch)

    def place(self, group: int, row: int) -> tuple[int, int]:
        """Return the group, and the row in it, of a row counted from another group."""
        while group + 1 < self._file.num_row_groups and row >= self._rows_of(group):
            group, row = group + 1, row - self._rows_of(group)
        return group, row

    def offset(self, group: int) -> int:
        """Return where a group's columns begin in the file; 0 if it has no groups."""
        if group >= self._file.num_row_groups:
            return 0
        first = self._file.metadata.row_group(group).column(0)
        return int(first.dictionary_page_offset or first.data_page_offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)

    def _rows_of(self, group: int) -> int:
        return int(self._file.metadata.row_group(group).num_rows)


class ArrowTable:
    """A file of Arrow's, whether in the file format (also called Feather) or the stream format.

    Its groups are record batches. Arguments and errors are those of ``ParquetTable``; whatever a
    damaged file makes Arrow raise is one.
    """

    def __init__(self, path: str, piece_nbytes: int = PIECE_BYTES, threads: bool = False):
        self._piece_nbytes = piece_nbytes
        self._source = _opened(path)
        start = self._source.read(len(_ARROW_MAGIC))
        self._source.seek(0)
        self._by_number = start == _ARROW_MAGIC
        open_ = ipc.open_file if self._by_number else ipc.open_stream
        with _damage_is_invalid():
            options = ipc.IpcReadOptions(use_threads=threads)
            self._reader: Any = open_(self._source, options=options)
            self.schema: pa.Schema = self._reader.schema
            str(self.schema)  # names that are no text are found here

    def batches(self, group: int, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield as ``ParquetTable.batches``; a stream is read from its start."""
        for number, batch in self._from(group):
            with _damage_is_invalid():
                chosen = batch.select(columns)
                for array in chosen.columns:
                    _as_binary(array).validate(full=True)
            width, varies = _row_width(pa.struct(list(chosen.schema)))
            nbytes = width * len(chosen) + (chosen.nbytes if varies else 0)
            rows = _rows_at_once(nbytes, len(chosen), self._piece_nbytes)
            for start in range(0, len(chosen), rows):
                yield number, chosen.slice(start, rows)

    def place(self, group: int, row: int) -> tuple[int, int]:
        """Return what ``ParquetTable.place`` does: each piece has its own group's number."""
        return group, row

    def _from(self, group: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        with _damage_is_invalid():
            count = self._reader.num_record_batches if self._by_number else None
        number = group if self._by_number else 0
        while count is None or number < count:
            with _damage_is_invalid():
                try:
                    read = self._reader
                    batch = read.read_next_batch() if count is None else read.get_batch(number)
                except StopIteration:
                    return
            if number >= group:
                yield number, batch
            number += 1

    def offset(self, group: int) -> int:
        """Return where reading stands: Arrow does not tell where a record batch begins."""
        return int(self._source.tell())

    def close(self) -> None:
        """Close the file."""
        self._source.close()


@contextlib.contextmanager
def _damage_is_invalid() -> Iterator[None]:
    """Let what Arrow raises while it reads a damaged file be ``ArrowInvalid``, whatever it is."""
    try:
        yield
    except (pa.ArrowInvalid, OSError, StopIteration):
        raise
    except Exception as error:
        raise pa.ArrowInvalid(f"{type(error).__name__}: {error}") from error


def _as_binary(array: pa.Array) -> pa.Array:
    """A column of text as one of bytes, as which it is read: it need not be UTF-8."""
    if pa.types.is_string(array.type):
        return array.view(pa.binary())
    if pa.types.is_large_string(array.type):
        return array.view(pa.large_binary())
    return array


TABLES: dict[str, type[ParquetTable] | type[ArrowTable]] = {
    "parquet": ParquetTable,
    "arrow": ArrowTable,
}


def first_schema(kind: str, path: str) -> pa.Schema:
    """Return the names and types of a file's columns.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no such file.
    """
    try:
        table = TABLES[kind](path)
    except pa.ArrowException as error:
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


def _rows_at_once(nbytes: int, rows: int, most_nbytes: int) -> int:
    """Return a power of two of rows that take about ``most_nbytes``, where all take ``nbytes``."""
    fitting = most_nbytes * max(1, rows) // max(1, nbytes)
    return 1 << (max(1, min(fitting, _MOST_ROWS)).bit_length() - 1)


def _row_width(kind: pa.DataType) -> tuple[int, bool]:
    """Return the fixed bytes of a value, and whether some vary, which become objects."""
    if isinstance(kind, pa.BaseExtensionType):
        return _row_width(kind.storage_type)
    if pa.types.is_struct(kind):
        parts = [_row_width(field.type) for field in kind]
        return sum(width for width, _ in parts), any(varies for _, varies in parts)
    if pa.types.is_fixed_size_list(kind):
        width, varies = _row_width(kind.value_type)
        return width * kind.list_size, varies
    if pa.types.is_primitive(kind):
        return max(1, kind.bit_width // 8), False
    return _OBJECT_BYTES, True
