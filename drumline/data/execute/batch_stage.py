"""Consecutive elements stacked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage
from drumline.data.execute.columns import concatenated
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.stage import Stage


class BatchStage(CountingStage):
    """Batches of ``size`` elements; only batches that straddle two input blocks are copied."""

    def __init__(
        self,
        source: Stage,
        size: int,
        drop_remainder: bool,
        pool: BufferPool,
        operation: str = "batch",
    ):
        super().__init__(source)
        self.size = size
        self.drop_remainder = drop_remainder
        self._pool = pool
        self._operation = operation

    def next(self, limit: int) -> Block | None:
        parts: list[Block] = []
        rows = 0
        while rows < self.size:
            part = self._carry.peek(self._ask(limit * self.size - rows))
            if part is None:
                return self._remainder(parts, rows)
            if parts and part.n and not parts[-1].same_shapes(part):
                return self._mismatched(parts[-1], part, rows)
            usable = self._usable(part, rows, limit)
            self._use(usable)
            if usable > part.n:
                return self._failed(part, part.error)
            parts.append(part.slice(0, usable))
            rows += usable
        return self._emit(parts, rows)

    def _ask(self, rows: int) -> int:
        """Whole granules where reading ahead cannot be noticed: a padded block costs the same."""
        granule = self.source.granule
        return -(-rows // granule) * granule if self.eager else rows

    def _usable(self, part: Block, rows: int, limit: int) -> int:
        """How many positions of ``part`` to use: whole batches if it starts one, else the rest."""
        if rows == 0 and part.n >= self.size:
            return min(part.n // self.size, limit) * self.size
        if part.error is not None and rows + part.n < self.size:
            return part.events
        return min(part.n, self.size - rows)

    def _mismatched(self, before: Block, part: Block, rows: int) -> Block | None:
        """All elements of the batch are given up, as in ``tf.data``.

        One among them that failed is the error instead; of a remainder to drop there is none.
        """
        error: Exception | None = self._shape_error(before, part)
        while rows < self.size:
            more = self._carry.peek(self._ask(self.size - rows))
            if more is None:
                return None if self.drop_remainder else self._failed(part, error)
            usable = self._usable(more, rows, 1)
            self._use(usable)
            if usable > more.n:
                return self._failed(part, more.error)
            rows += usable
        return self._failed(part, error)

    def _failed(self, part: Block, error: Exception | None) -> Block:
        """The rows gathered so far are given up with the batch they were for, as in ``tf.data``."""
        empty = [column[:0].reshape(0, 1, *column.shape[1:]) for column in part.columns]
        return Block(empty, 0, error)

    def _emit(self, parts: list[Block], rows: int) -> Block:
        count = rows // self.size
        columns = [
            self._joined(pieces).reshape(count, self.size, *pieces[0].shape[1:])
            for pieces in zip(*(part.columns for part in parts), strict=True)
        ]
        return Block(columns, count)

    def _remainder(self, parts: list[Block], rows: int) -> Block | None:
        if rows == 0 or self.drop_remainder:
            return None
        columns = [
            self._joined(pieces).reshape(1, rows, *pieces[0].shape[1:])
            for pieces in zip(*(part.columns for part in parts), strict=True)
        ]
        return Block(columns, 1)

    def _joined(self, pieces: Sequence[np.ndarray]) -> np.ndarray:
        if len(pieces) == 1:
            return pieces[0]
        if not isinstance(pieces[0], np.ndarray):
            return concatenated(pieces)
        rows = sum(len(piece) for piece in pieces)
        out = self._pool.empty((rows, *pieces[0].shape[1:]), pieces[0].dtype)
        np.concatenate(pieces, out=out)
        out.flags.writeable = False
        return out

    def _shape_error(self, before: Block, part: Block) -> ValueError:
        pairs = enumerate(zip(before.columns, part.columns, strict=True))
        leaf, found, expected = next(
            (i, b.shape[1:], a.shape[1:]) for i, (a, b) in pairs if a.shape[1:] != b.shape[1:]
        )
        return ValueError(
            f"{self._operation}({self.size}) cannot stack elements of different shapes: leaf "
            f"{leaf} of element {self._position} has shape {found}, the elements before it in the "
            f"batch have {expected}; pad or crop them in a map before the batch"
        )

    def expect(self, positions: int) -> None:
        self.source.expect(positions * self.size)

    def describe(self) -> str:
        dropped = ", remainder dropped" if self.drop_remainder else ""
        return f"{self._operation} {self.size}{dropped}"
