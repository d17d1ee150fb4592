"""Strings that stay in the memory they were read into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline._core import PackedBytes
from drumline.data.spec import STRING

Part = tuple[PackedBytes, int, int]
"""Strings, from where to where."""


class PackedStrings:
    """A column of strings, or of vectors of as many strings each, that are no objects.

    Only native operations that say so take it; it stands for an array of dtype object.

    Args:
        parts: the strings, one part after the other.
        shape: ``(n,)`` or ``(n, size)``.

    Attributes:
        parts: as given.
        shape: as given.
    """

    __slots__ = ("parts", "shape")
    dtype = STRING

    def __init__(self, parts: Sequence[Part], shape: tuple[int, ...]):
        self.parts = tuple(parts)
        self.shape = shape

    @classmethod
    def of(cls, strings: PackedBytes) -> PackedStrings:
        """All of them."""
        return cls([(strings, 0, len(strings))], (len(strings),))

    @classmethod
    def joined(cls, columns: Sequence[PackedStrings]) -> PackedStrings:
        """The rows of all columns, which are of one shape, one after the other."""
        parts = [part for column in columns for part in column.parts]
        return cls(parts, (sum(map(len, columns)), *columns[0].shape[1:]))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> PackedStrings:
        start, stop, _ = rows.indices(len(self))
        stop = max(start, stop)
        if (start, stop) == (0, len(self)):
            return self
        size = self.shape[1] if len(self.shape) > 1 else 1
        parts = list(_cut(self.parts, start * size, stop * size))
        return PackedStrings(parts, (stop - start, *self.shape[1:]))

    def reshape(self, *shape: int) -> PackedStrings:
        """The same strings, as a column of another shape."""
        return PackedStrings(self.parts, shape)

    @property
    def nbytes(self) -> int:
        """How many bytes the strings have."""
        return sum(strings.nbytes(start, stop) for strings, start, stop in self.parts)

    def objects(self) -> np.ndarray:
        """The strings as an array of ``bytes``."""
        arrays = [strings.objects(start, stop) for strings, start, stop in self.parts]
        return np.concatenate([np.empty(0, STRING), *arrays]).reshape(self.shape)


def _cut(parts: Sequence[Part], start: int, stop: int) -> Sequence[Part]:
    found: list[Part] = []
    before = 0
    for strings, first, end in parts:
        low, high = max(first, first + start - before), min(end, first + stop - before)
        if low < high:
            found.append((strings, low, high))
        before += end - first
    return found
