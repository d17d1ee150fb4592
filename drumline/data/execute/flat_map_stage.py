"""The elements of inner datasets, one dataset after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence

from drumline.data.execute.block import Block, concat
from drumline.data.execute.openings import Opened, Openings
from drumline.data.execute.stage import Stage, State
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec

_PATIENCE = 0.002
_LARGE = 1 << 16
_MANY = 512


class FlatMapStage(Stage):
    """Goes through the dataset of each outer element.

    Short datasets are joined to one block, for as long as that
    takes little time and they are small.
    """

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
        parts: list[Block] = []
        rows = 0
        deadline = time.perf_counter() + _PATIENCE
        while rows < limit:
            part = self._peek(limit - rows)
            if part is None or (parts and part.n and not parts[-1].same_shapes(part)):
                break
            if self._inner is not None:
                self._inner.elements.commit(part.events)
            if part.n:
                parts.append(part)
                rows += part.n
            if part.error is not None:
                return self._joined(parts, part.error)
            if part.n >= _MANY or _nbytes(part) > _LARGE or time.perf_counter() > deadline:
                break
        return self._joined(parts, None) if parts else None

    def _peek(self, limit: int) -> Block | None:
        """What comes next, of as many datasets as are empty; an error if none can be opened."""
        while True:
            if self._inner is None:
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

    def _joined(self, parts: list[Block], error: Exception | None) -> Block:
        if not parts:
            return Block(stack([], self._spec), 0, error)
        clean = [Block(part.columns, part.n) for part in parts]
        whole = concat(clean)
        return Block([column[: whole.n] for column in whole.columns], whole.n, error)

    def state(self) -> State:
        return self._openings.state([self._inner])

    def restore(self, state: State) -> None:
        (self._inner,) = self._openings.restore(state)

    def inputs(self) -> Sequence[Stage]:
        return [self._openings.source]

    def describe(self) -> str:
        return f"elements of {self._label}"

    def close(self) -> None:
        if self._inner is not None:
            self._inner.elements.stage.close()
        self._openings.close()


def _nbytes(block: Block) -> int:
    return sum(column.nbytes for column in block.columns)
