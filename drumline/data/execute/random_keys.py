"""A random key beside each element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.stage import Described
from drumline.data.execute.uniform import bits


def keyed(block: Block, keys: tuple[int, int], positions: np.ndarray) -> Block:
    """The block with one more column: a key of each element's position for each of ``keys``.

    It is uint32 (n, 4).
    """
    halves = [bits(key, positions[: block.n]) for key in keys]
    column = np.stack(halves, axis=1).view(np.uint32)
    column.flags.writeable = False
    return Block([*block.columns, column], block.n, block.error)


class Keyed(Indexed):
    """Keys by position in the input."""

    def __init__(self, inner: Indexed, keys: tuple[int, int]):
        self.inner = inner
        self.keys = keys
        self.length = inner.length
        self.granule = inner.granule

    def rows(self, index: Index) -> Block:
        return keyed(self.inner.rows(index), self.keys, np.asarray(index, np.int64))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return "random keys by position"
