"""`IntegerLookup`: integers to their numbers in a vocabulary, and back."""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline._core import hash_strings, print_integers
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import one, with_dtype
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.keras.layers.host_layer import compiles, is_string, serializable
from drumline.keras.layers.index_lookup import IndexLookup, Learned, UnknownTokenError

NAME = "IntegerLookup"

_SPAN = 8
"""A table for all integers between the least and the greatest may be so many times larger."""


@dataclasses.dataclass(frozen=True)
class NumberIntegers(NativeOperation):
    """The number of each integer.

    Attributes:
        tokens: the vocabulary: bytes of int64.
        first: the number of its first.
        unknown: how many numbers before it are for unknown integers.
        mask_token: an integer that has the number ``mask``.
        mask: its number.
        hashed: whether unknown integers share numbers by a hash, not by their remainder.
        key: of the hash.
    """

    tokens: bytes
    first: int
    unknown: int
    mask_token: int | None
    mask: int | None
    hashed: bool
    key: tuple[int, int] | None

    @property
    def name(self) -> str:
        return NAME

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (values,) = arguments
        if values.dtype.kind not in "iu":
            raise TypeError(f"{NAME}: expected integers, got {values}")
        return one(with_dtype(values, np.int64))

    @functools.cached_property
    def _sorted(self) -> list[np.ndarray]:
        """The vocabulary in ascending order, and the number of each."""
        tokens = np.frombuffer(self.tokens, np.int64)
        order = np.argsort(tokens, kind="stable")
        return [tokens[order], order + self.first]

    @functools.cached_property
    def _table(self) -> np.ndarray | None:
        """The number of each integer from the least to the greatest, -1 for none, if they are few.

        A search costs ten times as much as a look into such a table.
        """
        known, numbers = self._sorted
        span = int(known[-1]) - int(known[0]) + 1
        if span > 1024 + _SPAN * len(known):
            return None
        table = np.full(span, -1, np.int64)
        table[known - known[0]] = numbers
        return table

    def _found(self, values: np.ndarray) -> np.ndarray:
        known, numbers = self._sorted
        if self._table is not None:
            inside = (values >= known[0]) & (values <= known[-1])
            found: np.ndarray = self._table[np.where(inside, values - known[0], 0)]
            return np.where(inside, found, -1)
        places = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[places] == values, numbers[places], -1)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        values = given.values.astype(np.int64, copy=False)
        numbers = self._found(values)
        missing = numbers < 0
        if self.mask_token is not None:
            masked = values == self.mask_token
            missing &= ~masked
        bad = np.flatnonzero(missing) if not self.unknown else np.empty(0, np.int64)
        if self.unknown:
            numbers[missing] = self.first - self.unknown + self._shared(values[missing])
        if self.mask_token is not None:
            numbers[masked] = self.mask
        if not len(bad):
            return OperationResult([given.put(numbers)])
        before = given.head(given.row_of(int(bad[0])))
        return OperationResult(
            [before.put(numbers[: len(before.values)])],
            UnknownTokenError(
                f"{NAME}: {values[bad[0]]} is not in the vocabulary. When `num_oov_indices=0` all "
                "inputs should be in vocabulary: consider setting `num_oov_indices=1`"
            ),
        )

    def _shared(self, values: np.ndarray) -> np.ndarray:
        if self.unknown == 1:
            return np.zeros(len(values), np.int64)
        if not self.hashed:
            return values % self.unknown
        return hash_strings(print_integers(values, True, b"", -1), self.unknown, self.key)

    def in_step(self, values: Any) -> Any:
        """The same in a step that is compiled.

        Raises:
            ValueNeedsPython: it may fail, or hashes.
        """
        if not self.unknown:
            raise ValueNeedsPython("unknown integers are errors, since num_oov_indices is 0")
        if self.hashed and self.unknown > 1:
            raise ValueNeedsPython("unknown integers are hashed")
        known, numbers = (jnp.asarray(each) for each in self._sorted)
        places = jnp.minimum(jnp.searchsorted(known, values), len(known) - 1)
        unknown = self.first - self.unknown + values % self.unknown
        result = jnp.where(known[places] == values, numbers[places], unknown)
        if self.mask is not None:
            result = jnp.where(values == self.mask_token, self.mask, result)
        return result.astype(np.int64)


@dataclasses.dataclass(frozen=True)
class IntegersOfNumbers(NativeOperation):
    """The integer of each number.

    Attributes:
        tokens: of all numbers from 0 on, and behind them that of other numbers; bytes of int64.
    """

    tokens: bytes

    @property
    def name(self) -> str:
        return f"{NAME} inverted"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (numbers,) = arguments
        return one(with_dtype(numbers, np.int64))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        return OperationResult([given.put(self.of(np, given.values))])

    def of(self, xp: Any, numbers: Any) -> Any:
        """The integers, computed by numpy or ``jax.numpy``."""
        tokens = xp.asarray(np.frombuffer(self.tokens, np.int64))
        inside = (numbers >= 0) & (numbers < len(tokens) - 1)
        return tokens[xp.where(inside, numbers, len(tokens) - 1)]


