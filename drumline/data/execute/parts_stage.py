"""Elements of directories that are read as a whole."""

from __future__ import annotations

import bisect
import itertools
from pathlib import Path

from drumline.data.execute.block import Block
from drumline.data.execute.dense_stage import ragged_rows
from drumline.data.execute.stage import Stage, State
from drumline.data.plan.sources import StoredParts
from drumline.data.store.directory import StoredElements, read_directory


class PartsStage(Stage):
    """Goes through the directories in order and holds one of them in memory."""

    def __init__(self, node: StoredParts):
        self.ragged = ragged_rows(node.spec)
        self._node = node
        self._starts = [0, *itertools.accumulate(node.lengths)]
        self._position = 0
        self._held: tuple[int, StoredElements] | None = None

    def next(self, limit: int) -> Block | None:
        if self._position >= self._starts[-1]:
            return None
        which = bisect.bisect_right(self._starts, self._position) - 1
        start = self._position - self._starts[which]
        stop = min(start + limit, self._node.lengths[which])
        columns = [column[start:stop] for column in self._part(which).columns]
        self._position += stop - start
        return Block(columns, stop - start)

    def _part(self, which: int) -> StoredElements:
        if self._held is None or self._held[0] != which:
            self._held = None
            self._held = (which, self._read(Path(self._node.paths[which]), which))
        return self._held[1]

    def _read(self, path: Path, which: int) -> StoredElements:
        found = read_directory(path)
        expected = self._node.lengths[which]
        if found.length != expected or found.spec.leaves != self._node.spec.leaves:
            raise ValueError(
                f"{path} holds {found.length} x {found.spec.leaves}, the directory around it says "
                f"{expected} x {self._node.spec.leaves}: store the dataset again"
            )
        return found

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = state["position"]

    def advance(self, count: int) -> None:
        self._position = min(self._position + count, self._starts[-1])

    def describe(self) -> str:
        return f"stored elements ({self._starts[-1]}, compressed, {len(self._node.paths)} parts)"

    def close(self) -> None:
        self._held = None
