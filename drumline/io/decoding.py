"""Strings to arrays, as ``tf.io``: raw bytes, tensors, CSV records, JSON examples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from drumline._core import (
    joined_bytes,
    padded_bytes,
    parse_tensors,
    serialize_numbers,
    serialize_strings,
    tensor_dims,
)
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import (
    LEAF_STRUCTURE,
    STRING,
    ElementSpec,
    TensorSpec,
    as_dtype,
    flatten,
)
from drumline.data.functions.native.apply import apply, is_symbol
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import failure, require_strings, with_dtype
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.data.storage.files.csv import CsvRecords, csv_columns, csv_records
from drumline.data.storage.messages import example_from_json

_NUMBERS = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "object": 7,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}


def parse_tensor(
    serialized: Any,
    out_type: Any,
    name: str | None = None,
    *,
    shape: Sequence[int | None] | None = None,
) -> Any:
    """The tensor that ``serialize_tensor``, or TensorFlow's, wrote, as ``tf.io.parse_tensor``.

    Args:
        serialized: ``bytes``, a ``TensorProto``.
        out_type: of the tensor.
        shape: of the tensor, ``None`` for dimensions that vary. In a function given to
            ``Dataset.map`` it is needed: without it the function runs as Python.

    Raises:
        TypeError: tensors of `out_type` cannot be serialized, or `serialized` are no bytes.
        ValueError: the bytes are damaged, or of a tensor of another type or shape.
    """
    number = _number_of(as_dtype(out_type), "parse_tensor")
    if shape is None:
        if is_symbol(serialized):
            raise ValueNeedsPython(
                "parse_tensor needs its shape argument to be traced", varying=True
            )
        shape = _dims(serialized, number)
    dims = tuple(None if dim is None else int(dim) for dim in shape)
    return apply(ParseTensor(as_dtype(out_type).name, dims), serialized)


def serialize_tensor(tensor: Any, name: str | None = None) -> Any:
    """A tensor as ``bytes``, a ``TensorProto``, byte for byte as ``tf.io.serialize_tensor``.

    Raises:
        TypeError: TensorFlow has no such type.
    """
    return apply(SerializeTensor(), tensor)


def _number_of(dtype: np.dtype, called: str) -> int:
    if dtype.name not in _NUMBERS:
        raise TypeError(f"{called}: tensors of {dtype.name} cannot be serialized")
    return _NUMBERS[dtype.name]


def _dims(serialized: Any, number: int) -> tuple[int, ...]:
    if not isinstance(serialized, bytes):
        raise TypeError(f"parse_tensor takes bytes, not {type(serialized).__name__}")
    try:
        return tuple(tensor_dims(serialized, number))
    except ValueError as error:
        raise _damaged(str(error), number) from None


def _damaged(message: str, number: int) -> ValueError:
    name = next(name for name, other in _NUMBERS.items() if other == number)
    kind = "string" if name == "object" else name
    return ValueError(f"parse_tensor: not a serialized tensor of {kind} ({number}): {message}")


@dataclasses.dataclass(frozen=True)
class ParseTensor(NativeOperation):
    """Messages to tensors of one type and rank."""

    dtype: str
    shape: tuple[int | None, ...]

    @property
    def name(self) -> str:
        return "io.parse_tensor"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (message,) = arguments
        if not message.is_string or message.shape != ():
            raise TypeError(f"parse_tensor takes one serialized tensor (bytes), not {message}")
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec(self.shape, self.dtype),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        number = _NUMBERS[self.dtype]
        wanted = [-1 if dim is None else dim for dim in self.shape]
        messages = np.ascontiguousarray(columns[0])
        values, dims, rows, failure = parse_tensors(messages, number, wanted)
        values = values if self.dtype == "object" else values.view(as_dtype(self.dtype))
        column = self._column(values, dims.reshape(rows, len(wanted)), rows)
        return OperationResult([column], None if failure is None else _damaged(failure, number))

    def _column(self, values: np.ndarray, dims: np.ndarray, rows: int) -> Column:
        if None not in self.shape:
            return values.reshape(rows, *self.shape)
        inner = self.shape[1:]
        if None not in inner:
            joined = values.reshape(int(dims[:, 0].sum()), *inner)
            return RaggedArray.from_row_lengths(joined, dims[:, 0])
        edges = np.cumsum([0, *(math.prod(row) for row in dims.tolist())]).tolist()
        return [values[edges[i] : edges[i + 1]].reshape(row) for i, row in enumerate(dims.tolist())]


@dataclasses.dataclass(frozen=True)
class SerializeTensor(NativeOperation):
    """Tensors to messages."""

    @property
    def name(self) -> str:
        return "io.serialize_tensor"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (tensor,) = arguments
        if type(tensor) is not TensorSpec:
            raise TypeError(f"serialize_tensor takes arrays, not {tensor}")
        _number_of(tensor.dtype, "serialize_tensor")
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (tensors,) = columns
        values, dims = _joined(tensors)
        if values.dtype == STRING:
            return OperationResult(
                [serialize_strings(np.ascontiguousarray(values).reshape(-1), dims)]
            )
        number = _NUMBERS[values.dtype.name]
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return OperationResult([serialize_numbers(content, number, dims)])


def _joined(tensors: Column) -> tuple[np.ndarray, list[list[int]]]:
    """All values, and each row's dimensions."""
    if isinstance(tensors, np.ndarray):
        return tensors, [list(tensors.shape[1:])] * len(tensors)
    if isinstance(tensors, RaggedArray):
        values: np.ndarray = tensors.values
        inner = list(values.shape[1:])
        return values, [[length, *inner] for length in tensors.row_lengths().tolist()]
    flat = [row.reshape(-1) for row in tensors]
    return np.concatenate(flat), [list(row.shape) for row in tensors]


