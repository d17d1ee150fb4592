"""Batches taken apart."""

from __future__ import annotations

from typing import Any

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage, ServingStage
from drumline.data.execute.stage import Stage
from drumline.data.ragged import RaggedArray, objects
from drumline.data.ragged_spec import has_ragged, row_spec
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec


class Flattened(CountingStage):
    """Blocks of batches as blocks of rows, of any length; only ``UnbatchStage`` pulls it."""

    def __init__(self, source: Stage, spec: ElementSpec, operation: str):
        super().__init__(source)
        self._operation = operation
        self.ragged = has_ragged(spec)
        self._spec = spec
        self._rows = 1

    def next(self, limit: int) -> Block | None:
        block = self._carry.peek(max(1, limit // self._rows))
        if block is None:
            return None
        if self.ragged:
            return self._batch_of_rows(block)
        sizes = {column.shape[1] for column in block.columns}
        if not block.n:
            # Empty columns stand in for dimensions that vary: their sizes mean nothing.
            self._use(block.events)
            return _failed(block, block.error)
        if len(sizes) > 1:
            error = self._uneven(sizes, self._position)
            self._use(1)
            return _failed(block, error)
        self._use(block.events)
        self._rows = max(1, sizes.pop())
        rows = block.n * block.columns[0].shape[1]
        columns = [column.reshape(rows, *column.shape[2:]) for column in block.columns]
        return Block(columns, rows, block.error)

    def _batch_of_rows(self, block: Block) -> Block:
        """The rows of one batch that has ragged leaves."""
        if not block.n:
            self._use(block.events)
            return self._nothing(block.error)
        batch = [column[0] for column in block.columns]
        sizes = set(map(len, batch))
        position = self._position
        self._use(1)
        if len(sizes) > 1:
            return self._nothing(self._uneven(sizes, position))
        columns = [_rows(leaf) if isinstance(leaf, RaggedArray) else leaf for leaf in batch]
        return Block(columns, sizes.pop())

    def _uneven(self, sizes: set[int], index: int) -> ValueError:
        return ValueError(
            f"{self._operation} needs leaves with equal first dimensions; element {index} has "
            f"{sorted(sizes)}"
        )

    def _nothing(self, error: Exception | None) -> Block:
        rows = [row_spec(leaf) for leaf in self._spec.leaves]
        return Block(stack([], self._spec.with_leaves(rows)), 0, error)

    def describe(self) -> str:
        return "rows of batches"


class UnbatchStage(ServingStage):
    """The rows of each batch as elements."""

    def __init__(self, source: Stage, spec: ElementSpec, operation: str = "unbatch"):
        super().__init__(Flattened(source, spec, operation))

    def describe(self) -> str:
        return "unbatch"


def _rows(batch: RaggedArray) -> Any:
    return batch if batch.ragged_rank == 1 else objects(batch)


def _failed(block: Block, error: Exception | None) -> Block:
    return Block([c[:0].reshape(0, *c.shape[2:]) for c in block.columns], 0, error)
