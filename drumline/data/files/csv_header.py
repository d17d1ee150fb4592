"""What files of comma-separated values tell of their columns."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from drumline._core import numbers_of_strings
from drumline._local_path import has_scheme
from drumline.data.files.csv_columns import CsvColumn
from drumline.data.files.remote import file_system

_UNREADABLE = (csv.Error, UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error)
_NUMBERS = ("int32", "int64", "float32", "float64")


class CsvFiles:
    """Rows of files, as Python's ``csv`` reads them.

    Args:
        operation: the caller's, for errors.
        paths: of the files, at least one.
        delimiter: what separates fields.
        quotes: whether fields may be quoted.
        compression: of the files; that of ZLIB is refused when they are read.
        encoding: of the text.
    """

    def __init__(
        self,
        operation: str,
        paths: Sequence[str],
        delimiter: str,
        quotes: bool,
        compression: str,
        encoding: str,
    ):
        self._operation = operation
        self._paths = paths
        self._compression = compression
        self._encoding = encoding
        self._how: dict[str, Any] = {
            "delimiter": delimiter,
            "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        }

    def names(self) -> list[str]:
        """The names in the first row, the same in all files.

        Raises:
            ValueError: a file is empty or damaged, or has other names.
        """
        found: list[str] | None = None
        for path in self._paths:
            with self._rows(path) as rows:
                names = next(rows, None)
            if not names:
                raise ValueError(f"{self._operation}: {path} has no header: its first row is empty")
            if found is not None and names != found:
                raise ValueError(
                    f"{self._operation}: {path} has columns {names}, {self._paths[0]} has {found}: "
                    "files of one dataset have the same columns"
                )
            found = names
        return found or []

    def columns(
        self,
        width: int,
        chosen: Sequence[int] | None,
        missing: str,
        header: bool,
        most: int | None,
    ) -> tuple[CsvColumn, ...]:
        """Types for columns, by the first rows; 0 or no text stands for missing values.

        Args:
            width: how many columns there are.
            chosen: which to look at; all unless given.
            missing: text that stands for a missing value.
            header: whether the first row of each file is none.
            most: how many rows to look at; all unless given.

        Raises:
            ValueError: a row has another number of fields, or a file is damaged.
        """
        places = range(width) if chosen is None else chosen
        found: list[str | None] = [None] * len(places)
        for row in itertools.islice(self._data(width, header), most):
            for i, place in enumerate(places):
                found[i] = _wider(found[i], row[place], missing)
        kinds = (kind or "string" for kind in found)
        return tuple(CsvColumn(kind, b"" if kind == "string" else 0) for kind in kinds)

    def _data(self, width: int, header: bool) -> Iterator[list[str]]:
        for path in self._paths:
            with self._rows(path) as rows:
                for number, row in enumerate(rows, 1):
                    if header and number == 1:
                        continue
                    if len(row) != width:
                        raise ValueError(
                            f"{self._operation}: row {number} of {path} has {len(row)} fields, "
                            f"there are {width} columns; pass column_defaults, or mend the file"
                        )
                    yield row

    @contextmanager
    def _rows(self, path: str) -> Iterator[Iterator[list[str]]]:
        with _opened(path) as file, self._text(file) as text:
            rows = csv.reader(text, **self._how)
            try:
                yield rows
            except _UNREADABLE as error:
                raise ValueError(
                    f"{self._operation}: {path}, in or after line {max(rows.line_num, 1)}: "
                    f"{error}; pass column_names and column_defaults, or mend the file"
                ) from error

    def _text(self, file: IO[bytes]) -> IO[str]:
        if self._compression == "ZLIB":
            raise ValueError(
                f"{self._operation}: columns are not found in files compressed by ZLIB; pass "
                "column_names and column_defaults"
            )
        plain: Any = gzip.GzipFile(fileobj=file) if self._compression else file
        return io.TextIOWrapper(plain, self._encoding, newline="")


def _opened(path: str) -> IO[bytes]:
    if not has_scheme(path):
        return open(path, "rb")
    system, inner = file_system(path)
    opened: IO[bytes] = system.open(inner, "rb")
    return opened


def _wider(kind: str | None, text: str, missing: str) -> str | None:
    """The first type that takes this text and what was seen before."""
    if text in ("", missing):
        return kind
    first = 0 if kind is None else (*_NUMBERS, "string").index(kind)
    return next((k for k in _NUMBERS[first:] if _is_number(text, k)), "string")


def _is_number(text: str, kind: str) -> bool:
    column = np.empty(1, object)
    column[0] = text.encode()
    numbers, bad = numbers_of_strings(column, kind)
    return bad is None and bool(numbers[0] < np.inf)
