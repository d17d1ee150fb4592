"""``tf.io.decode_raw``: the bytes of strings as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import joined_bytes, padded_bytes
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, as_dtype
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.native.apply import apply
from drumline.data.native.operation import Column, NativeOperation, Rows


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

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (strings,) = columns
        if self._count is not None:
            return Rows([self._fixed(strings, self._count)])
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

    def _scalars(self, strings: np.ndarray) -> Rows:
        values, edges = joined_bytes(np.ascontiguousarray(strings))
        size = self._dtype.itemsize
        bad = np.flatnonzero(np.diff(edges) % size)
        rows = int(bad[0]) if len(bad) else len(strings)
        numbers = self._numbers(values[: edges[rows]])
        error = self._uneven(len(strings[rows])) if len(bad) else None
        return Rows([RaggedArray(numbers, edges[: rows + 1] // size)], error)

    def _arrays(self, strings: Column) -> Rows:
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
                return Rows([made], error)
            if length % self._dtype.itemsize:
                return Rows([made], self._uneven(length))
            made.append(self._numbers(values).reshape(*row.shape, length // self._dtype.itemsize))
        return Rows([made])

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
