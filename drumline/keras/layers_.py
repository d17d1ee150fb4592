"""Integers as numbers in a vocabulary, in an input pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.keras.layers.lookup_options import require_supported


class IntegerLookup:
    """Turns integers into their numbers in a vocabulary, as ``keras.layers.IntegerLookup``.

    Keras's own layer needs TensorFlow. Call this one in a dataset's `map`, where it is compiled
    with the rest of the function, or in a model.

    Args:
        vocabulary: the integers, or the path of a file with one a line.
        num_oov_indices: 1 gives integers that are not in the vocabulary the number of `oov_token`;
            0 makes them an error, and the function that calls it is not compiled.
        mask_token: an integer that gets the number 0.
        oov_token: what the number of unknown integers stands for.
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
        """The numbers of integers, int64 in a dataset, of the shape of `inputs`; or the integers.

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
        """The integers in the order of their numbers."""
        kept: list[int] = self._tokens[0 if include_special_tokens else self._special :].tolist()
        return kept

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
