"""Runs of elements as datasets."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block, concat
from drumline.data.execute.carry import Carry
from drumline.data.execute.held_rows import held_rows
from drumline.data.execute.stage import Stage, State
from drumline.data.plan.nesting import Window
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec
from drumline.data.structure import LEAF_STRUCTURE
from drumline.data.wrapping import as_dataset


class WindowStage(Stage):
    """A dataset for each leaf, of every ``stride``-th of ``span`` elements.

    Its state is where the next window begins: the blocks that reach into it are read again.
    """

    def __init__(self, source: Stage, node: Window):
        self.source = source
        self.node = node
        self.eager = source.eager
        self._carry = Carry(source)
        self._specs = [ElementSpec(LEAF_STRUCTURE, (leaf,)) for leaf in node.input.spec.leaves]
        self._held: deque[tuple[State, Block]] = deque()
        self._whole: Block | None = None
        self._have = 0
        self._skip = 0
        self._ended = False

    def next(self, limit: int) -> Block | None:
        node = self.node
        self._fill(node.span + (limit - 1) * node.shift)
        starts = range(0, min(limit * node.shift, self._have), node.shift)
        if node.drop_remainder:
            starts = range(0, min(starts.stop, self._have - node.span + 1), node.shift)
        if not len(starts):
            return None
        self._join()
        windows: list[list[Any]] = []
        error: Exception | None = None
        for start in starts:
            blocks = self._slices(start, min(start + node.span, self._have))
            error = next((block.error for block in blocks if block.error is not None), None)
            if error is not None:
                break
            windows.append(self._datasets(blocks))
        self._drop((len(windows) + (error is not None)) * node.shift)
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

    def _slices(self, start: int, stop: int) -> list[Block]:
        """The positions of a window, every ``stride``-th, as views."""
        stride = self.node.stride
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
        return None

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"windows ({self.node.arguments()})"


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
