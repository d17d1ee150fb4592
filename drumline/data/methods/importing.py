"""Methods that make datasets of what other libraries hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from drumline.data import construct
from drumline.data.arrow_columns import arrow_columns
from drumline.data.files.table_format import table_format
from drumline.data.files.tables import first_schema
from drumline.data.huggingface import huggingface, is_huggingface
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
            table: a ``pyarrow.Table``, or anything with ``__arrow_c_stream__``: a data frame of
                pandas (2.2 or later) or Polars, a DuckDB relation, a ``RecordBatchReader``. A
                dataset of Hugging Face is read as by ``from_huggingface``.
            name: shown by ``explain()``.

        Raises:
            TypeError: it is no table, or a column's type (a timestamp, a decimal) is none of these.
            ValueError: a column has nulls.
        """
        if is_huggingface(table):
            return cls(named(huggingface(table, None, "from_arrow"), name))
        return cls(named(construct.slices(arrow_columns(table)), name))

    @classmethod
    def from_huggingface(
        cls, dataset: Any, output_signature: Any = None, name: str | None = None
    ) -> Self:
        """Elements are the rows of a dataset of Hugging Face's package ``datasets``.

        Rows are read through the dataset's indices, so that the parts of ``train_test_split``, and
        what ``select``, ``shuffle`` and ``filter`` leave, are the rows that indexing gives. (The
        Arrow table below, ``dataset.data.table``, holds all of them.) Elements are dicts of the
        features' dtypes: strings are ``bytes``, a ``ClassLabel`` int64, ``Array2D`` and lists of
        one length arrays, lists of various lengths ragged, structs dicts, lists of structs dicts of
        lists. An ``Image`` is decoded to uint8 (height, width, channels), of the first image's
        channels: ``datasets.Image(mode="RGB")`` makes all alike. Files that the dataset does not
        decode (``Image(decode=False)``, ``Audio(decode=False)``) are dicts of ``bytes`` and
        ``path``, empty where there is none.

        A ``Dataset`` has random access: ``shuffle`` and ``shuffle(GLOBAL)`` permute positions, and
        restoring takes no time. Up to 64 MB become arrays in memory; more is read a block at a
        time, by one thread. An ``IterableDataset`` is read as ``from_generator`` reads, from its
        beginning in each epoch.

        Of a format (``with_format``, ``set_format``) the columns count; the dtypes are the
        features'. With a transform, or a format with options (``dtype=...``), elements are what
        indexing gives, as in ``from_sequence``.

        Args:
            dataset: a ``Dataset`` or ``IterableDataset``; of a ``DatasetDict`` one split.
            output_signature: a nested structure of ``TensorSpec`` that all rows fit, for instance
                for the size of images; by default it follows from the features.
            name: shown by ``explain()``.

        Raises:
            TypeError: it is no such dataset, or a feature is not decoded to an array (``Audio``,
                ``Video``); the message says how to give it.
            ValueError: a column has nulls, or a stream's features are not known.

        Example::

            split = datasets.load_dataset("ag_news", split="train").train_test_split(0.1, seed=1)
            train = dl.data.Dataset.from_huggingface(split["train"]).shuffle(100_000)
        """
        return cls(named(huggingface(dataset, output_signature, "from_huggingface"), name))

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

        Anything with ``len`` and integer indices: lists, map-style datasets of torch, Grain's data
        sources (datasets of Hugging Face have ``from_huggingface``). ``__getitems__`` is used where
        it is there. As access is random, a ``shuffle`` permutes positions, ``skip`` and ``shard``
        read nothing they leave out, and restoring an iterator takes no time. One thread at a time
        asks the sequence, and it must give the same element for the same index each time.

        Args:
            sequence: as above.
            output_signature: a nested structure of ``TensorSpec``; by default that of all
                items of a list or tuple, with ``None`` where their shapes differ, and else that of
                the first item, which then must fit all others.
            name: shown by ``explain()``.

        Raises:
            TypeError: it has no length or no indices.
            ValueError: it is empty and there is no ``output_signature``. An item of other shapes or
                dtypes raises when it is its turn, with its index.
        """
        return cls(named(construct.items(sequence, output_signature), name))
