"""Stacked windows cut up: what ``window`` and ``flat_map`` become that give several of each."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import UNKNOWN
from drumline.data.plan.node import Specified


@dataclasses.dataclass(frozen=True, eq=False)
class WindowPieces(Specified):
    """The rows of stacked windows, or batches of them that never reach into the next window.

    Attributes:
        size: of the batches; ``None`` gives the rows themselves.
        drop_remainder: whether the rows that are left of a window are left out.
        most: how many pieces a full window has.
    """

    size: int | None
    drop_remainder: bool
    most: int
    name: ClassVar[str] = "window_pieces"

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    def arguments(self) -> str:
        return "rows" if self.size is None else f"{self.size}, drop_remainder={self.drop_remainder}"
