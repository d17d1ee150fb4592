"""Elements of directories that are read as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.data.execute.dense_stage import ragged_rows
from drumline.data.execute.parts_stage import PartsStage
from drumline.data.operations.sources import StoredParts
from drumline.data.store.directory import StoredElements, read_directory


class StoredPartsStage(PartsStage):
    """Goes through the directories in order and holds one of them in memory."""

    def __init__(self, node: StoredParts):
        super().__init__(node.lengths)
        self.ragged = ragged_rows(node.spec)
        self._node = node
        self._held: tuple[int, StoredElements] | None = None

    def part(self, which: int) -> Sequence[Any]:
        if self._held is None or self._held[0] != which:
            self._held = None
            self._held = (which, self._read(Path(self._node.paths[which]), which))
        return self._held[1].columns

    def _read(self, path: Path, which: int) -> StoredElements:
        found = read_directory(path)
        expected = self._node.lengths[which]
        if found.length != expected or found.spec.leaves != self._node.spec.leaves:
            raise ValueError(
                f"{path} holds {found.length} x {found.spec.leaves}, the directory around it says "
                f"{expected} x {self._node.spec.leaves}: store the dataset again"
            )
        return found

    def describe(self) -> str:
        return f"stored elements ({self.length}, compressed, {len(self._node.paths)} parts)"

    def close(self) -> None:
        self._held = None
