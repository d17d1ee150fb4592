"""Batches taken apart."""

from __future__ import annotations

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage, ServingStage
from drumline.data.execute.stage import Stage


class Flattened(CountingStage):
    """Blocks of batches as blocks of rows, of any length; only ``UnbatchStage`` pulls it."""

    def __init__(self, source: Stage):
        super().__init__(source)
        self._rows = 1

    def next(self, limit: int) -> Block | None:
        block = self._carry.peek(max(1, limit // self._rows))
        if block is None:
            return None
        sizes = {column.shape[1] for column in block.columns}
        if not block.n:
            # Empty columns stand in for dimensions that vary: their sizes mean nothing.
            self._use(block.events)
            return _failed(block, block.error)
        if len(sizes) > 1:
            error = _uneven(sizes, self._position)
            self._use(1)
            return _failed(block, error)
        self._use(block.events)
        self._rows = max(1, sizes.pop())
        rows = block.n * block.columns[0].shape[1]
        columns = [column.reshape(rows, *column.shape[2:]) for column in block.columns]
        return Block(columns, rows, block.error)

    def describe(self) -> str:
        return "rows of batches"


class UnbatchStage(ServingStage):
    """The rows of each batch as elements."""

    def __init__(self, source: Stage):
        super().__init__(Flattened(source))

    def describe(self) -> str:
        return "unbatch"


def _failed(block: Block, error: Exception | None) -> Block:
    return Block([c[:0].reshape(0, *c.shape[2:]) for c in block.columns], 0, error)


def _uneven(sizes: set[int], index: int) -> ValueError:
    return ValueError(
        f"unbatch needs leaves with equal first dimensions; element {index} has {sorted(sizes)}"
    )
