"""Strings and their numbers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from drumline._core import StringTable, hash_strings
from drumline.data.native.string_chain import Link, Numbering
from drumline.data.native.string_elementwise import Bad, Elementwise, shown


class Vocabulary:
    """Different strings, numbered from 0 on; two are equal if their strings are.

    Args:
        tokens: the strings.

    Raises:
        ValueError: one occurs twice.
    """

    def __init__(self, tokens: Sequence[bytes]):
        self.tokens = tuple(tokens)
        self.table  # noqa: B018  Finds strings that occur twice.

    @functools.cached_property
    def table(self) -> StringTable:
        """As the core looks strings up."""
        column = np.empty(len(self.tokens), object)
        column[:] = self.tokens
        return StringTable(column)

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash((len(self.tokens), self.tokens[:8]))

    def __reduce__(self) -> tuple[type, tuple[tuple[bytes, ...]]]:
        return type(self), (self.tokens,)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self.tokens)} strings)"


@dataclasses.dataclass(frozen=True)
class LookUp(Elementwise, Link):
    """The number of each string.

    Attributes:
        vocabulary: the strings that have one.
        first: what its first counts as.
        absent: what other strings count as; ``None`` if they are an error.
        buckets: how many numbers after the vocabulary's are theirs, by their hash, if there are
            any.
        label: the operation's name.
    """

    vocabulary: Vocabulary
    first: int = 0
    absent: int | None = None
    buckets: int = 0
    label: str = "strings.lookup"

    @property
    def name(self) -> str:
        return self.label

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    @property
    def numbering(self) -> Numbering | None:
        if self.absent is None and not self.buckets:
            return None
        return self.vocabulary.table, (self.first, self.absent or 0, self.buckets)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        numbers = self.vocabulary.table.numbers(values)
        missing = np.flatnonzero(numbers < 0)
        numbers += self.first
        if not len(missing):
            return numbers, None
        if self.buckets:
            after = self.first + len(self.vocabulary)
            numbers[missing] = after + hash_strings(values[missing], self.buckets)
        elif self.absent is not None:
            numbers[missing] = self.absent
        else:
            place = int(missing[0])
            return numbers, (place, f"{shown(values[place])} is not in the vocabulary")
        return numbers, None
