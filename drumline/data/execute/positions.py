"""Elements by position of operations that run as streams otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from drumline._core import ShuffleIndices
from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.repeated import ENDLESS
from drumline.data.execute.stage import Described


class Reordered(Indexed):
    """Another's elements in the order of a shuffle buffer, found out as far as it is needed."""

    def __init__(self, inner: Indexed, buffer_size: int, key: int):
        self.inner = inner
        self.length = inner.length
        self.granule = inner.granule
        self._indices = ShuffleIndices(key, buffer_size, inner.length)
        self._known = np.empty(0, np.int64)

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64)
        most = int(positions.max(initial=-1)) + 1
        if most > len(self._known):
            further = self._indices.next(max(most - len(self._known), len(self._known)))
            self._known = np.concatenate([self._known, further])
        return self.inner.rows(self._known[positions])

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return "shuffled positions"


class Passes(Indexed):
    """Pass after pass of one dataset, each with an order and random numbers of its own.

    Args:
        inner: gives the elements of the pass of that number.
        count: of the passes; ``None`` for ever.
    """

    def __init__(self, inner: Callable[[int], Indexed], count: int | None):
        self._inner = inner
        self._passes: dict[int, Indexed] = {0: inner(0)}
        self._each = self._passes[0].length
        self.granule = self._passes[0].granule
        self.length = (ENDLESS // max(1, self._each) if count is None else count) * self._each

    def rows(self, index: Index) -> Block:
        """As promised, of one pass: those before the first of another pass."""
        positions = np.asarray(index, np.int64)
        if not len(positions):
            return self._passes[0].rows(positions)
        numbers, within = np.divmod(positions, self._each)
        others = np.flatnonzero(numbers != numbers[0])
        return self._pass(int(numbers[0])).rows(within[: others[0] if len(others) else None])

    def _pass(self, number: int) -> Indexed:
        if number not in self._passes:
            self._passes[number] = self._inner(number)
        return self._passes[number]

    def parts(self) -> Sequence[Described]:
        return [self._passes[0]]

    def describe(self) -> str:
        return "pass after pass by position"
