"""Numbers as text, and text as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import join_strings, numbers_of_strings, print_floats, print_integers
from drumline.data.native.apply import apply
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_elementwise import Bad, Elementwise, shown
from drumline.data.native.string_specs import as_text, one, with_dtype
from drumline.data.spec import STRING, ElementSpec, TensorSpec, as_dtype

NUMBERS = ("float32", "float64", "int32", "int64", "uint32", "uint64")
FILLS = (b"", b" ", b"0", b"-", b"+", b"#")


@dataclasses.dataclass(frozen=True)
class ToNumber(Elementwise):
    """The number that each string stands for."""

    out_type: str

    @property
    def name(self) -> str:
        return "strings.to_number"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.out_type)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        made, bad = numbers_of_strings(values, self.out_type)
        if bad is None:
            return made, None
        return made, (bad, f"{shown(values[bad])} is no valid {self.out_type}")


@dataclasses.dataclass(frozen=True)
class AsString(NativeOperation):
    """Numbers written as C's ``printf`` does."""

    style: str
    precision: int
    width: int
    fill: bytes

    @property
    def name(self) -> str:
        return "strings.as_string"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (numbers,) = arguments
        whole = numbers.dtype.kind in "iub"
        if whole and (self.precision >= 0 or self.style != "fixed"):
            raise ValueError(
                f"{self.name}: precision, scientific and shortest are for floating point numbers, "
                f"not for {numbers.dtype}"
            )
        return one(with_dtype(numbers, STRING))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        given = flat(columns[0])
        return Rows([given.put(self._written(given.values))])

    def _written(self, values: np.ndarray) -> np.ndarray:
        kind = values.dtype.kind
        if kind == "O":
            return values
        if kind == "b":
            return np.array([b"false", b"true"], object)[values.astype(np.intp)]
        if kind in "iu":
            whole = np.ascontiguousarray(values.astype(np.int64 if kind == "i" else np.uint64))
            return print_integers(whole.view(np.int64), kind == "i", self.fill, self.width)
        if kind == "c":
            return self._complex(values)
        real = np.ascontiguousarray(values, np.float64)
        return print_floats(real, self.style, self.fill, self.width, self.precision)

    def _complex(self, values: np.ndarray) -> np.ndarray:
        def same(text: bytes) -> np.ndarray:
            return np.full(len(values), text, object)

        parts = [self._written(part.astype(np.float64)) for part in (values.real, values.imag)]
        return join_strings([same(b"("), parts[0], same(b","), parts[1], same(b")")], b"")


def to_number(input: Any, out_type: Any = np.float32, name: str | None = None) -> Any:
    """The numbers that strings stand for, as ``tf.strings.to_number``.

    White space around a number is allowed; floating point numbers may be hexadecimal, and
    ``inf``, ``infinity`` and ``nan`` in any case.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        out_type: float32, float64, int32, int64, uint32 or uint64.

    Raises:
        ValueError: a string is no number, or does not fit an integer type; another type is asked
            for.
        TypeError: ``input`` holds no strings.
    """
    name = as_dtype(out_type).name
    if name not in NUMBERS:
        raise ValueError(f"strings.to_number: out_type must be one of {NUMBERS}, got {name}")
    return apply(ToNumber(name), input)


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Numbers as strings, as ``tf.strings.as_string``; strings stay what they are.

    Args:
        input: numbers, bools or strings of any shape.
        precision: digits after the point; 6 unless given. For floating point numbers only, as the
            next two.
        scientific: whether to write ``1.5e+00``.
        shortest: whether to leave out what is not needed, as ``%g`` does.
        width: the least number of characters.
        fill: what is put in front: ``" "`` (as without), ``"0"``; ``"-"`` puts spaces behind
            instead, ``"+"`` a sign in front of positive numbers.

    Raises:
        ValueError: an argument is none of these, or not for this kind of number.
    """
    if scientific and shortest:
        raise ValueError("strings.as_string: scientific and shortest exclude one another")
    text = as_text(fill, "strings.as_string", "fill")
    if text not in FILLS:
        raise ValueError(f"strings.as_string: fill must be '', ' ', '0', '-' or '+', got {fill!r}")
    style = "scientific" if scientific else "shortest" if shortest else "fixed"
    return apply(AsString(style, int(precision), int(width), text), input)
