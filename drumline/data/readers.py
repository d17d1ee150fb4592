"""Datasets of files: records, lines, comma-separated values, tar archives and ArrayRecord files.

The public functions, named as in ``tf.data`` and ``tf.data.experimental``; tar archives are grouped
into samples as WebDataset lays them out. What a format is lies in ``storage.files``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drumline.data._dataset.files import files_plan, first_path
from drumline.data.dataset import Dataset
from drumline.data.elements.spec import AUTOTUNE
from drumline.data.operations.reading.files import ArrayRecordFiles
from drumline.data.options import named
from drumline.data.plan.node import count_of
from drumline.data.storage.files.array_records import ArrayRecords
from drumline.data.storage.files.csv import CsvColumn, CsvFiles, CsvFormat, csv_columns, csv_records
from drumline.data.storage.files.records import CHUNK, FileFormat, checked_compression
from drumline.data.storage.files.remote import as_paths, matching
from drumline.data.storage.files.tar_format import KEY, MOST_BYTES, TarFormat, first_extensions

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

    Lines end with ``\n``; the last one need not. As in ``tf.data`` every ``\r`` is dropped.
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


def CsvDataset(
    filenames: Any,
    record_defaults: Sequence[Any],
    compression_type: str | None = None,
    buffer_size: int | None = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str | bytes = "",
    select_cols: Sequence[int] | None = None,
    exclude_cols: Sequence[int] | None = None,
) -> Dataset:
    """The records of files of comma-separated values, as tuples of scalars.

    Files are as RFC 4180 describes them; lines may end with ``\\n``, ``\\r\\n`` or ``\\r``, and
    numbers may have white space around them. A bad record raises in its place, and the next one
    follows.

    Args:
        filenames: a path, a list of paths, or a dataset of them, as of ``TFRecordDataset``.
        record_defaults: for each column that is read its type, if no value may be missing: a dtype
            (float32, float64, int32, int64, ``str`` or ``bytes``) or an empty array; or what stands
            for missing values, a value or an array of one.
        compression_type: ``None``, ``""``, ``"GZIP"`` or ``"ZLIB"``.
        buffer_size: how many bytes to read at once; ``None`` and 0 leave it to drumline.
        header: whether the first record of each file is passed over.
        field_delim: what separates fields, a character of one byte.
        use_quote_delim: whether fields may be quoted; otherwise quotes are characters like others.
        na_value: text that stands for a missing value, as no text does.
        select_cols: which columns are read, ascending; all unless given.
        exclude_cols: which columns are left out, ascending, instead.

    Raises:
        TypeError: a type is none of these; ``filenames`` are no paths.
        ValueError: an argument is none of these.
        CsvError: while iterating, for a bad record. It names the file, the line and the column.
        OSError: while iterating, for a file that cannot be read.
    """
    operation = "CsvDataset"
    columns = csv_columns(operation, "record_defaults", record_defaults)
    records = csv_records(
        operation, columns, field_delim, use_quote_delim, na_value, select_cols, exclude_cols
    )
    compression, chunk = reading_options(operation, compression_type, buffer_size)
    form = CsvFormat(records, bool(header), compression, chunk)
    return Dataset(*files_plan(operation, filenames, form, None, None))


_NAME = "make_csv_dataset"


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[int | str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10_000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Batches of the records of files, as ``tf.data.experimental.make_csv_dataset``.

    Args:
        file_pattern: a path or pattern, or a list of them, as of ``list_files``.
        batch_size: how many records a batch has.
        column_names: of the file's columns; found in the files' first rows unless given.
        column_defaults: types and defaults of the columns that are read, as ``record_defaults`` of
            ``CsvDataset``; types are found in the first rows unless given, and then 0 or no text
            stands for missing values.
        label_name: which column is the label.
        select_columns: which columns are read, by number or name.
        field_delim: as of ``CsvDataset``, as the next two.
        use_quote_delim: whether fields may be quoted.
        na_value: text that stands for a missing value.
        header: whether files begin with a row of names.
        num_epochs: how often the records come; endlessly unless given, and then every batch is
            full.
        shuffle: whether files and records come in a random order.
        shuffle_buffer_size: as of ``Dataset.shuffle``.
        shuffle_seed: of that order.
        prefetch_buffer_size: how many batches are made ahead; ``AUTOTUNE`` unless given.
        num_parallel_reads: how many files are read by turns.
        sloppy: is accepted; the order never depends on timing.
        num_rows_for_inference: how many rows are looked at for types; all if ``None``.
        compression_type: ``None``, ``""``, ``"GZIP"`` or ``"ZLIB"``.
        ignore_errors: whether bad records are passed over.
        encoding: of the text that names and types are found in.

    Returns:
        A dataset of dicts from names to arrays (batch,), or of pairs of such a dict and the array
        of the label.

    Raises:
        FileNotFoundError: no file matches.
        ValueError: an argument is none of these, or names and columns do not go together.
        CsvError: while iterating, as of ``CsvDataset``.
    """
    paths = matching(as_paths(file_pattern, _NAME))
    compression, chunk = reading_options(_NAME, compression_type, None)
    found = CsvFiles(_NAME, paths, field_delim, use_quote_delim, compression, encoding)
    names = _names(column_names, header, found)
    chosen = None if select_columns is None else _places(select_columns, names)
    if num_rows_for_inference is not None:
        count_of(num_rows_for_inference, _NAME, "num_rows_for_inference", least=0)
    columns = _columns(
        column_defaults, chosen, names, found, na_value, header, num_rows_for_inference
    )
    kept = names if chosen is None else [names[place] for place in chosen]
    if label_name is not None and label_name not in kept:
        raise ValueError(f"{_NAME}: label_name {label_name!r} is none of the columns {kept}")
    records = csv_records(_NAME, columns, field_delim, use_quote_delim, na_value, chosen)
    form = CsvFormat(records, bool(header), compression, chunk, tuple(names))

    files = Dataset.from_tensor_slices(paths)
    if shuffle:
        files = files.shuffle(len(paths), shuffle_seed)
    at_once = None if num_parallel_reads == 1 else num_parallel_reads
    rows = Dataset(*files_plan(_NAME, files, form, at_once, None))
    if ignore_errors:
        rows = rows.ignore_errors()
    if shuffle:
        # Reading continues in a thread of its own while rows are shuffled and batched.
        rows = rows.prefetch(AUTOTUNE).shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        rows = rows.repeat(num_epochs)
    batches = rows.batch(batch_size, drop_remainder=num_epochs is None)

    def features(*values: Any) -> Any:
        named = dict(zip(kept, values, strict=True))
        return named if label_name is None else (named, named.pop(label_name))

    return batches.map(features).prefetch(
        AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size
    )