@serializable(NAME)
class IntegerLookup(IndexLookup):
    """Integers to their numbers in a vocabulary, as ``keras.layers.IntegerLookup``.

    Keras's own layer needs TensorFlow. This one is a layer of Keras's without it: for `map`, where
    it is a native operation, and for models, where it may also be part of the compiled step.

    Args:
        max_tokens: the most numbers there may be.
        num_oov_indices: how many numbers integers that are not in the vocabulary share; with 0
            they are an error.
        mask_token: an integer that gets 0, of ``"int"``; others have no place for it.
        oov_token: the integer for unknown ones.
        vocabulary: the integers, or the path of a file with one a line.
        vocabulary_dtype: must be ``"int64"``.
        idf_weights: of ``"tf_idf"``: the weight of each token.
        invert: numbers to integers.
        output_mode: ``"int"``, ``"one_hot"``, ``"multi_hot"``, ``"count"`` or ``"tf_idf"``.
        sparse: must be False.
        pad_to_max_tokens: whether such arrays have ``max_tokens`` places.
        oov_method: how unknown integers share numbers: ``"floormod"`` or ``"farmhash"``.
        salt: one or two integers: of ``"farmhash"``, they do so by SipHash with this key.
        name: of the layer.
        options: others of `keras.Layer`.

    Raises:
        ValueError: an argument is none of these, or the vocabulary is of another dtype or has an
            integer twice.
        UnknownTokenError: a ValueError, from a call, for unknown integers where
            ``num_oov_indices`` is 0.

    Example:
        >>> layer = dl.keras.layers.IntegerLookup(vocabulary=[12, 36])
        >>> layer([36, 7])
        array([2, 0])
    """

    kind = "int64"

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: Any = None,
        oov_token: Any = -1,
        vocabulary: Any = None,
        vocabulary_dtype: str = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        oov_method: str = "floormod",
        salt: Any = None,
        name: str | None = None,
        **options: Any,
    ):
        if vocabulary_dtype != "int64":
            raise ValueError(
                f"IntegerLookup: vocabulary_dtype must be 'int64', got {vocabulary_dtype!r}"
            )
        if oov_method not in ("floormod", "farmhash"):
            raise ValueError(
                f"IntegerLookup: oov_method must be 'floormod' or 'farmhash', got {oov_method!r}"
            )
        if salt is not None and oov_method != "farmhash":
            raise ValueError("IntegerLookup: `salt` goes with oov_method='farmhash'")
        self.oov_method = oov_method
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            -1 if oov_token is None else oov_token,
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

    @property
    def compute_dtype(self) -> str:
        """Of inputs."""
        return "int64"

    def token(self, given: Any) -> int:
        return int(given)

    def checked_tokens(self, values: np.ndarray) -> list[int]:
        whole = values.dtype.kind in "iu"
        if values.dtype.kind == "f" and len(values):
            whole = bool((np.trunc(values) == values).all())
        if not whole and len(values):
            found = "strings" if values.dtype.kind == "O" else f"{values.dtype} values"
            raise ValueError(
                f"IntegerLookup: the vocabulary has {found}, such as {values[:1]}, where integers "
                "are wanted: use StringLookup for strings, or make integers of them, "
                "[int(token) for token in vocabulary]"
            )
        return [int(each) for each in values.tolist()]

    def tokens_in_file(self, path: str | os.PathLike[str]) -> list[int]:
        tokens = []
        for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
            try:
                tokens.append(int(line))
            except ValueError:
                raise ValueError(
                    f"IntegerLookup: line {number} of {os.fspath(path)}, {line!r:.60}, is no "
                    "integer; use StringLookup for a vocabulary of strings"
                ) from None
        return tokens

    def learn(self, batches: Iterator[Any]) -> Learned:
        counts: collections.Counter[int] = collections.Counter()
        documents: collections.Counter[int] = collections.Counter()
        total = 0
        for batch in batches:
            given = flat(batch if isinstance(batch, RaggedArray) else np.asarray(batch))
            tokens, times = np.unique(given.values, return_counts=True)
            counts.update(dict(zip(tokens.tolist(), times.tolist(), strict=True)))
            rows = np.repeat(np.arange(len(given.sizes())), given.sizes())
            pairs = np.unique(np.stack([rows, given.values.astype(np.int64)]), axis=1)
            tokens, times = np.unique(pairs[1], return_counts=True)
            documents.update(dict(zip(tokens.tolist(), times.tolist(), strict=True)))
            total += len(given.sizes())
        learned = list(counts)
        times = np.array([counts[each] for each in learned], np.int64)
        rows = np.array([documents[each] for each in learned], np.int64)
        return learned, times, rows, total

    def prepare_tables(self) -> None:
        mask = self.mask_number
        self._operation = NumberIntegers(
            np.array(self._tokens, np.int64).tobytes(),
            len(self.special_tokens),
            self.num_oov_indices,
            None if mask is None else self.token(self.mask_token),
            mask,
            self.oov_method == "farmhash",
            self.hash_key,
        )

    def numbers(self, inputs: Any) -> Any:
        if compiles(inputs):
            return self._operation.in_step(inputs)
        return apply(self._operation, inputs)

    def tokens_of(self, numbers: Any) -> Any:
        if is_string(numbers) or np.dtype(numbers.dtype).kind not in "iu":
            raise ValueError("IntegerLookup(invert=True): expected integers")
        tokens = np.array([*self.special_tokens, *self._tokens, self.oov_token], np.int64)
        operation = IntegersOfNumbers(tokens.tobytes())
        return operation.of(jnp, numbers) if compiles(numbers) else apply(operation, numbers)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "oov_method": self.oov_method}
