"""Which dataset the next elements are taken of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drumline.data.execute.carry import Carry
from drumline.data.execute.stage import Stage, State
from drumline.data.execute.uniform import uniform

Numbers = tuple[np.ndarray, Exception | None]
"""Numbers of datasets, int64 (k,), and perhaps the error that stands for a further one."""


class Choices:
    """A sequence of datasets' numbers that can be resumed at any point."""

    eager = True

    def peek(self, limit: int) -> Numbers | None:
        """Up to ``limit`` of the next numbers; ``None`` at the end."""
        raise NotImplementedError

    def commit(self, count: int) -> None:
        """Marks the first ``count`` of what ``peek`` gave, error included, as used."""
        raise NotImplementedError

    def state(self) -> State:
        """The position, for ``restore``."""
        raise NotImplementedError

    def restore(self, state: State) -> None:
        """Moves fresh choices to ``state``."""
        raise NotImplementedError

    def inputs(self) -> Sequence[Stage]:
        """The stages they are read from."""
        return []

    def describe(self) -> str:
        """A few words for ``explain()``."""
        raise NotImplementedError


class Weighted(Choices):
    """Drawn with constant weights."""

    def __init__(self, weights: Sequence[float], key: int):
        self._sums = np.cumsum(np.asarray(weights, np.float64))
        self._key = key
        self._drawn = 0

    def peek(self, limit: int) -> Numbers:
        marks = uniform(self._key, self._drawn, limit) * self._sums[-1]
        return np.searchsorted(self._sums, marks, side="right"), None

    def commit(self, count: int) -> None:
        self._drawn += count

    def state(self) -> State:
        return {"drawn": self._drawn}

    def restore(self, state: State) -> None:
        self._drawn = state["drawn"]

    def describe(self) -> str:
        return "at random"


class Read(Choices):
    """Elements of a stage."""

    def __init__(self, source: Stage):
        self.eager = source.eager
        self._source = source
        self._carry = Carry(source)
        self._read = 0

    def peek(self, limit: int) -> Numbers | None:
        block = self._carry.peek(limit)
        if block is None:
            return None
        return block.columns[0][: block.n], block.error

    def commit(self, count: int) -> None:
        self._carry.commit(count)
        self._read += count

    def state(self) -> State:
        return {"read": self._read, "input": self._carry.state()}

    def restore(self, state: State) -> None:
        self._read = state["read"]
        self._carry.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self._source]

    def describe(self) -> str:
        return "by the first"


class WeightedAnew(Read):
    """Drawn with weights that a stage gives, float (m,) for each draw."""

    def __init__(self, source: Stage, key: int):
        super().__init__(source)
        self._key = key

    def peek(self, limit: int) -> Numbers | None:
        found = super().peek(limit)
        if found is None:
            return None
        weights, error = np.asarray(found[0], np.float64), found[1]
        wrong = (weights < 0).any(axis=1) | ~(weights.sum(axis=1) > 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            error = ValueError(
                f"sample_from_datasets: the weights of draw {self._read + row} must be at least 0, "
                f"and one of them positive; they are {weights[row].tolist()}"
            )
            weights = weights[:row]
        sums = np.cumsum(weights, axis=1)
        marks = uniform(self._key, self._read, len(weights))
        if not len(weights):
            return np.empty(0, np.int64), error
        return (sums <= (marks * sums[:, -1])[:, None]).sum(axis=1), error

    def describe(self) -> str:
        return "at random, with weights of the last"
