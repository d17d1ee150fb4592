"""Runs of elements as datasets."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data._dataset.base import as_dataset
from drumline.data.execute.block import Block, concat
from drumline.data.execute.block_size import estimated_nbytes
from drumline.data.execute.carry import Carry
from drumline.data.execute.held_rows import held_rows
from drumline.data.execute.ramp import TARGET_BYTES
from drumline.data.execute.stage import Stage, State
from drumline.data.operations.nested.windows import Window
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec
from drumline.data.structure import LEAF_STRUCTURE


class WindowStage(Stage):
    """A dataset for each leaf, of every ``stride``-th of ``span`` elements.

    Its state is where the next window begins: the blocks that reach into it are read again.
    """

    def __init__(self, source: Stage, node: Window):
        self.source = source
        self.node = node
        self.eager = source.eager
        self._carry = Carry(source)
        self._row_nbytes = node.input.spec.row_nbytes()
        self._most = max(1, TARGET_BYTES // (node.shift * self._row_nbytes))
        self._specs = [ElementSpec(LEAF_STRUCTURE, (leaf,)) for leaf in node.input.spec.leaves]
        self._held: deque[tuple[State, Block]] = deque()
        self._whole: Block | None = None
        self._have = 0
        self._skip = 0
        self._ended = False

    def next(self, limit: int) -> Block | None:
        starts = self._starts(limit)
        if not starts:
            return None
        block = self._made(starts)
        self._drop(block.events * self.node.shift)
        return block

    def _starts(self, limit: int) -> range:
        """Where the next windows begin, up to ``limit`` of them, and reads what is in them."""
        node = self.node
        limit = min(limit, self._most)
        self._fill(node.span + (limit - 1) * node.shift)
        starts = range(0, min(limit * node.shift, self._have), node.shift)
        if node.drop_remainder:
            starts = range(0, min(starts.stop, self._have - node.span + 1), node.shift)
        if starts:
            self._join()
        return starts

    def _made(self, starts: range) -> Block:
        """The elements for windows from the first of ``starts`` on, at least one position."""
        windows: list[list[Any]] = []
        error: Exception | None = None
        for start in starts:
            blocks = self._slices(start)
            error = error_among(blocks)
            if error is not None:
                break
            windows.append(self._datasets(blocks))
        return Block(self._columns(windows), len(windows), error)

    def _fill(self, wanted: int) -> None:
        """Reads until so many positions from the next window's beginning on are here."""
        while not self._ended and (self._skip or self._have < wanted):
            before = self._carry.state()
            block = self._carry.pull(self._skip or wanted - self._have)
            if block is None:
                self._ended = True
            elif self._skip:
                self._skip -= block.events
            else:
                self._held.append((before, block))
                self._have += block.events

    def _join(self) -> None:
        """Makes one block of those held, so that windows are views, where shapes allow it."""
        blocks = [block for _, block in self._held]
        if len(blocks) > 1 and all(
            block.error is None and block.same_shapes(blocks[0]) for block in blocks
        ):
            whole = concat(blocks)
            start = 0
            for i, block in enumerate(blocks):
                self._held[i] = (self._held[i][0], whole.slice(start, start + block.n))
                start += block.n
            self._whole = whole
        else:
            self._whole = blocks[0] if len(blocks) == 1 else None

    def _slices(self, start: int) -> list[Block]:
        """The positions of the window that begins there, every ``stride``-th, as views."""
        stride, stop = self.node.stride, min(start + self.node.span, self._have)
        if self._whole is not None:
            return [_strided(self._whole, start, stop, stride)]
        found: list[Block] = []
        first = 0
        for _, block in self._held:
            begin = max(start, first)
            begin += -(begin - start) % stride
            if begin < min(stop, first + block.events):
                found.append(
                    _strided(block, begin - first, min(stop - first, block.events), stride)
                )
            first += block.events
        return found

    def _datasets(self, blocks: Sequence[Block]) -> list[Any]:
        return [
            as_dataset(held_rows([Block([block.columns[i]], block.n) for block in blocks], spec))
            for i, spec in enumerate(self._specs)
        ]

    def _columns(self, windows: list[list[Any]]) -> list[np.ndarray]:
        columns = stack([], self.node.spec)
        if windows:
            columns = [np.empty(len(windows), object) for _ in columns]
            for i, column in enumerate(columns):
                for row, window in enumerate(windows):
                    column[row] = window[i]
        return columns

    def _drop(self, count: int) -> None:
        """Leaves the first ``count`` positions behind."""
        while count > 0 and self._held:
            before, block = self._held[0]
            if block.events > count:
                self._held[0] = (_later(before, count), block.slice(count, block.events))
                self._have -= count
                return
            count -= block.events
            self._have -= block.events
            self._held.popleft()
        self._skip += count

    def state(self) -> State:
        at = self._held[0][0] if self._held else self._carry.state()
        return {"skip": self._skip, "input": at}

    def restore(self, state: State) -> None:
        self._skip = state["skip"]
        self._carry.restore(state["input"])

    def most_nbytes(self) -> int | None:
        static = all(leaf.nbytes is not None for leaf in self.node.input.spec.leaves)
        rows = self.node.span * self._row_nbytes
        # Those that are left are copied to those that are read.
        return 2 * (rows + max(TARGET_BYTES, self._row_nbytes)) if static else None

    def held_nbytes(self) -> int:
        return sum(estimated_nbytes(block) for _, block in self._held)

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"windows ({self.node.arguments()})"


def error_among(blocks: Sequence[Block]) -> Exception | None:
    """The first error."""
    return next((block.error for block in blocks if block.error is not None), None)


def _later(state: State, count: int) -> State:
    """A carry's state, so many positions later."""
    return {"at": state["at"], "used": state.get("used", 0) + count}


def _strided(block: Block, start: int, stop: int, stride: int) -> Block:
    """Every ``stride``-th position; an error among them comes last."""
    rows = Block([column[start : min(stop, block.n) : stride] for column in block.columns], 0)
    rows.n = len(range(start, min(stop, block.n), stride))
    if block.error is not None and stop > block.n and (block.n - start) % stride == 0:
        rows.error = block.error
    return rows
