"""Elements that did not come before."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.ramp import MAX_ELEMENTS
from drumline.data.execute.stage import Stage, State
from drumline.data.spec import STRING


class UniqueStage(Stage):
    """Remembers all elements it has seen.

    Its state is the number of elements read: restoring reads the input again from its start.
    """

    def __init__(self, source: Stage):
        self.source = source
        self.eager = source.eager
        self.granule = source.granule
        self._seen: set[Hashable] = set()
        self._position = 0

    def next(self, limit: int) -> Block | None:
        while (block := self.source.next(limit)) is not None:
            new = self._new(block)
            out = block if len(new) == block.n else block.select(_mask(new, block.n))
            out.error = block.error
            if out.events:
                return out
        return None

    def _new(self, block: Block) -> list[int]:
        self._position += block.events
        seen, before = self._seen, len(self._seen)
        keys = _keys(block.columns[0]) if block.n else []
        new = []
        for row, key in enumerate(keys):
            seen.add(key)
            if len(seen) > before:
                before += 1
                new.append(row)
        return new

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        while (missing := state["position"] - self._position) > 0:
            block = self.source.next(min(missing, MAX_ELEMENTS))
            if block is None:
                return
            self._new(block)

    def most_nbytes(self) -> int | None:
        return None

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"unique ({len(self._seen)} seen)"


def _keys(column: np.ndarray) -> list[Any]:
    if column.ndim == 1:
        return list(column.tolist())
    if column.dtype == STRING:
        return [(row.shape, tuple(row.reshape(-1))) for row in column]
    return [(row.shape, row.tobytes()) for row in column]


def _mask(rows: list[int], n: int) -> np.ndarray:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask
