"""Strings changed, compared and measured one by one: case, substrings, lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import change_strings, string_lengths, substrings
from drumline.data.elements.ragged import RaggedTensorSpec
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.functions.native import strings as string_chain
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import Flat, flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import (
    Bad,
    Elementwise,
    Equal,
    failure,
    one,
    require_strings,
    shape_of,
    shown,
)

UNITS = ("BYTE", "UTF8_CHAR")


@dataclasses.dataclass(frozen=True)
class Length(Elementwise):
    """The length of each string."""

    unit: str

    @property
    def name(self) -> str:
        return "strings.length"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int32)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return string_lengths(values, self.unit), None


@dataclasses.dataclass(frozen=True)
class Substr(NativeOperation):
    """A part of each string."""

    unit: str

    @property
    def name(self) -> str:
        return "strings.substr"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        strings, start, length = arguments
        require_strings(self.name, strings)
        for spec, what in ((start, "pos"), (length, "len")):
            if spec.dtype.kind not in "iu":
                raise TypeError(f"{self.name}: {what} must be integers, got {spec}")
        if start.shape != length.shape:
            raise ValueError(
                f"{self.name}: pos and len must have the same shape, got {shape_of(start)} and "
                f"{shape_of(length)}"
            )
        if not start.shape:
            return one(strings)
        return one(TensorSpec(self._broadcast(strings, start), STRING))

    def _broadcast(self, strings: TensorSpec, start: TensorSpec) -> tuple[int, ...]:
        if isinstance(strings, RaggedTensorSpec) or None in (*strings.shape, *start.shape):
            raise ValueError(
                f"{self.name}: pos and len must be scalars for strings whose shape varies; they "
                f"have shape {shape_of(start)} for {strings}"
            )
        return np.broadcast_shapes(_known(strings), _known(start))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        strings, start, length = columns
        if not isinstance(start, np.ndarray) or not isinstance(length, np.ndarray):
            raise TypeError(f"{self.name}: pos and len vary in shape")
        if start.ndim == 1:
            given = flat(strings)
            places = [np.repeat(column, given.sizes()) for column in (start, length)]
        else:
            aligned = _aligned([np.asarray(strings), start, length])
            given = flat(aligned[0])
            places = [column.reshape(-1) for column in aligned[1:]]
        return self._cut(given, *(place.astype(np.int64) for place in places))

    def _cut(self, given: Flat, start: np.ndarray, length: np.ndarray) -> OperationResult:
        negative = np.flatnonzero(length < 0)
        good = int(negative[0]) if len(negative) else len(length)
        made, bad = substrings(given.values[:good], start[:good], length[:good], self.unit)
        if bad is None and not len(negative):
            return OperationResult([given.put(made)])
        if bad is None:
            bad, reason = good, f"len must be at least 0, got {length[good]}"
        else:
            reason = f"pos {start[bad]} is out of range for the string {shown(given.values[bad])}"
        before = given.head(given.row_of(bad))
        return OperationResult([before.put(made[: len(before.values)])], failure(self.name, reason))


def length(input: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """The lengths of strings, as ``tf.strings.length``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        unit: ``"BYTE"``, or ``"UTF8_CHAR"`` for characters, whose first bytes are counted.

    Returns:
        int32, in the shape of ``input``.

    Raises:
        ValueError: the unit is neither.
        TypeError: ``input`` holds no strings.
    """
    return apply(Length(_checked(unit, "strings.length")), input)


def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Parts of strings, as ``tf.strings.substr``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        pos: where the part begins; from the end if negative. An integer, or an array of them whose
            shape fits ``input``'s by broadcasting.
        len: how long it is, in the shape of ``pos``; what goes beyond the end is left out.
        unit: ``"BYTE"`` or ``"UTF8_CHAR"``, as of ``length``.

    Raises:
        ValueError: ``pos`` lies outside of a string, ``len`` is negative; shapes do not fit; the
            unit is neither.
        TypeError: ``input`` holds no strings, or ``pos`` and ``len`` no integers.
    """
    return apply(Substr(_checked(unit, "strings.substr")), input, pos, len)


def _checked(unit: str, name: str) -> str:
    if unit not in UNITS:
        raise ValueError(f"{name}: unit must be 'BYTE' or 'UTF8_CHAR', got {unit!r}")
    return unit


def _known(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(dim or 0 for dim in spec.shape)


def _aligned(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Columns (n, ...) with their rows broadcast against each other."""
    rank = max(column.ndim for column in columns)
    level = [
        column.reshape(column.shape[0], *[1] * (rank - column.ndim), *column.shape[1:])
        for column in columns
    ]
    return [np.ascontiguousarray(column) for column in np.broadcast_arrays(*level)]


@dataclasses.dataclass(frozen=True)
class Change(Elementwise, string_chain.Link):
    """A change without arguments."""

    how: str

    @property
    def name(self) -> str:
        return f"strings.{self.how.split()[0]}"

    @property
    def changes(self) -> tuple[string_chain.Change, ...]:
        return (self.how,)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return change_strings(values, self.how), None


def lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Strings in lower case, as ``tf.strings.lower``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        encoding: ``""`` changes ASCII letters only, ``"utf-8"`` all; bytes that are no UTF-8 then
            become U+FFFD.

    Returns:
        Strings, in the shape of ``input``.

    Raises:
        ValueError: the encoding is neither.
        TypeError: ``input`` holds no strings.
    """
    return apply(Change(_with("lower", encoding)), input)


def upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Strings in upper case, as ``tf.strings.upper``; arguments and errors are ``lower``'s."""
    return apply(Change(_with("upper", encoding)), input)


def strip(input: Any, name: str | None = None) -> Any:
    """Strings without white space (ASCII's) at their ends, as ``tf.strings.strip``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.

    Raises:
        TypeError: ``input`` holds no strings.
    """
    return apply(Change("strip"), input)


def _with(how: str, encoding: str) -> str:
    if encoding not in ("", "utf-8"):
        raise ValueError(f"strings.{how}: encoding must be '' or 'utf-8', got {encoding!r}")
    return f"{how} {encoding}".rstrip()


def equal(x: Any, y: Any) -> Any:
    """Whether strings are the same, as ``tf.equal`` of strings.

    Args:
        x: strings of any shape, ``bytes`` or ``str``.
        y: strings of the same shape, or one, which may also be ``x``; arrays are broadcast.

    Returns:
        bool, in their shape.

    Raises:
        ValueError: the shapes do not go together.
        TypeError: they are no strings.
    """
    return apply(Equal(False), x, y)


def not_equal(x: Any, y: Any) -> Any:
    """Whether strings differ, as ``tf.not_equal``; arguments and errors are ``equal``'s."""
    return apply(Equal(True), x, y)
