"""The rows of files of tables: Parquet, Arrow and Feather."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from drumline._lazy import pa
from drumline._local_path import has_scheme
from drumline.data.elements.arrow import arrow_columns, filled, may_have_nulls, null_rows
from drumline.data.elements.block import Block
from drumline.data.elements.errors import DataLossError, at_element
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import ElementSpec
from drumline.data.operations.reading import constructors
from drumline.data.runtime.stage import Stage, State, ragged_rows
from drumline.data.storage.files.tables import (
    COLUMN_BYTES,
    PIECE_BYTES,
    TABLES,
    ArrowTable,
    ParquetTable,
)


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
    """Return the format of files whose first has this schema.

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
    plain = arrow_columns(_empty_table(operation, chosen), operation)
    return TableFormat(kind, chosen, filled, constructors.slices(plain).element)


def _empty_table(operation: str, schema: pa.Schema) -> pa.Table:
    for field in schema:
        try:
            pa.array([], field.type)
        except pa.ArrowNotImplementedError:  # a union
            raise TypeError(
                f"{operation}: column {field.name!r} has type {field.type}, which no dataset "
                "column has: leave it out by columns="
            ) from None
    return schema.empty_table()


def _scalar(operation: str, field: pa.Field, value: Any) -> pa.Scalar:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{operation}: default_values[{field.name!r}] is {value!r}, which no {kind} can be: "
            f"{error}"
        ) from None


_NO_ROWS = np.empty(0, np.int64)


class TableStage(Stage):
    """Reads a file in order, a piece at a time: part of a row group, or several small ones.

    A row with a null is an error in its place; what cannot be read is one too, and the last
    element. The state is a group, the row counted from there and the row in the file: restoring
    decodes the group that row is in again up to it.

    Args:
        path: of the file.
        form: how to read it.
        piece_nbytes: how much to decode at once, about.
        threads: whether Arrow's threads may share the columns among them.
    """

    def __init__(
        self, path: str, form: TableFormat, piece_nbytes: int = PIECE_BYTES, threads: bool = False
    ):
        self.path = path
        self.form = form
        self._how = (piece_nbytes, threads)
        self.ragged = ragged_rows(form.spec)
        self._table: ParquetTable | ArrowTable | None = None
        self._batches: Iterator[tuple[int, pa.RecordBatch]] = iter(())
        self._held: deque[Block] = deque()
        self._group = 0
        self._row = 0
        self._number = 0
        self._ended = False
        self._piece_nbytes = 0

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        try:
            while not self._held:
                if self._table is None:
                    self._open()
                piece = next(self._batches, None)
                if piece is None:
                    self._end()
                    return None
                self._hold(*piece)
        except Exception as error:
            return self._failed(error)
        return self._taken(limit)

    def _open(self) -> None:
        table = self._table = TABLES[self.form.kind](self.path, *self._how)
        for field in self.form.schema:
            if field.name not in table.schema.names:
                raise ValueError(
                    f"no column {field.name!r}: there are {', '.join(table.schema.names)}"
                )
            found = table.schema.field(field.name).type
            if found != field.type:
                raise ValueError(
                    f"column {field.name!r} has type {found}; in the first file it has {field.type}"
                )
        self._group, self._row = table.place(self._group, self._row)
        self._batches = self._from(table, self._group, self._row)

    def _from(
        self, table: ParquetTable | ArrowTable, group: int, row: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        for number, batch in table.batches(group, self.form.columns):
            skipped = min(row, len(batch)) if number == group else 0
            row -= skipped
            if skipped < len(batch):
                yield number, batch.slice(skipped)

    def _hold(self, group: int, batch: pa.RecordBatch) -> None:
        if group != self._group:
            self._group, self._row = group, 0
        # A slice of a record batch of Arrow's format keeps all of it.
        self._piece_nbytes = int(batch.get_total_buffer_size())
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, value in self.form.defaults.items():
            arrays[name] = filled(arrays[name], value)
        nulls = {name: null_rows(array) for name, array in arrays.items() if may_have_nulls(array)}
        table = pa.table(arrays)
        bad = np.flatnonzero(np.logical_or.reduce(list(nulls.values()))) if nulls else _NO_ROWS
        start = 0
        for row in [*bad.tolist(), len(table)]:
            if row > start:
                part = constructors.slices(arrow_columns(table.slice(start, row - start)))
                self._held.append(Block(part.columns, row - start))
            if row < len(table):
                names = [name for name, mask in nulls.items() if mask[row]]
                self._held.append(Block(self._none(), 0, self._null(names, row)))
            start = row + 1

    def _null(self, names: list[str], row: int) -> Exception:
        columns = ", ".join(map(repr, names))
        error = ValueError(
            f"{self.path}: row {self._number + row} has a null in column {columns}, and a dataset "
            f"has none: give default_values={{{names[0]!r}: ...}} for columns that are null "
            "themselves, leave the column out by columns=, or the row by ignore_errors()"
        )
        return at_element(error, self._number + row, self._where())

    def _taken(self, limit: int) -> Block:
        block = self._held.popleft()
        if block.events > limit:
            self._held.appendleft(block.slice(limit, block.events))
            block = block.slice(0, limit)
        self._row += block.events
        self._number += block.events
        return block

    def _failed(self, error: Exception) -> Block:
        cut_off = type(error) is OSError and error.errno is None and not has_scheme(self.path)
        if cut_off or isinstance(error, pa.ArrowException) or type(error) is ValueError:
            offset = 0
            if self._table is not None:
                offset = self._table.offset(self._table.place(self._group, self._row)[0])
            error = DataLossError(str(error), self.path, offset, self._number)
        self._end()
        return Block(self._none(), 0, at_element(error, self._number, self._where()))

    def _where(self) -> str:
        return f"the {self.form.kind} file {self.path}"

    def _none(self) -> list[Any]:
        return stack([], self.form.spec)

    def _end(self) -> None:
        self._ended = True
        self.close()

    def state(self) -> State:
        if self._ended:
            return {"ended": True}
        return {"group": self._group, "row": self._row, "number": self._number}

    def restore(self, state: State) -> None:
        self.close()
        self._ended = "ended" in state
        if not self._ended:
            self._group, self._row = state["group"], state["row"]
            self._number = state["number"]

    def most_nbytes(self) -> int | None:
        return tables_nbytes(self.form, self._how[0])

    def held_nbytes(self) -> int:
        if self._table is None:
            return 0
        return tables_nbytes(self.form, self._piece_nbytes) or self._piece_nbytes

    def inputs(self) -> Sequence[Stage]:
        return []

    def describe(self) -> str:
        return f"rows of {self.path} ({self.form.kind}, {len(self.form.columns)} columns)"

    def close(self) -> None:
        table, self._table = self._table, None
        self._batches = iter(())
        self._held.clear()
        self._piece_nbytes = 0
        if table is not None:
            table.close()


def tables_nbytes(form: TableFormat, piece_nbytes: int) -> int | None:
    """Return the bytes that an open file holds: a piece, the next one, and its encoded form.

    ``None`` for Arrow's formats: a record batch is read whole, and only then is its size known.
    """
    if form.kind == "arrow":
        return None
    return 2 * piece_nbytes + COLUMN_BYTES * len(form.spec.leaves)
