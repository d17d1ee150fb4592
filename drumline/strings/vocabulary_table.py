"""A table of strings and their numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.data.native.apply import apply
from drumline.data.native.string_specs import as_text
from drumline.data.native.vocabulary import LookUp, Vocabulary
from drumline.data.plan.arguments import count_of

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
