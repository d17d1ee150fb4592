"""`IntegerLookup` and `StringLookup`, which Keras has with TensorFlow only, for input pipelines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def require_supported(layer: str, output_mode: str, num_oov_indices: int) -> None:
    """Refuse what only Keras's own layer can do.

    Raises:
        NotImplementedError: for other modes than ``"int"``, and several numbers for unknown ones.
    """
    if output_mode != "int":
        raise NotImplementedError(
            f"{layer}: output_mode={output_mode!r} is not supported, use 'int' and "
            "jax.nn.one_hot on the numbers."
        )
    if num_oov_indices not in (0, 1):
        raise NotImplementedError(
            f"{layer}: num_oov_indices={num_oov_indices} is not supported, use 0 or 1."
        )


class IntegerLookup:
    """Turns integers into their numbers in a vocabulary, as ``keras.layers.IntegerLookup``.

    Keras's own layer needs TensorFlow. Call this one in a dataset's `map`, where it is compiled
    with the rest of the function, or in a model.

    Args:
        vocabulary: the integers, or the path of a file with one a line.
        num_oov_indices: 1 gives integers that are not in the vocabulary the number of `oov_token`;
            0 makes them an error, and the function that calls it is not compiled.
        mask_token: an integer that gets the number 0.
        oov_token: the integer that the number of unknown integers is turned into.
        invert: turn numbers into integers instead.
        output_mode: ``"int"``.

    Raises:
        ValueError: if the vocabulary has an integer twice or a reserved one.
        NotImplementedError: for other modes, and several numbers for unknown integers.
    """

    def __init__(
        self,
        vocabulary: Sequence[int] | np.ndarray | str | os.PathLike[str],
        *,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        invert: bool = False,
        output_mode: str = "int",
    ) -> None:
        require_supported("IntegerLookup", output_mode, num_oov_indices)
        if isinstance(vocabulary, (str, os.PathLike)):
            vocabulary = [int(line) for line in Path(vocabulary).read_text("utf-8").split()]
        reserved = [] if mask_token is None else [mask_token]
        self._unknown = len(reserved) if num_oov_indices else None
        reserved += [oov_token] * num_oov_indices
        self._special = len(reserved)
        self._tokens = np.array([*reserved, *vocabulary], np.int64)
        self._order = np.argsort(self._tokens, kind="stable")
        self._sorted = self._tokens[self._order]
        twice = self._sorted[1:][np.diff(self._sorted) == 0]
        if len(twice):
            raise ValueError(f"IntegerLookup: {twice[0]} occurs twice in the vocabulary.")
        self._oov = oov_token
        self._invert = invert

    def __call__(self, inputs: Any) -> Any:
        """Return the numbers of integers, int64, of the shape of `inputs`; or the integers.

        Raises:
            ValueError: for an unknown integer if `num_oov_indices` is 0.
        """
        if isinstance(inputs, jax.core.Tracer) and (self._invert or self._unknown is not None):
            return self._look_up(jnp, inputs)
        given = np.asarray(inputs)
        if self._unknown is None and not self._invert:
            self._require_known(given)
        return self._look_up(np, given)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[int]:
        """Return the integers in the order of their numbers."""
        first = 0 if include_special_tokens else self._special
        tokens: list[int] = self._tokens[first:].tolist()
        return tokens

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return len(self._tokens)

    def _look_up(self, xp: Any, given: Any) -> Any:
        if self._invert:
            inside = (given >= 0) & (given < len(self._tokens))
            return xp.where(inside, xp.asarray(self._tokens)[xp.where(inside, given, 0)], self._oov)
        places = xp.searchsorted(xp.asarray(self._sorted), given)
        places = xp.minimum(places, len(self._sorted) - 1)
        unknown = 0 if self._unknown is None else self._unknown
        found = xp.asarray(self._sorted)[places] == given
        return xp.where(found, xp.asarray(self._order)[places], unknown).astype(np.int64)

    def _require_known(self, given: np.ndarray) -> None:
        unknown = given[~np.isin(given, self._tokens)]
        if unknown.size:
            raise ValueError(
                f"IntegerLookup: {unknown.flat[0]} is not in the vocabulary, and num_oov_indices "
                "is 0."
            )


class StringLookup:
    """Turns strings into their numbers in a vocabulary, as ``keras.layers.StringLookup``.

    Keras's own layer needs TensorFlow. This one works on a dataset's columns: call it in `map`.
    No device holds strings, so it cannot be part of a model.

    Args:
        vocabulary: the strings, or the path of a file with one a line.
        num_oov_indices: 1 gives strings that are not in the vocabulary the number of `oov_token`;
            0 makes them an error.
        mask_token: a string that gets the number 0.
        oov_token: the string that the number of unknown strings is turned into.
        invert: turn numbers into strings instead.
        output_mode: ``"int"``.

    Raises:
        ValueError: if the vocabulary has a string twice or a reserved one.
        NotImplementedError: for other modes, and several numbers for unknown strings.
    """

    def __init__(
        self,
        vocabulary: Sequence[str | bytes] | str | os.PathLike[str],
        *,
        num_oov_indices: int = 1,
        mask_token: str | bytes | None = None,
        oov_token: str | bytes = "[UNK]",
        invert: bool = False,
        output_mode: str = "int",
    ) -> None:
        require_supported("StringLookup", output_mode, num_oov_indices)
        if isinstance(vocabulary, (str, os.PathLike)):
            vocabulary = Path(vocabulary).read_text("utf-8").splitlines()
        reserved = [] if mask_token is None else [_bytes(mask_token)]
        self._unknown = len(reserved) if num_oov_indices else None
        reserved += [_bytes(oov_token)] * num_oov_indices
        self._special = len(reserved)
        self._tokens = [*reserved, *map(_bytes, vocabulary)]
        self._numbers = {token: number for number, token in enumerate(self._tokens)}
        if len(self._numbers) < len(self._tokens):
            twice = next(t for n, t in enumerate(self._tokens) if self._numbers[t] != n)
            raise ValueError(f"StringLookup: {twice.decode()!r} occurs twice in the vocabulary.")
        self._oov = _bytes(oov_token)
        self._invert = invert

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return the numbers of strings, int64, of the shape of `inputs`; or the strings.

        Raises:
            ValueError: for an unknown string if `num_oov_indices` is 0.
        """
        given = np.asarray(inputs, None if self._invert else object)
        look_up = self._token if self._invert else self._number
        found = np.empty(given.shape, object if self._invert else np.int64)
        flat = found.reshape(-1)
        for position, item in enumerate(given.reshape(-1)):
            flat[position] = look_up(item)
        return found

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """Return the strings in the order of their numbers."""
        first = 0 if include_special_tokens else self._special
        return [token.decode() for token in self._tokens[first:]]

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return len(self._tokens)

    def _number(self, item: Any) -> int:
        number = self._numbers.get(_bytes(item), self._unknown)
        if number is None:
            raise ValueError(
                f"StringLookup: {_bytes(item).decode()!r} is not in the vocabulary, and "
                "num_oov_indices is 0."
            )
        return number

    def _token(self, item: Any) -> bytes:
        return self._tokens[item] if 0 <= item < len(self._tokens) else self._oov


def _bytes(token: Any) -> bytes:
    return token if isinstance(token, bytes) else str(token).encode()
