"""Strings as numbers, in an input pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline.keras.layers.lookup_options import require_supported


class StringLookup:
    """Turns strings into their numbers in a vocabulary, as ``keras.layers.StringLookup``.

    Keras's own layer needs TensorFlow. This one works on a dataset's columns: call it in `map`.
    No device holds strings, so it cannot be part of a model.

    Args:
        vocabulary: the strings, or the path of a file with one a line.
        num_oov_indices: 1 gives strings that are not in the vocabulary the number of `oov_token`;
            0 makes them an error.
        mask_token: a string that gets the number 0.
        oov_token: what the number of unknown strings stands for.
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
        """The numbers of strings, int64, of the shape of `inputs`; or the strings of numbers.

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
        """The strings in the order of their numbers."""
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
