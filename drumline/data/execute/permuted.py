"""Random access in a random order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline._core import permuted
from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.stage import Described


class Permuted(Indexed):
    """Another's elements in an order that is computed from ``key``, and takes no memory."""

    def __init__(self, inner: Indexed, key: int):
        self.inner = inner
        self.key = key
        self.length = inner.length
        self.granule = inner.granule

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64)
        return self.inner.rows(permuted(self.key, self.length, positions))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"permutation of {self.length} positions"
