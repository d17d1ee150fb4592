"""Native operations for tests, written in Python: between strings, numbers and varying shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult


def one(spec: TensorSpec) -> ElementSpec:
    return ElementSpec(LEAF_STRUCTURE, (spec,))


@dataclasses.dataclass(frozen=True)
class ToNumber(NativeOperation):
    """Digits, of any shape, as numbers; other strings are errors."""

    dtype: str
    name: ClassVar[str] = "test.to_number"
    rows_seen: ClassVar[list[int]] = []

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        if arguments[0].dtype != STRING:
            raise TypeError(f"to_number takes strings, not {arguments[0]}")
        return one(TensorSpec(arguments[0].shape, self.dtype))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        self.rows_seen.append(n)
        column: Any = columns[0]
        made: list[Any] = []
        for row in column:
            items = np.asarray(row, object)
            if bad := [item for item in items.reshape(-1) if not item.lstrip(b"-").isdigit()]:
                return OperationResult(
                    [joined(column, made, self.dtype)], ValueError(f"{bad[0]!r} is none")
                )
            numbers = [int(item) for item in items.reshape(-1)]
            made.append(np.array(numbers, self.dtype).reshape(items.shape))
        return OperationResult([joined(column, made, self.dtype)])


def joined(like: Column, rows: list[np.ndarray], dtype: str) -> Column:
    if isinstance(like, RaggedArray):
        return RaggedArray.from_rows(rows) if rows else RaggedArray(np.empty(0, dtype), [0])
    if isinstance(like, list):
        return rows
    return np.array(rows, dtype).reshape(len(rows), *like.shape[1:])


@dataclasses.dataclass(frozen=True)
class ToText(NativeOperation):
    """Numbers as digits."""

    name: ClassVar[str] = "test.to_text"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return one(TensorSpec(arguments[0].shape, "string"))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        column: Any = columns[0]
        if isinstance(column, RaggedArray):
            return OperationResult([RaggedArray(_digits(column.flat_values), column.row_splits)])
        return OperationResult([_digits(column)])


def _digits(numbers: np.ndarray) -> np.ndarray:
    out = np.empty(numbers.shape, object)
    out.reshape(-1)[:] = [str(number).encode() for number in numbers.reshape(-1)]
    return out


@dataclasses.dataclass(frozen=True)
class Codes(NativeOperation):
    """A string's bytes."""

    name: ClassVar[str] = "test.codes"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return one(TensorSpec((None,), np.uint8))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        strings: Any = columns[0]
        values = np.frombuffer(b"".join(strings), np.uint8)
        return OperationResult(
            [RaggedArray.from_row_lengths(values, [len(item) for item in strings])]
        )


@dataclasses.dataclass(frozen=True)
class FromCodes(NativeOperation):
    """Bytes as a string."""

    name: ClassVar[str] = "test.from_codes"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return one(TensorSpec((), "string"))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        codes: Any = columns[0]
        out = np.empty(n, object)
        out[:] = [np.asarray(row).tobytes() for row in codes]
        return OperationResult([out])


@dataclasses.dataclass(frozen=True)
class Picture(NativeOperation):
    """An array (k % 3 + 1, k % 2 + 1, 3) that is ``k`` modulo 256 everywhere."""

    name: ClassVar[str] = "test.picture"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return one(TensorSpec((None, None, 3), np.uint8))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        numbers: Any = columns[0]
        return OperationResult([[picture(int(number)) for number in numbers]])


def picture(number: int) -> np.ndarray:
    return np.full((number % 3 + 1, number % 2 + 1, 3), number % 256, np.uint8)


@dataclasses.dataclass(frozen=True)
class Thumbnail(NativeOperation):
    """The first pixel of a picture plus ``shift``, ``size`` by ``size`` times."""

    size: int
    name: ClassVar[str] = "test.thumbnail"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return one(TensorSpec((self.size, self.size, 3), np.int32))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        pictures, shifts = (list(column) for column in columns)
        size = (self.size, self.size, 1)
        made = [
            np.tile(p[:1, :1].astype(np.int32), size) + np.int32(s)
            for p, s in zip(pictures, shifts, strict=True)
        ]
        return OperationResult([np.array(made, np.int32).reshape(n, self.size, self.size, 3)])


def to_number(text: Any, dtype: str = "int64") -> Any:
    return apply(ToNumber(dtype), text)


def to_text(number: Any) -> Any:
    return apply(ToText(), number)


def codes(text: Any) -> Any:
    return apply(Codes(), text)


def from_codes(values: Any) -> Any:
    return apply(FromCodes(), values)


def to_picture(number: Any) -> Any:
    return apply(Picture(), number)


def thumbnail(image: Any, shift: Any, size: int = 2) -> Any:
    return apply(Thumbnail(size), image, shift)
