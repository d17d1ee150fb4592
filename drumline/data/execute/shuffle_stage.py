"""A shuffle buffer over a stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline._core import ShuffleIndices
from drumline.data.execute.block import Block
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.ramp import TARGET_BYTES
from drumline.data.execute.row_store import RowStore
from drumline.data.execute.stage import Stage, State
from drumline.data.spec import ElementSpec

_CHUNK = 1024

EVERYTHING = 2**62
"""The size of a buffer for all elements, however many there are."""


class ShuffleStage(Stage):
    """The same order as ``Shuffled`` gives over positions, for inputs that must be read in order.

    Its state is the number of elements delivered: restoring reads the input again from its start.
    """

    def __init__(
        self, source: Stage, buffer_size: int, key: int, spec: ElementSpec, pool: BufferPool
    ):
        self.source = source
        self.buffer_size = buffer_size
        self.eager = source.eager
        self._spec = spec
        self._indices = ShuffleIndices(key, buffer_size, None)
        self._most = buffer_size + max(TARGET_BYTES // spec.row_nbytes(), source.granule)
        self._store = RowStore(spec, pool, self._most)
        self._arrived = 0
        self._ended = False
        self._drawn = np.empty(0, np.int64)
        self._delivered = 0

    def next(self, limit: int) -> Block | None:
        if not len(self._drawn):
            self._drawn = self._draw(limit)
        if not len(self._drawn):
            return None
        block = self._store.take(self._drawn[:limit])
        self._drawn = self._drawn[block.events :]
        self._delivered += block.events
        return block

    def _draw(self, limit: int) -> np.ndarray:
        count = min(limit, _CHUNK)
        self._fill(self._indices.needed(count))
        return self._indices.next(count)

    def _fill(self, needed: int) -> None:
        while self._arrived < needed and not self._ended:
            missing = needed - self._arrived
            granule = self.source.granule if self.eager else 1
            block = self.source.next(-(-missing // granule) * granule)
            if block is None:
                self._ended = True
                self._indices.set_length(self._arrived)
            else:
                self._store.put(self._arrived, block)
                self._arrived += block.events

    def state(self) -> State:
        return {"delivered": self._delivered}

    def restore(self, state: State) -> None:
        missing = state["delivered"]
        while missing > 0 and len(numbers := self._draw(missing)):
            self._store.drop(numbers)
            missing -= len(numbers)
            self._delivered += len(numbers)

    def most_nbytes(self) -> int | None:
        if self.buffer_size == EVERYTHING:
            return None
        static = all(leaf.nbytes is not None for leaf in self._spec.leaves)
        # What it holds is copied when it grows.
        return 2 * self._most * self._spec.row_nbytes() if static else None

    def held_nbytes(self) -> int:
        return self._store.nbytes

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        size = "all elements" if self.buffer_size == EVERYTHING else self.buffer_size
        return f"shuffle rows (buffer of {size})"
