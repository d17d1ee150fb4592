"""`StringLookup`: strings to their numbers in a vocabulary, and back."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline._core import TextTokenizer, TokenCounts, hash_strings
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import (
    Bad,
    Elementwise,
    LookUp,
    Vocabulary,
    one,
    shown,
    with_dtype,
)
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.keras.layers.host_layer import compiles, is_string, serializable
from drumline.keras.layers.index_lookup import IndexLookup, Learned, UnknownTokenError

NAME = "StringLookup"


@dataclasses.dataclass(frozen=True)
class NumberStrings(Elementwise):
    """The number of each string, several for unknown ones, or none.

    Attributes:
        vocabulary: the strings in their order, and behind them the mask token if there is one.
        size: how many there are without it.
        first: the number of the first.
        unknown: how many numbers before it are for unknown strings.
        mask: the number of the mask token.
        key: of the hash by which unknown strings share numbers.
    """

    vocabulary: Vocabulary
    size: int
    first: int
    unknown: int
    mask: int | None
    key: tuple[int, int] | None

    @property
    def name(self) -> str:
        return NAME

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        numbers = self.vocabulary.table.numbers(values)
        missing = np.flatnonzero(numbers < 0)
        masked = numbers == self.size
        numbers += self.first
        if self.mask is not None:
            numbers[masked] = self.mask
        if not len(missing):
            return numbers, None
        if not self.unknown:
            place = int(missing[0])
            return numbers, (place, f"{shown(values[place])} is not in the vocabulary")
        numbers[missing] = self.first - self.unknown
        if self.unknown > 1:
            numbers[missing] += hash_strings(values[missing], self.unknown, self.key)
        return numbers, None

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        made = super().run(columns, n)
        if made.error is None:
            return made
        return OperationResult(
            made.columns,
            UnknownTokenError(
                f"{made.error}. When `num_oov_indices=0` all inputs should be in vocabulary: "
                "consider setting `num_oov_indices=1`"
            ),
        )


@dataclasses.dataclass(frozen=True)
class StringsOfNumbers(NativeOperation):
    """The string of each number.

    Attributes:
        special: the strings of the first numbers.
        vocabulary: those of the numbers behind them.
        unknown: that of other numbers.
    """

    special: tuple[bytes, ...]
    vocabulary: Vocabulary
    unknown: bytes

    @property
    def name(self) -> str:
        return f"{NAME} inverted"

    @functools.cached_property
    def _strings(self) -> np.ndarray:
        tokens = [*self.special, *self.vocabulary.tokens, self.unknown]
        column = np.empty(len(tokens), object)
        column[:] = tokens
        return column

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (numbers,) = arguments
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"{self.name}: expected integers, got {numbers}")
        return one(with_dtype(numbers, STRING))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        last = len(self._strings) - 1
        inside = (given.values >= 0) & (given.values < last)
        places = np.where(inside, given.values, last).astype(np.int64)
        return OperationResult([given.put(self._strings[places])])


@serializable(NAME)
class StringLookup(IndexLookup):
    """Strings to their numbers in a vocabulary, as ``keras.layers.StringLookup``.

    Keras's own layer needs TensorFlow. This one is a layer of Keras's without it: for `map`, where
    it is a native operation, for models with strings as input, and saved with them.

    Args:
        max_tokens: the most numbers there may be.
        num_oov_indices: how many numbers strings that are not in the vocabulary share, by
            FarmHash; with 0 they are an error.
        mask_token: a string that gets 0, of ``"int"``; others have no place for it.
        oov_token: the string for unknown ones.
        vocabulary: the strings, or the path of a file with one a line.
        idf_weights: of ``"tf_idf"``: the weight of each token.
        invert: numbers to strings.
        output_mode: ``"int"``, ``"one_hot"``, ``"multi_hot"``, ``"count"`` or ``"tf_idf"``.
        pad_to_max_tokens: whether such arrays have ``max_tokens`` places.
        sparse: must be False.
        encoding: of the strings, where they are given and shown as ``str``.
        name: of the layer.
        salt: one or two integers: unknown strings share numbers by SipHash with this key.
        options: others of `keras.Layer`.

    Raises:
        ValueError: an argument is none of these, or the vocabulary is of another dtype or has a
            string twice.
        UnknownTokenError: a ValueError, from a call, for unknown strings where ``num_oov_indices``
            is 0.

    Example:
        >>> layer = dl.keras.layers.StringLookup(vocabulary=["a", "b"])
        >>> layer(["b", "z"])
        array([2, 0])
    """

    kind = "string"

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: Any = None,
        oov_token: Any = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        salt: Any = None,
        **options: Any,
    ):
        options.pop("vocabulary_dtype", None)
        options.pop("oov_method", None)
        self.encoding = encoding
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            "[UNK]" if oov_token is None else oov_token,
            vocabulary,
            idf_weights,
            invert,
            output_mode,
            sparse,
            pad_to_max_tokens,
            salt,
            name,
            **options,
        )

    def token(self, given: Any) -> bytes:
        return given if isinstance(given, bytes) else str(given).encode(self.encoding)

    def shown(self, token: bytes) -> str:
        return token.decode(self.encoding, "replace")

    def checked_tokens(self, values: np.ndarray) -> list[bytes]:
        if values.dtype != STRING:
            raise ValueError(
                f"StringLookup: the vocabulary has {values.dtype} values, such as {values[:1]}, "
                "where strings are wanted: use IntegerLookup for integers, or make strings of "
                "them, [str(token) for token in vocabulary]"
                if len(values)
                else "StringLookup: cannot set an empty vocabulary."
            )
        return [self.token(each) for each in values.tolist()]

    def tokens_in_file(self, path: str | os.PathLike[str]) -> list[bytes]:
        return [self.token(line) for line in Path(path).read_text(self.encoding).splitlines()]

    def learn(self, batches: Iterator[Any]) -> Learned:
        counts = TokenCounts()
        as_they_are = TextTokenizer(False, False, "", None)
        for batch in batches:
            column = batch if isinstance(batch, RaggedArray) else np.asarray(batch, object)
            given = flat(column)
            counts.add(as_they_are, given.values, given.edges())
        tokens, times, rows, total = counts.counts()
        return list(tokens), times, rows, total

    def prepare_tables(self) -> None:
        self._vocabulary = Vocabulary(self._tokens)
        oov = self.token(self.oov_token)
        special = self.special_tokens
        plain = self.num_oov_indices == 1 and oov not in set(self._tokens)
        plain = plain and len(set(special)) == len(special)
        masked = self.mask_token is not None and self.output_mode != "int"
        self._operation: NativeOperation
        if plain and not masked:
            # Of one number for all others: what comes before it may be part of the same operation.
            table = Vocabulary([*special, *self._tokens])
            self._operation = LookUp(table, absent=len(special) - 1, label=NAME)
            return
        mask = [] if self.mask_token is None else [self.token(self.mask_token)]
        self._operation = NumberStrings(
            Vocabulary([*self._tokens, *mask]),
            len(self._tokens),
            len(special),
            self.num_oov_indices,
            self.mask_number,
            self.hash_key,
        )

    def numbers(self, inputs: Any) -> Any:
        return apply(self._operation, inputs)

    def tokens_of(self, numbers: Any) -> Any:
        if is_string(numbers) or np.dtype(numbers.dtype).kind not in "iu":
            raise ValueError("StringLookup(invert=True): expected integers")
        if compiles(numbers):
            raise ValueNeedsPython("numbers become strings, which no device holds")
        unknown = self.token(self.oov_token)
        operation = StringsOfNumbers(tuple(self.special_tokens), self._vocabulary, unknown)
        return apply(operation, numbers)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "encoding": self.encoding}
