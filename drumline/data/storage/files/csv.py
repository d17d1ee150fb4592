"""Files of comma-separated values: their header, the types of their columns, how they are read."""

from __future__ import annotations

import csv
import dataclasses
import functools
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, ClassVar

import numpy as np

from drumline._core import CsvLayout, numbers_of_strings
from drumline._local_path import has_scheme
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, as_array, as_dtype, flatten
from drumline.data.storage.files.records import CHUNK
from drumline.data.storage.files.remote import file_system

DTYPES = ("float32", "float64", "int32", "int64", "string")

Default = int | float | bytes


@dataclasses.dataclass(frozen=True)
class CsvColumn:
    """Attributes:
    dtype: one of ``DTYPES``.
    default: what stands for a missing value; ``None`` if none may be missing.
    """

    dtype: str
    default: Default | None

    @property
    def spec(self) -> TensorSpec:
        """The spec of a value."""
        return TensorSpec((), STRING if self.dtype == "string" else self.dtype)

    def __str__(self) -> str:
        return self.dtype if self.default is None else f"{self.dtype} or {self.default!r}"


def csv_columns(operation: str, argument: str, given: Sequence[Any]) -> tuple[CsvColumn, ...]:
    """Return the columns that ``record_defaults`` stand for.

    Args:
        operation: the caller's, for errors.
        argument: the name of the argument, for errors.
        given: for each column a dtype, or an array without or with one value, or a value.

    Raises:
        TypeError: one is none of these.
        ValueError: an array has more values, or there are no columns.
    """
    if not len(given):
        raise ValueError(f"{operation}: {argument} must have at least one column")
    return tuple(_column(f"{operation}: {argument}[{i}]", item) for i, item in enumerate(given))


def _column(where: str, given: Any) -> CsvColumn:
    if isinstance(given, type | np.dtype) or (hasattr(given, "dtype") and callable(given)):
        return CsvColumn(_name(where, as_dtype(given)), None)
    array = as_array(given)
    if array.size > 1:
        raise ValueError(f"{where}: one default at most, got {given!r:.60}")
    name = _name(where, array.dtype)
    return (
        CsvColumn(name, array.reshape(-1)[0] if name == "string" else array.item())
        if (array.size)
        else CsvColumn(name, None)
    )


def _name(where: str, dtype: np.dtype) -> str:
    name = "string" if dtype == STRING else dtype.name
    if name not in DTYPES:
        raise TypeError(f"{where}: columns are {', '.join(DTYPES)}, not {name}")
    return name


@dataclasses.dataclass(frozen=True)
class CsvRecords:
    """How records are written and what is read of them.

    Attributes:
        columns: those that are read.
        delimiter: what separates fields, a character of one byte.
        quotes: whether fields may be quoted.
        missing: text that stands for a missing value, as no text does.
        only: where these columns are, ascending, if not everywhere.
        without: which columns are left out, ascending, if some are.
    """

    columns: tuple[CsvColumn, ...]
    delimiter: str = ","
    quotes: bool = True
    missing: bytes = b""
    only: tuple[int, ...] | None = None
    without: tuple[int, ...] | None = None

    @functools.cached_property
    def layout(self) -> CsvLayout:
        """The format as the Rust core takes it."""
        return CsvLayout(
            [(column.dtype, column.default) for column in self.columns],
            ord(self.delimiter),
            self.quotes,
            self.missing,
            None if self.only is None else list(self.only),
            None if self.without is None else list(self.without),
        )

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return type(self), tuple(values)


@dataclasses.dataclass(frozen=True)
class CsvFormat:
    """How to read a file of such records.

    Attributes:
        records: how they are written.
        header: whether the first is a header, which is passed over.
        compression: one of ``COMPRESSIONS``.
        chunk: how many bytes to read at once.
        names: of the file's columns, for errors, if they are known.
    """

    records: CsvRecords
    header: bool = False
    compression: str = ""
    chunk: int = CHUNK
    names: tuple[str, ...] | None = None
    kind: ClassVar[str] = "csv"

    @property
    def spec(self) -> ElementSpec:
        columns = self.records.columns
        _, structure = flatten((0,) * len(columns))
        return ElementSpec(structure, tuple(column.spec for column in columns))

    def label(self, column: int) -> str:
        """Return a column of the file in a message."""
        named = self.names is not None and column < len(self.names)
        name = f" ({self.names[column]!r})" if named and self.names is not None else ""
        return f"column {column + 1}{name}"

    def __str__(self) -> str:
        records = self.records
        parts = [", ".join(map(str, records.columns))]
        chosen = records.only if records.only is not None else records.without
        if chosen is not None:
            parts.append(f"{'of' if records.only is not None else 'without'} {list(chosen)}")
        if records.delimiter != ",":
            parts.append(f"separated by {records.delimiter!r}")
        if not records.quotes:
            parts.append("no quotes")
        if records.missing:
            parts.append(f"{records.missing!r} is missing")
        if self.header:
            parts.append("after a header")
        if self.compression:
            parts.append(self.compression)
        return f"csv[{'; '.join(parts)}]"


def csv_records(
    operation: str,
    columns: tuple[CsvColumn, ...],
    field_delim: str,
    use_quote_delim: bool,
    na_value: str | bytes,
    only: Sequence[int] | None,
    without: Sequence[int] | None = None,
) -> CsvRecords:
    """Return the format that these arguments of ``operation`` describe.

    Raises:
        ValueError: the delimiter is not one byte, or columns to read are not as many as there are
            types, not ascending, or both chosen and left out.
    """
    if len(field_delim.encode()) != 1 or field_delim in '\n\r"':
        raise ValueError(
            f"{operation}: field_delim must be one character of one byte, and neither a quote nor "
            f"a line break; got {field_delim!r}"
        )
    if only is not None and without is not None:
        raise ValueError(f"{operation}: at most one of select_cols and exclude_cols may be given")
    if only is not None and len(only) != len(columns):
        raise ValueError(
            f"{operation}: select_cols has {len(only)} columns, and there are {len(columns)} "
            "record_defaults: there must be one for each"
        )
    for name, chosen in (("select_cols", only), ("exclude_cols", without)):
        if chosen is not None and (any(c < 0 for c in chosen) or list(chosen) != sorted({*chosen})):
            raise ValueError(
                f"{operation}: {name} must be ascending numbers of columns, each once; got "
                f"{list(chosen)}"
            )
    return CsvRecords(
        columns,
        field_delim,
        bool(use_quote_delim),
        na_value.encode() if isinstance(na_value, str) else na_value,
        None if only is None else tuple(only),
        None if without is None else tuple(without),
    )


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
        """Return the names in the first row, the same in all files.

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
        """Return types for columns, by the first rows; 0 or no text stands for missing values.

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
    """Return the first type that takes this text and what was seen before."""
    if text in ("", missing):
        return kind
    first = 0 if kind is None else (*_NUMBERS, "string").index(kind)
    return next((k for k in _NUMBERS[first:] if _is_number(text, k)), "string")


def _is_number(text: str, kind: str) -> bool:
    column = np.empty(1, object)
    column[0] = text.encode()
    numbers, bad = numbers_of_strings(column, kind)
    return bad is None and bool(numbers[0] < np.inf)
