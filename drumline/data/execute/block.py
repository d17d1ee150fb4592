"""A run of elements held as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.columns import concatenated


class Block:
    """``n`` elements as one array per leaf, each with a leading axis of length ``n``.

    All elements of a block have the same shapes, or a column is a ``RaggedArray`` for stages that
    take those; a stage whose elements vary in shape emits a new block where the shape changes.
    ``error`` is raised after the ``n`` elements were delivered: it stands for one further element
    which could not be made.
    """

    __slots__ = ("columns", "error", "n")

    def __init__(self, columns: Sequence[np.ndarray], n: int, error: Exception | None = None):
        self.columns = columns
        self.n = n
        self.error = error

    @property
    def events(self) -> int:
        """How many positions of the stream the block covers: its elements, and its error."""
        return self.n + (self.error is not None)

    def slice(self, start: int, stop: int) -> Block:
        """The positions ``start`` to ``stop``, without copying; the error is the last position."""
        columns = [column[start : min(stop, self.n)] for column in self.columns]
        error = self.error if stop > self.n else None
        return Block(columns, max(0, min(stop, self.n) - start), error)

    def select(self, keep: np.ndarray) -> Block:
        """The elements for which the boolean array ``keep`` (n,) is true; no error."""
        return Block([column[keep] for column in self.columns], int(np.count_nonzero(keep)))

    def same_shapes(self, other: Block) -> bool:
        """Whether elements of both blocks have equal shapes."""
        return all(
            a.shape[1:] == b.shape[1:] for a, b in zip(self.columns, other.columns, strict=True)
        )


def concat(blocks: Sequence[Block]) -> Block:
    """One block with the elements of all; shapes must agree and no block may carry an error."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [concatenated(parts) for parts in zip(*(b.columns for b in blocks), strict=True)]
    return Block(columns, sum(block.n for block in blocks))
