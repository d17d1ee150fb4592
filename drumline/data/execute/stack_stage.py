"""Consecutive elements made one, whatever their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage
from drumline.data.execute.stage import Stage
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec


class StackStage(CountingStage):
    """One element of ``size`` of its input's; subclasses say how they are put together.

    Args:
        source: its blocks may be ragged.
        spec: of the results.
        size: how many elements make one.
        drop_remainder: whether fewer at the end are left out.
    """

    ragged = False
    varying = False

    def __init__(self, source: Stage, spec: ElementSpec, size: int, drop_remainder: bool):
        super().__init__(source)
        self.spec = spec
        self.size = size
        self.drop_remainder = drop_remainder

    def next(self, limit: int) -> Block | None:
        parts: list[Block] = []
        rows = 0
        while rows < self.size:
            part = self._carry.peek(self._ask(self.size - rows))
            if part is None:
                break
            usable = min(part.n, self.size - rows)
            failed = part.error is not None and rows + part.n < self.size
            self._use(part.events if failed else usable)
            if failed:
                return self._failed(part.error)
            parts.append(part.slice(0, usable))
            rows += usable
        if rows == 0 or (rows < self.size and self.drop_remainder):
            return None
        return self._made(parts, rows)

    def _ask(self, rows: int) -> int:
        granule = self.source.granule
        return -(-rows // granule) * granule if self.eager else rows

    def _failed(self, error: Exception | None) -> Block:
        return Block(stack([], self.spec), 0, error)

    def _made(self, parts: Sequence[Block], rows: int) -> Block:
        try:
            columns = [
                self.stacked(leaf, pieces, rows)
                for leaf, pieces in enumerate(zip(*(part.columns for part in parts), strict=True))
            ]
        except ValueError as error:
            return self._failed(error)
        return Block([column[None] for column in columns], 1)

    def stacked(self, leaf: int, pieces: Sequence[Any], rows: int) -> Any:
        """The array that a leaf's columns, with ``rows`` rows in all, become.

        Raises:
            ValueError: rows do not go together.
        """
        raise NotImplementedError
