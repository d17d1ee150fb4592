"""Random access to several passes over the same elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.stage import Described

ENDLESS = 1 << 62
"""Stands for the length of passes without end."""


class Repeated(Indexed):
    """Another's elements, which are the same in every pass, ``count`` times; ``None`` for ever."""

    def __init__(self, inner: Indexed, count: int | None):
        self.inner = inner
        self.granule = inner.granule
        passes = ENDLESS // max(1, inner.length) if count is None else count
        self.length = passes * inner.length

    def rows(self, index: Index) -> Block:
        length = self.inner.length
        if isinstance(index, range) and len(index):
            start = index.start % length
            if start + len(index) <= length:
                return self.inner.rows(range(start, start + len(index)))
        return self.inner.rows(np.asarray(index, np.int64) % max(1, length))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"the same {self.inner.length} positions again and again"
