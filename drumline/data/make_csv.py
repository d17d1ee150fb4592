"""Batches of files of comma-separated values, with names and types found in the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data._dataset.files import files_plan
from drumline.data.dataset import Dataset
from drumline.data.elements.spec import AUTOTUNE
from drumline.data.files.csv import CsvColumn, CsvFiles, CsvFormat, csv_columns, csv_records
from drumline.data.files.remote import as_paths, matching
from drumline.data.plan.arguments import count_of
from drumline.data.readers import reading_options

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
        # Reading goes on in a thread of its own while rows are shuffled and batched.
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
