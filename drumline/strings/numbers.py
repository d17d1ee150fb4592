"""Strings and numbers: text of numbers, numbers of text, hash buckets, and lookup tables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline._core import (
    hash_strings,
    join_strings,
    numbers_of_strings,
    print_floats,
    print_integers,
)
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, as_dtype
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import (
    Bad,
    Elementwise,
    LookUp,
    Vocabulary,
    as_text,
    one,
    shown,
    with_dtype,
)
from drumline.data.plan.node import count_of

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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        return OperationResult([given.put(self._written(given.values))])

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


@dataclasses.dataclass(frozen=True)
class HashBucket(Elementwise):
    """The bucket of each string, by SipHash if there is a key."""

    buckets: int
    key: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"strings.to_hash_bucket_{'fast' if self.key is None else 'strong'}"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return hash_strings(values, self.buckets, self.key), None


def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """The buckets of strings, as ``tf.strings.to_hash_bucket_fast``: the same as TensorFlow's.

    The hash is FarmHash's ``Fingerprint64``. Who knows it can make strings that share a bucket.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        num_buckets: how many there are.

    Returns:
        int64 in ``[0, num_buckets)``, in the shape of ``input``.

    Raises:
        ValueError: ``num_buckets`` is less than 1.
        TypeError: ``input`` holds no strings.
    """
    return apply(HashBucket(_buckets(num_buckets, "strings.to_hash_bucket_fast")), input)


def to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Any:
    """The buckets of strings under a key, as ``tf.strings.to_hash_bucket_strong``.

    The hash is SipHash-2-4, several times slower than ``to_hash_bucket_fast``: who does not know
    the key cannot make strings that share a bucket.

    Args:
        input: as of ``to_hash_bucket_fast``, as what is returned.
        num_buckets: how many there are.
        key: two integers.

    Raises:
        ValueError: ``num_buckets`` is less than 1, or the key has another length.
        TypeError: ``input`` holds no strings.
    """
    name = "strings.to_hash_bucket_strong"
    buckets = _buckets(num_buckets, name)
    if len(key) != 2:
        raise ValueError(f"{name}: key must be two integers, got {key!r:.60}")
    first, second = (int(part) % 2**64 for part in key)
    return apply(HashBucket(buckets, (first, second)), input)


def _buckets(given: int, name: str) -> int:
    buckets = count_of(given, name, "num_buckets", least=1)
    if buckets >= 2**63:
        raise ValueError(f"{name}: num_buckets must be less than 2**63, got {buckets}")
    return buckets


_NAME = "StaticVocabularyTable"


class StaticVocabularyTable:
    """Numbers of strings, and of buckets for others, as ``tf.lookup.StaticVocabularyTable``.

    Args:
        vocabulary: the strings, numbered from 0 on, or the path of a file with one a line.
        num_oov_buckets: how many numbers after these are for other strings, which share them by
            ``to_hash_bucket_fast``. With 0 other strings get ``default_value``.
        default_value: as of ``tf.lookup.StaticHashTable``.

    Raises:
        ValueError: a string occurs twice.
    """

    def __init__(
        self,
        vocabulary: Sequence[str | bytes] | str | os.PathLike[str],
        num_oov_buckets: int = 1,
        default_value: int = -1,
    ) -> None:
        if isinstance(vocabulary, str | os.PathLike):
            vocabulary = Path(vocabulary).read_bytes().splitlines()
        tokens = [as_text(token, _NAME, "vocabulary") for token in vocabulary]
        buckets = count_of(num_oov_buckets, _NAME, "num_oov_buckets", least=0)
        self._look_up = LookUp(Vocabulary(tokens), absent=int(default_value), buckets=buckets)

    def lookup(self, keys: Any) -> Any:
        """The numbers of strings of any shape: int64 of that shape."""
        return apply(self._look_up, keys)

    __getitem__ = lookup

    def size(self) -> int:
        """How many numbers there are."""
        return len(self._look_up.vocabulary) + self._look_up.buckets

    def __len__(self) -> int:
        return self.size()