def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    """The bytes of strings as numbers, as ``tf.io.decode_raw``.

    Args:
        input_bytes: ``bytes``, or an array of them of equal lengths.
        out_type: of the numbers.
        little_endian: whether a number's lowest byte comes first.
        fixed_length: strings are cut, or filled up with zero bytes, to so many bytes.

    Returns:
        An array of one more dimension than `input_bytes`. In a function given to ``map`` its length
        is known with ``fixed_length``, or after ``.reshape(28, 28, 1)`` and the like.

    Raises:
        TypeError: `out_type` is no type of numbers, or `input_bytes` are no strings.
        ValueError: a length is no multiple of a number's, or lengths differ within an array.
    """
    dtype = as_dtype(out_type)
    if dtype == STRING:
        raise TypeError("decode_raw: out_type must be a type of numbers, not strings")
    if fixed_length is not None and (fixed_length <= 0 or fixed_length % dtype.itemsize):
        raise ValueError(
            f"decode_raw: fixed_length ({fixed_length}) must be a positive multiple of "
            f"{dtype.itemsize}, the bytes of a {dtype.name}"
        )
    return apply(DecodeRaw(dtype.name, bool(little_endian), fixed_length), input_bytes)


@dataclasses.dataclass(frozen=True)
class DecodeRaw(NativeOperation):
    """Strings to numbers.

    Attributes:
        dtype: of the numbers, by name.
        little_endian: whether a number's lowest byte comes first.
        fixed_length: bytes of each string, if they are made so many.
    """

    dtype: str
    little_endian: bool
    fixed_length: int | None

    @property
    def name(self) -> str:
        return "io.decode_raw"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        if not strings.is_string:
            raise TypeError(f"decode_raw takes strings (bytes), not {strings}")
        return ElementSpec(
            LEAF_STRUCTURE, (TensorSpec((*strings.shape, self._count), self._dtype),)
        )

    @property
    def _dtype(self) -> np.dtype:
        return as_dtype(self.dtype)

    @property
    def _count(self) -> int | None:
        return None if self.fixed_length is None else self.fixed_length // self._dtype.itemsize

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (strings,) = columns
        if self._count is not None:
            return OperationResult([self._fixed(strings, self._count)])
        if isinstance(strings, np.ndarray) and strings.ndim == 1:
            return self._scalars(strings)
        return self._arrays(strings)

    def _fixed(self, strings: Column, count: int) -> Column:
        if isinstance(strings, np.ndarray):
            return self._padded(strings, count)
        if isinstance(strings, RaggedArray):
            return RaggedArray(self._padded(strings.values, count), strings.row_splits)
        return [self._padded(row, count) for row in strings]

    def _padded(self, strings: np.ndarray, count: int) -> np.ndarray:
        flat = np.ascontiguousarray(strings).reshape(-1)
        values = padded_bytes(flat, count * self._dtype.itemsize)
        return self._numbers(values).reshape(*strings.shape, count)

    def _scalars(self, strings: np.ndarray) -> OperationResult:
        values, edges = joined_bytes(np.ascontiguousarray(strings))
        size = self._dtype.itemsize
        bad = np.flatnonzero(np.diff(edges) % size)
        rows = int(bad[0]) if len(bad) else len(strings)
        numbers = self._numbers(values[: edges[rows]])
        error = self._uneven(len(strings[rows])) if len(bad) else None
        return OperationResult([RaggedArray(numbers, edges[: rows + 1] // size)], error)

    def _arrays(self, strings: Column) -> OperationResult:
        """Rows that are arrays of strings, all of one length in each."""
        made: list[np.ndarray] = []
        for row in strings:
            values, edges = joined_bytes(np.ascontiguousarray(row).reshape(-1))
            lengths = np.diff(edges)
            length = int(lengths[0]) if len(lengths) else 0
            if (lengths != length).any():
                other = int(np.argmax(lengths != length))
                error = ValueError(
                    f"decode_raw: strings of an array must be of equal lengths, item {other} has "
                    f"{lengths[other]} bytes and item 0 has {length}; give fixed_length"
                )
                return OperationResult([made], error)
            if length % self._dtype.itemsize:
                return OperationResult([made], self._uneven(length))
            made.append(self._numbers(values).reshape(*row.shape, length // self._dtype.itemsize))
        return OperationResult([made])

    def _uneven(self, length: int) -> ValueError:
        size = self._dtype.itemsize
        return ValueError(
            f"decode_raw: a string of {length} bytes is no whole number of {self.dtype}, which "
            f"have {size} bytes each"
        )

    def _numbers(self, values: np.ndarray) -> np.ndarray:
        dtype = self._dtype
        if dtype == np.bool_:
            return values != 0
        if not self.little_endian:
            part = dtype.itemsize // (2 if dtype.kind == "c" else 1)
            values = values.view(f"u{part}").byteswap()
        return values.view(dtype)


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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        values, wrong = self.records.layout.decode(given.values)
        if wrong is None:
            return OperationResult([given.put(column) for column in values])
        record, reason, column = wrong
        before = given.head(given.row_of(record))
        kept = len(before.values)
        where = "" if column is None else f"column {column + 1}: "
        made = [before.put(part[:kept]) for part in values]
        return OperationResult(
            made, failure(self.name, f"{where}{reason}: {_shown(given.values[record])}")
        )


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


@dataclasses.dataclass(frozen=True)
class DecodeJsonExample(NativeOperation):
    """From JSON to serialized messages; Python's library reads one text at a time."""

    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "io.decode_json_example"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (texts,) = arguments
        if not texts.is_string:
            raise TypeError(f"decode_json_example: takes strings, not {texts}")
        if None in texts.shape[1:]:
            raise ValueError(f"decode_json_example: takes arrays of a fixed shape, not {texts}")
        return ElementSpec(LEAF_STRUCTURE, (texts,))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (texts,) = columns
        if isinstance(texts, RaggedArray):
            flat, ends = np.asarray(texts.values), texts.row_splits
        else:
            flat = np.asarray(texts)
            ends = np.arange(n + 1) * (flat.size // n if n else 0)
        decoded = np.empty(flat.size, STRING)
        rows, error = n, None
        for position, text in enumerate(flat.reshape(-1)):
            try:
                decoded[position] = example_from_json(text).SerializeToString()
            except ValueError as wrong:
                rows = int(np.searchsorted(ends, position, "right")) - 1
                error = ValueError(f"decode_json_example: {wrong}")
                break
        kept = decoded[: int(ends[rows])]
        if isinstance(texts, RaggedArray):
            return OperationResult([RaggedArray(kept, ends[: rows + 1])], error)
        return OperationResult([kept.reshape(rows, *flat.shape[1:])], error)


def decode_json_example(json_examples: Any, name: str | None = None) -> Any:
    """Serialized ``Example`` messages from their JSON, as ``tf.io.decode_json_example``.

    Args:
        json_examples: strings of any shape, in protocol buffers' JSON mapping: integers may be
            strings, ``bytes`` are base64.

    Returns:
        ``bytes`` in the same shape, for ``parse_example``.

    Raises:
        TypeError: the argument is no string.
        ValueError: a string is not such JSON; the message says where.
    """
    return apply(DecodeJsonExample(), json_examples)