def _names(given: Sequence[str] | None, header: bool, files: CsvFiles) -> list[str]:
    if given is None and not header:
        raise ValueError(f"{_NAME}: give column_names for files without a header")
    names = files.names() if given is None else list(given)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{_NAME}: columns have the same name: {', '.join(twice)}")
    return names


def _places(chosen: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """The columns' numbers, ascending."""
    places = []
    for column in chosen:
        if isinstance(column, str):
            if column not in names:
                raise ValueError(f"{_NAME}: select_columns: {column!r} is none of {list(names)}")
            places.append(names.index(column))
        elif 0 <= column < len(names):
            places.append(int(column))
        else:
            raise ValueError(
                f"{_NAME}: select_columns: there is no column {column}, there are {len(names)}"
            )
    if len(set(places)) < len(places):
        raise ValueError(f"{_NAME}: select_columns has a column twice: {list(chosen)}")
    return sorted(places)


def _columns(
    given: Sequence[Any] | None,
    chosen: Sequence[int] | None,
    names: Sequence[str],
    files: CsvFiles,
    missing: str,
    header: bool,
    most: int | None,
) -> tuple[CsvColumn, ...]:
    if given is None:
        return files.columns(len(names), chosen, missing, header, most)
    wanted = len(names) if chosen is None else len(chosen)
    if len(given) != wanted:
        raise ValueError(
            f"{_NAME}: there are {len(given)} column_defaults for {wanted} columns that are read"
        )
    return csv_columns(_NAME, "column_defaults", given)


_COMPRESSIONS = (None, "", "GZIP")


def TarDataset(
    filenames: Any,
    extensions: Sequence[str] | None = None,
    default_values: Mapping[str, bytes] | None = None,
    compression_type: str | None = None,
    max_bytes: int = MOST_BYTES,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """The samples of tar archives: dicts of extension to ``bytes``, with the ``__key__``.

    Members that follow one another and have the same path up to the first dot of the file's name
    are a sample, as in WebDataset: ``a/7.jpg`` and ``a/7.meta.json`` are the sample with the
    ``__key__`` ``a/7``, ``jpg`` and ``meta.json``. Extensions are in lower case. Members without a
    dot, hidden files, folders and links are passed over.

    Archives are read from start to end; an iterator's ``restore`` seeks in those that are not
    compressed. A sample that lacks an extension, or has one twice, raises in its place and the
    next one follows; so does what is damaged or cut off, and the next file follows.

    Args:
        filenames: as of ``TFRecordDataset``.
        extensions: what to read, in the order of the dicts; other members are passed over. Unless
            given, those of the first sample of the first archive, and others are errors.
        default_values: by extension, what stands for one that a sample lacks.
        compression_type: ``None``, ``""`` or ``"GZIP"``; ``None`` takes ``"GZIP"`` for names of the
            first archive that end in ``.gz`` or ``.tgz``.
        max_bytes: the most bytes a sample may have.
        num_parallel_reads: as of ``TFRecordDataset``.
        name: shown by ``explain()``.

    Raises:
        TypeError: ``filenames`` are no paths.
        ValueError: an argument is out of range, or the first archive has no sample.
        OSError: extensions are not given, and the first archive cannot be opened.
    """
    operation = "TarDataset"
    if compression_type not in _COMPRESSIONS:
        raise ValueError(
            f"{operation}: compression_type must be None, '' or 'GZIP', got {compression_type!r}"
        )
    most = count_of(max_bytes, operation, "max_bytes", least=1)
    compression = _compression(operation, filenames, compression_type)
    chosen = (
        first_extensions(first_path(operation, filenames), compression)
        if extensions is None
        else tuple(extension.lower() for extension in extensions)
    )
    defaults = {key.lower(): bytes(value) for key, value in (default_values or {}).items()}
    _check(operation, chosen, defaults)
    form = TarFormat(
        chosen,
        tuple(defaults.get(extension) for extension in chosen),
        extensions is not None,
        compression,
        most,
    )
    return Dataset(*files_plan(operation, filenames, form, num_parallel_reads, name))


def _compression(operation: str, filenames: Any, given: str | None) -> str:
    if given is not None:
        return given
    return "GZIP" if first_path(operation, filenames).endswith((".gz", ".tgz")) else ""


def _check(operation: str, chosen: Sequence[str], defaults: Mapping[str, bytes]) -> None:
    if len(set(chosen)) < len(chosen) or KEY in chosen:
        raise ValueError(f"{operation}: extensions must differ, and from {KEY!r}: {list(chosen)}")
    unknown = sorted(set(defaults) - set(chosen))
    if unknown:
        raise ValueError(
            f"{operation}: default_values names {unknown}, but the extensions are {list(chosen)}"
        )


def ArrayRecordDataset(filenames: Any, name: str | None = None) -> Dataset:
    """The records of ArrayRecord files (https://github.com/google/array_record), as ``bytes``.

    They can be reached by position: ``len``, ``index(i)`` and ``shuffle(dl.data.GLOBAL)`` work,
    ``skip`` and ``shard`` read nothing they leave out, and restoring an iterator takes no time.
    Files written with ``group_size:1`` are quickest. A damaged record raises in its place.

    Args:
        filenames: a local path or a list of them.
        name: shown by ``explain()``.

    Raises:
        ImportError: the package ``array_record`` is not installed.
        OSError: a file cannot be opened.
        DataLossError: a file is no ArrayRecord file, or was cut off.
    """
    records = ArrayRecords(as_paths(filenames, "ArrayRecordDataset"))
    return Dataset(named(ArrayRecordFiles((), records), name))
