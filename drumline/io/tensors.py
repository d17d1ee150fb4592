"""``tf.io.parse_tensor`` and ``serialize_tensor``: tensors as ``TensorProto`` messages."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import parse_tensors, serialize_numbers, serialize_strings, tensor_dims
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, as_dtype
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.native.apply import apply, is_symbol
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.symbol import ValueNeedsPython

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

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        number = _NUMBERS[self.dtype]
        wanted = [-1 if dim is None else dim for dim in self.shape]
        messages = np.ascontiguousarray(columns[0])
        values, dims, rows, failure = parse_tensors(messages, number, wanted)
        values = values if self.dtype == "object" else values.view(as_dtype(self.dtype))
        column = self._column(values, dims.reshape(rows, len(wanted)), rows)
        return Rows([column], None if failure is None else _damaged(failure, number))

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

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (tensors,) = columns
        values, dims = _joined(tensors)
        if values.dtype == STRING:
            return Rows([serialize_strings(np.ascontiguousarray(values).reshape(-1), dims)])
        number = _NUMBERS[values.dtype.name]
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return Rows([serialize_numbers(content, number, dims)])


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
