"""Runs of elements stacked, a run an element."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from drumline.data.execute.block import Block, concat
from drumline.data.execute.stage import Stage
from drumline.data.execute.window_stage import WindowStage, error_among
from drumline.data.plan.stacked_windows import StackedWindows
from drumline.data.rows import stack


class StackedWindowStage(WindowStage):
    """All windows of a block at once, as overlapping views of its rows.

    Those that are not full, or reach from a block that ends with an error into the next one, come
    one by one.
    """

    node: StackedWindows

    def __init__(self, source: Stage, node: StackedWindows):
        super().__init__(source, node)

    def next(self, limit: int) -> Block | None:
        while starts := self._starts(limit):
            full = self._full(len(starts))
            block = self._views(full) if full else self._single()
            self._drop(max(1, block.events) * self.node.shift)
            if block.events:
                return block
        return None

    def _full(self, most: int) -> int:
        """How many windows from the first one on lie within the first block."""
        rows = self._first().n
        return max(0, min(most, (rows - self.node.span) // self.node.shift + 1))

    def _first(self) -> Block:
        return self._held[0][1] if self._whole is None else self._whole

    def _views(self, count: int) -> Block:
        rows = self._first()
        columns = [self._runs(rows.columns[leaf], count) for leaf in self.node.leaves]
        return Block(columns, count)

    def _runs(self, column: np.ndarray, count: int) -> np.ndarray:
        """The first ``count`` windows of a column: (count, size, ...)."""
        node = self.node
        windows = sliding_window_view(column, node.span, axis=0)[:: node.shift]
        return np.moveaxis(windows[:count, ..., :: node.stride], -1, 1)

    def _single(self) -> Block:
        """The first window by itself; no position if it is one to be left out."""
        parts = self._slices(0)
        error = error_among(parts)
        short = self.node.drop_short and self._have < self.node.span
        if error is not None or short:
            return Block(stack([], self.node.spec), 0, error)
        whole = concat([part for part in parts if part.n])
        return Block([whole.columns[leaf][None] for leaf in self.node.leaves], 1)

    def describe(self) -> str:
        return f"stacked {super().describe()}"
