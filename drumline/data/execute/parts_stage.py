"""Elements that lie in parts, one after the other."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State


class PartsStage(Stage):
    """Goes through parts at hand in order; its state is a position, to which it jumps.

    Args:
        lengths: of each part the number of elements.
    """

    def __init__(self, lengths: Iterable[int]):
        self._starts = [0, *itertools.accumulate(lengths)]
        self._position = 0

    @property
    def length(self) -> int:
        """How many elements there are."""
        return self._starts[-1]

    def part(self, which: int) -> Sequence[Any]:
        """The columns of a part."""
        raise NotImplementedError

    def next(self, limit: int) -> Block | None:
        if self._position >= self.length:
            return None
        which = bisect.bisect_right(self._starts, self._position) - 1
        first, end = self._starts[which], self._starts[which + 1]
        start, stop = self._position, min(self._position + limit, end)
        columns = [column[start - first : stop - first] for column in self.part(which)]
        self._position = stop
        return Block(columns, stop - start)

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = state["position"]

    def advance(self, count: int) -> None:
        self._position = min(self._position + count, self.length)
