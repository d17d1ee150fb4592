"""How files of comma-separated values are read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import ClassVar

from drumline._core import CsvLayout
from drumline.data.elements.spec import ElementSpec
from drumline.data.elements.structure import flatten
from drumline.data.files.csv_columns import CsvColumn
from drumline.data.files.file_format import CHUNK


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
        """As the core takes it."""
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
        """A column of the file in a message."""
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
    """The format that these arguments of ``operation`` describe.

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
