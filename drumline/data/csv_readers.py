"""Datasets of files of comma-separated values, as ``tf.data.experimental`` names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data._dataset.files import files_plan
from drumline.data.dataset import Dataset
from drumline.data.files.csv import CsvFormat, csv_columns, csv_records
from drumline.data.readers import reading_options


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
