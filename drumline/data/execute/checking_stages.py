"""``ignore_errors`` and ``assert_cardinality``."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from drumline.data.cardinality import INFINITE
from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State
from drumline.data.operations.checks import ErrorCount
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec

_logger = logging.getLogger("drumline.data")


class IgnoreErrorsStage(Stage):
    """Leaves errors out, and counts them."""

    def __init__(self, source: Stage, count: ErrorCount, log_warning: bool):
        self.source = source
        self.count = count
        self.log_warning = log_warning
        self.eager = source.eager
        self.granule = source.granule

    def next(self, limit: int) -> Block | None:
        while (block := self.source.next(limit)) is not None:
            if block.error is not None:
                self.count.add()
                if self.log_warning:
                    _logger.warning(
                        "ignore_errors: %s: %s", type(block.error).__name__, block.error
                    )
            if block.n:
                return Block(block.columns, block.n)
        return None

    def state(self) -> State:
        return {"input": self.source.state()}

    def restore(self, state: State) -> None:
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"ignore errors ({self.count.value} so far)"


class AssertCardinalityStage(Stage):
    """An error in place of the end, or of the element, that should not be there."""

    def __init__(self, source: Stage, expected: int, spec: ElementSpec):
        self.source = source
        self.expected = expected
        self.spec = spec
        self.eager = source.eager
        self.granule = source.granule
        self._position = 0
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        missing = limit if self.expected == INFINITE else self.expected - self._position
        block = self.source.next(min(limit, missing) if missing else 1)
        if block is not None and missing:
            self._position += block.events
            return block
        self._ended = True
        if block is None and self._position == self.expected:
            return None
        found = f"only {self._position}" if block is None else f"at least {self._position + 1}"
        number = "infinitely many" if self.expected == INFINITE else self.expected
        error = ValueError(
            f"assert_cardinality: {number} elements were expected, there are {found}"
        )
        return Block(stack([], self.spec), 0, error)

    def state(self) -> State:
        return {"position": self._position, "ended": self._ended, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._position, self._ended = state["position"], state["ended"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"assert cardinality {self.expected}"
