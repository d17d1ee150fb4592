"""Datasets whose elements can be made in any order."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.order import Index
from drumline.data.execute.stage import Described


class Indexed(Described):
    """Random access to ``length`` elements, by position.

    A chain of these (a source, then maps, ``enumerate``, ``zip``, ``take``, ...) has no state but
    the position, which is what makes shuffles cheap and resuming exact.
    """

    length: int = 0
    granule: int = 1

    def rows(self, index: Index) -> Block:
        """The elements at ``index``: all of them, or those before the first that failed.

        Args:
            index: a ``range`` of step 1, or an int64 array (k,), within ``0 <= i < length``.
        """
        raise NotImplementedError

    def limit(self, wanted: int) -> int:
        """How many elements to ask for at once when ``wanted`` are needed."""
        return min(
            (p.limit(wanted) for p in self.parts() if isinstance(p, Indexed)), default=wanted
        )

    def parts(self) -> Sequence[Described]:
        """What this is made of."""
        return []
