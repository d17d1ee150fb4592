"""Sequence packing."""

from __future__ import annotations

from typing import Any, Self

from drumline.data.methods.arguments import count_of
from drumline.data.methods.padding import Padding, check_arrays, fillers
from drumline.data.plan import packing

_OVERLONG = ("error", "truncate", "split")


class Packing(Padding):
    """``pack``."""

    def pack(
        self,
        length: int,
        *,
        lookahead: int = 1024,
        overlong: str = "error",
        padding_values: Any = None,
        name: str | None = None,
    ) -> Self:
        """Puts several sequences into each row of ``length``, for transformers.

        Elements are sequences: leaves (n, ...) of one n each. Of every ``lookahead`` of them each
        goes, in order, into the first row that has room; then come the next. What a row holds so
        depends on the sequences alone, and a state is a position.

        Args:
            length: of the rows.
            lookahead: more fill rows better, and take more memory and more time to the first row.
            overlong: what becomes of a sequence longer than ``length``: ``"error"`` raises when it
                is its turn, ``"truncate"`` cuts its end off, ``"split"`` makes several of it.
            padding_values: what rows are filled up with, as for ``padded_batch``.
            name: shown by ``explain()``.

        Returns:
            Elements are ``dl.data.Packed(values, segment_ids, positions)``.

        Raises:
            TypeError: a leaf is no array.
            ValueError: a leaf has no first dimension, or another one varies.
        """
        row = count_of(length, "pack", "length", least=1)
        ahead = count_of(lookahead, "pack", "lookahead", least=1)
        if overlong not in _OVERLONG:
            raise ValueError(f"pack: overlong must be one of {_OVERLONG}, got {overlong!r}")
        spec = self._plan.spec
        check_arrays(spec.leaves, "pack")
        for i, leaf in enumerate(spec.leaves):
            if not leaf.shape or None in leaf.shape[1:]:
                raise ValueError(
                    f"pack takes sequences: leaf {i} is {leaf}; only its first dimension may vary"
                )
        values = fillers(spec, padding_values, "pack")
        return self._with(packing.Pack((self._plan,), row, ahead, overlong, tuple(values)), name)
