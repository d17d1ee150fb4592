"""Methods that make datasets of what other libraries hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from drumline.data import construct
from drumline.data.arrow_columns import arrow_columns
from drumline.data.files.table_format import table_format
from drumline.data.files.tables import first_schema
from drumline.data.methods.planned import Planned, named
from drumline.data.methods.reading import files_plan, first_path


class Importing(Planned):
    """Constructors over other libraries' tables and datasets."""

    @classmethod
    def from_arrow(cls, table: Any, name: str | None = None) -> Self:
        """Elements are the rows of a table: dicts by column name.

        Numbers are not copied where the table holds a column in one piece. Strings become
        ``bytes``, dictionary columns their values, lists of one length arrays, lists of various
        lengths rows of a ``RaggedArray``, structs dicts.

        Args:
            table: a ``pyarrow.Table`` (as in a Hugging Face dataset's ``data.table``), or anything
                with ``__arrow_c_stream__``: a data frame of pandas (2.2 or later) or Polars, a
                DuckDB relation, a ``RecordBatchReader``.
            name: shown by ``explain()``.

        Raises:
            TypeError: it is no table, or a column's type (a timestamp, a decimal) is none of these.
            ValueError: a column has nulls.
        """
        return cls(named(construct.slices(arrow_columns(table)), name))

    @classmethod
    def from_parquet(
        cls,
        filenames: Any,
        columns: Sequence[str] | None = None,
        default_values: Mapping[str, Any] | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Elements are the rows of Parquet files: dicts by column name, as of ``from_arrow``.

        Files are read a piece at a time, of about 8 MB or less where several are read by turns or
        ``autotune.ram_budget`` is small: part of a row group, or several small ones. Arrow's
        threads share the columns of a piece, unless ``autotune.cpu_budget`` is given. An iterator's
        ``restore`` goes to the row group at once. A file that cannot be read, or has other types
        than the first, raises in its place; the next file follows. So does a row with a null; the
        next row follows.

        Args:
            filenames: a path, a list of paths, or a dataset of them; paths may have a scheme, as
                those of ``TFRecordDataset``. The first file must be there: it tells the columns.
            columns: names of those to read, in the order of the dicts; all unless given.
            default_values: by column, what stands for a null.
            num_parallel_reads: as of ``TFRecordDataset``.
            name: shown by ``explain()``.

        Raises:
            OSError: the first file cannot be opened.
            ValueError: it is no Parquet file, or lacks a column; a default does not fit its column.
            TypeError: a column's type (a timestamp, a decimal) is none of a dataset.
        """
        given = (columns, default_values)
        return cls._from_tables(
            "from_parquet", "parquet", filenames, given, num_parallel_reads, name
        )

    @classmethod
    def from_arrow_ipc(
        cls,
        filenames: Any,
        columns: Sequence[str] | None = None,
        default_values: Mapping[str, Any] | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Elements are the rows of files in Arrow's formats: file (Feather) and stream.

        As ``from_parquet``, with record batches in the place of row groups, which are read whole,
        as large as they were written (by ``max_chunksize`` of pyarrow's writers). A stream is read
        again up to the batch when an iterator is restored.
        """
        given = (columns, default_values)
        return cls._from_tables(
            "from_arrow_ipc", "arrow", filenames, given, num_parallel_reads, name
        )

    @classmethod
    def _from_tables(
        cls,
        operation: str,
        kind: Literal["parquet", "arrow"],
        filenames: Any,
        given: tuple[Sequence[str] | None, Mapping[str, Any] | None],
        parallel: int | None,
        name: str | None,
    ) -> Self:
        form = table_format(
            operation, kind, first_schema(kind, first_path(operation, filenames)), *given
        )
        return cls(*files_plan(operation, filenames, form, parallel, name))

    @classmethod
    def from_sequence(
        cls, sequence: Sequence[Any], output_signature: Any = None, name: str | None = None
    ) -> Self:
        """Elements are ``sequence[0]`` to ``sequence[len(sequence) - 1]``, made when asked for.

        Anything with ``len`` and integer indices: lists, map-style datasets of torch, datasets of
        Hugging Face, Grain's data sources. ``__getitems__`` is used where it is there. As access is
        random, a ``shuffle`` permutes positions, ``skip`` and ``shard`` read nothing they leave
        out, and restoring an iterator takes no time. One thread at a time asks the sequence, and
        it must give the same element for the same index each time.

        Args:
            sequence: as above.
            output_signature: a nested structure of ``TensorSpec``; by default that of the first
                item, which then must fit all others.
            name: shown by ``explain()``.

        Raises:
            TypeError: it has no length or no indices.
            ValueError: it is empty and there is no ``output_signature``. An item of other shapes or
                dtypes raises when it is its turn, with its index.
        """
        return cls(named(construct.items(sequence, output_signature), name))
