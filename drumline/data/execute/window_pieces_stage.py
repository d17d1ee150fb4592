"""Stacked windows cut up."""

from __future__ import annotations

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage, ServingStage
from drumline.data.execute.stage import Stage, State
from drumline.data.plan.window_pieces import WindowPieces
from drumline.data.rows import stack


class _Cut(CountingStage):
    """Blocks of pieces, of any number; only ``WindowPiecesStage`` pulls it.

    Where windows end with a shorter piece they come one by one, that piece by itself.
    """

    def __init__(self, source: Stage, node: WindowPieces):
        super().__init__(source)
        self._node = node
        self._at_rest = False

    def next(self, limit: int) -> Block | None:
        block = self._carry.peek(max(1, limit // max(1, self._node.most)))
        if block is None:
            return None
        if not block.n:
            self._use(block.events)
            return Block(stack([], self._node.spec), 0, block.error)
        length = block.columns[0].shape[1]
        size = self._node.size
        pieces, rest = (length, 0) if size is None else divmod(length, size)
        if rest and not self._node.drop_remainder:
            return self._with_rest(block, pieces * (size or 1))
        self._use(block.events)
        columns = [_rows(c[:, : length - rest], pieces, size) for c in block.columns]
        return Block(columns, block.n * pieces, block.error)

    def _with_rest(self, block: Block, whole: int) -> Block:
        """What one window has up to row ``whole``, or, if that was given, what is left of it."""
        size = self._node.size
        if whole and not self._at_rest:
            self._at_rest = True
            columns = [_rows(c[:1, :whole], whole // (size or 1), size) for c in block.columns]
            return Block(columns, whole // (size or 1))
        self._at_rest = False
        self._use(1)
        return Block([column[:1, whole:] for column in block.columns], 1)

    def state(self) -> State:
        return {**super().state(), "at_rest": self._at_rest}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._at_rest = state["at_rest"]

    def describe(self) -> str:
        return "pieces of windows"


class WindowPiecesStage(ServingStage):
    """The pieces of each window as elements."""

    def __init__(self, source: Stage, node: WindowPieces):
        super().__init__(_Cut(source, node))
        self._node = node

    def describe(self) -> str:
        return f"pieces of windows ({self._node.arguments()})"


def _rows(column: np.ndarray, pieces: int, size: int | None) -> np.ndarray:
    """(windows, rows, ...) as (windows * pieces, ...), of ``size`` rows each if that is given."""
    shape = column.shape[2:] if size is None else (size, *column.shape[2:])
    return column.reshape(len(column) * pieces, *shape)
