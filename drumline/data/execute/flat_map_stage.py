"""The elements of inner datasets, one dataset after the other."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.joining import joined_runs
from drumline.data.execute.openings import Opened, Openings
from drumline.data.execute.stage import Stage, State
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec

_PATIENCE = 0.008
"""Seconds after which no further datasets are joined: opening them together takes some."""


class FlatMapStage(Stage):
    """Goes through the dataset of each outer element; short ones are joined to one block."""

    def __init__(
        self,
        openings: Openings,
        spec: ElementSpec,
        label: str,
        eager: bool,
        ragged: bool = False,
    ):
        self.ragged = ragged
        self.eager = eager and openings.source.eager
        self._openings = openings
        self._spec = spec
        self._label = label
        self._inner: Opened | None = None

    def next(self, limit: int) -> Block | None:
        return joined_runs(self._peek, self._use, limit, self._spec, _PATIENCE)

    def _use(self, positions: int) -> None:
        if self._inner is not None:
            self._inner.elements.commit(positions)

    def _peek(self, limit: int) -> Block | None:
        """What comes next, of as many datasets as are empty; an error if none can be opened."""
        while True:
            if self._inner is None:
                if self.eager:
                    self._openings.gather(limit)
                opened = self._openings.next()
                if opened is None:
                    return None
                if isinstance(opened, Exception):
                    return Block(stack([], self._spec), 0, opened)
                self._inner = opened
            part = self._inner.elements.peek(limit)
            if part is not None:
                return part
            self._inner.elements.stage.close()
            self._inner = None

    def state(self) -> State:
        return self._openings.state([self._inner])

    def restore(self, state: State) -> None:
        (self._inner,) = self._openings.restore(state)

    def most_nbytes(self) -> int | None:
        return self._openings.most_nbytes(1, self._spec.row_nbytes())

    def held_nbytes(self) -> int:
        return self._openings.held_nbytes([self._inner])

    def inputs(self) -> Sequence[Stage]:
        return [self._openings.source]

    def describe(self) -> str:
        return f"elements of {self._label}"

    def close(self) -> None:
        if self._inner is not None:
            self._inner.elements.stage.close()
        self._openings.close()
