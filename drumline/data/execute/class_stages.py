"""Elements dropped by class, so that the classes have the shares that are wanted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage, ServingStage
from drumline.data.execute.stage import Stage, State
from drumline.data.execute.uniform import uniform
from drumline.data.functions.notes import at_element

_SMOOTHING = 10
"""How many elements of each class are taken for seen before the first, as in ``tf.data``."""


class Shares:
    """The classes' shares among the elements, given or counted.

    Attributes:
        counts: how many elements of each class were seen, if they are counted.
    """

    def __init__(self, target: Sequence[float], initial: Sequence[float] | None):
        self.target = np.asarray(target, np.float32)
        self._initial = None if initial is None else np.asarray(initial, np.float32)
        self.counts = np.full(len(self.target), _SMOOTHING, np.int64)

    def ratios(self, classes: np.ndarray) -> np.ndarray:
        """After each element, wanted by actual share for each class.

        Args:
            classes: (n,), which are counted by this.

        Returns:
            float32 (n, number of classes), or (1, ...) if the shares are given.
        """
        if self._initial is not None:
            return ratios(self.target, self._initial)[None]
        seen = np.cumsum(classes[:, None] == np.arange(len(self.target)), axis=0) + self.counts
        if len(seen):
            self.counts = seen[-1]
        return ratios(self.target, (seen / seen.sum(axis=1, keepdims=True)).astype(np.float32))


def ratios(target: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Wanted by actual share."""
    return target / (initial + np.finfo(np.float32).tiny)


class ByClassStage(CountingStage):
    """What the stages here have in common: the state of the shares."""

    def __init__(self, source: Stage, shares: Shares):
        super().__init__(source)
        self.granule = source.granule
        self._shares = shares

    def _peek(self, limit: int) -> tuple[Block, np.ndarray] | None:
        """A block and its classes; one that is not among the known ends it with an error."""
        block = self._carry.peek(limit)
        if block is None:
            return None
        classes = block.columns[0][: block.n]
        known = len(self._shares.target)
        wrong = (classes < 0) | (classes >= known)
        if not wrong.any():
            return block, classes
        row = int(np.argmax(wrong))
        error = IndexError(f"class_func returned {classes[row]}, but there are {known} classes")
        at_element(error, self._position + row, "rejection_resample")
        columns = [column[:row] for column in block.columns]
        return Block(columns, row, error), classes[:row]

    def state(self) -> State:
        return {**super().state(), "counts": self._shares.counts.tolist()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._shares.counts = np.array(state["counts"], np.int64)


class Thinned(ByClassStage):
    """Blocks without what is rejected; only ``ThinStage`` pulls it."""

    def __init__(self, source: Stage, shares: Shares, key: int):
        super().__init__(source, shares)
        self._key = key

    def next(self, limit: int) -> Block | None:
        found = self._peek(limit)
        if found is None:
            return None
        block, classes = found
        wanted = self._shares.ratios(classes)
        least = wanted.min(axis=1, keepdims=True)
        # Equal ratios everywhere: 0 / 0, nothing is accepted; all comes from the original then.
        with np.errstate(invalid="ignore"):
            accept = (wanted - least) / (wanted.max(axis=1, keepdims=True) - least)
        mine = accept[np.minimum(np.arange(block.n), len(accept) - 1), classes]
        keep = uniform(self._key, self._position, block.n) < mine
        self._use(block.events)
        out = block.select(keep)
        out.error = block.error
        return out

    def describe(self) -> str:
        return "reject by class"


class ThinStage(ServingStage):
    """Serves what a ``Thinned`` let through."""

    def __init__(self, source: Stage, shares: Shares, key: int):
        super().__init__(Thinned(source, shares, key))

    def describe(self) -> str:
        return "what was accepted"


class OriginalShareStage(ByClassStage):
    """After each element, the weights of the original and of the thinned dataset."""

    def next(self, limit: int) -> Block | None:
        found = self._peek(limit)
        if found is None:
            return None
        block, classes = found
        self._use(block.events)
        share = np.broadcast_to(self._shares.ratios(classes).min(axis=1), block.n)
        share = np.minimum(share.astype(np.float64), 1.0)
        return Block([np.stack([share, 1.0 - share], axis=1)], block.n, block.error)

    def describe(self) -> str:
        return "share of the original, by classes seen"
