"""How files of tables are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from drumline.data._dataset import sources
from drumline.data.elements.arrow import arrow_columns
from drumline.data.elements.spec import ElementSpec


@dataclasses.dataclass(frozen=True, eq=False)
class TableFormat:
    """How to read a file of rows.

    Attributes:
        kind: Parquet, or Arrow's own format (file or stream).
        schema: names and types of the columns to read, in the order of elements.
        defaults: what stands for a null, a scalar for each column that has such.
        spec: of the rows.
    """

    kind: Literal["parquet", "arrow"]
    schema: pa.Schema
    defaults: Mapping[str, pa.Scalar]
    spec: ElementSpec

    @property
    def columns(self) -> list[str]:
        """Names of the columns to read."""
        return list(self.schema.names)

    def __str__(self) -> str:
        fields = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        filled = "".join(f", {name} or {value}" for name, value in self.defaults.items())
        return f"{self.kind}[{fields}{filled}]"


def table_format(
    operation: str,
    kind: Literal["parquet", "arrow"],
    schema: pa.Schema,
    columns: Sequence[str] | None,
    default_values: Mapping[str, Any] | None,
) -> TableFormat:
    """The format of files whose first has this schema.

    Raises:
        ValueError: a column is not there, or comes twice; there are none; a default does not fit.
        TypeError: a column's type is none of a dataset.
    """
    names = list(schema.names) if columns is None else list(columns)
    defaults = dict(default_values or {})
    lacking = sorted({*names, *defaults} - set(schema.names))
    if lacking:
        raise ValueError(
            f"{operation}: no column {', '.join(map(repr, lacking))}; the first file has "
            f"{', '.join(map(repr, schema.names))}"
        )
    if len(set(names)) < len(names) or any(len(schema.get_all_field_indices(n)) > 1 for n in names):
        raise ValueError(f"{operation}: a column comes twice in {names}")
    chosen = pa.schema([schema.field(name) for name in names])
    filled = {
        name: _scalar(operation, chosen.field(name), value)
        for name, value in defaults.items()
        if name in names
    }
    plain = arrow_columns(chosen.empty_table(), operation)
    return TableFormat(kind, chosen, filled, sources.slices(plain).element)


def _scalar(operation: str, field: pa.Field, value: Any) -> pa.Scalar:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{operation}: default_values[{field.name!r}] is {value!r}, which no {kind} can be: "
            f"{error}"
        ) from None
