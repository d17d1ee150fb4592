"""Records of comma-separated values that are strings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.elements.structure import flatten
from drumline.data.files.csv import CsvRecords, csv_columns, csv_records
from drumline.data.native.apply import apply
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_elementwise import failure
from drumline.data.native.string_specs import require_strings, with_dtype


@dataclasses.dataclass(frozen=True)
class DecodeCsv(NativeOperation):
    """A value of each column for each record."""

    records: CsvRecords

    @property
    def name(self) -> str:
        return "io.decode_csv"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        _, structure = flatten([0] * len(self.records.columns))
        leaves = (with_dtype(strings, column.spec.dtype) for column in self.records.columns)
        return ElementSpec(structure, tuple(leaves))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        given = flat(columns[0])
        values, wrong = self.records.layout.decode(given.values)
        if wrong is None:
            return Rows([given.put(column) for column in values])
        record, reason, column = wrong
        before = given.head(given.row_of(record))
        kept = len(before.values)
        where = "" if column is None else f"column {column + 1}: "
        made = [before.put(part[:kept]) for part in values]
        return Rows(made, failure(self.name, f"{where}{reason}: {_shown(given.values[record])}"))


def _shown(record: bytes) -> str:
    return repr(record if len(record) <= 200 else record[:197] + b"...")


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Any]:
    """The fields of records of comma-separated values, as ``tf.io.decode_csv``.

    Args:
        records: a record, or an array of records of any shape. A record has no line break, but in
            quotes; there may be some in front of fields.
        record_defaults: as of ``dl.data.experimental.CsvDataset``, as the other arguments.
        field_delim: what separates fields, a character of one byte.
        use_quote_delim: whether fields may be quoted.
        na_value: text that stands for a missing value, as no text does.
        select_cols: which columns are read, ascending; all unless given.

    Returns:
        An array for each column that is read, in the shape of ``records``.

    Raises:
        ValueError: a record is bad; an argument is none of these.
        TypeError: ``records`` holds no strings, or a type is none of these.
    """
    operation = "io.decode_csv"
    columns = csv_columns(operation, "record_defaults", record_defaults)
    form = csv_records(operation, columns, field_delim, use_quote_delim, na_value, select_cols)
    made: list[Any] = apply(DecodeCsv(form), records)
    return made
