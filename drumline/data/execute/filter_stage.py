"""Elements for which a predicate holds."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.carry import Carry
from drumline.data.execute.stage import Stage, State
from drumline.data.functions.call import BlockFunction


class Predicate(Stage):
    """Whole blocks without the elements that fail the test; only ``FilterStage`` pulls it.

    Where reading ahead cannot be noticed it ignores ``limit`` and evaluates a whole block: padding
    a short one costs the same.
    """

    def __init__(self, source: Stage, function: BlockFunction):
        self.source = source
        self.function = function
        self.eager = source.eager
        self.granule = max(source.granule, function.block_length)
        self._carry = Carry(source)
        self._position = 0

    def next(self, limit: int) -> Block | None:
        wanted = self.granule if self.eager and self.granule > 1 else limit
        block = self._carry.peek(self.function.limit(wanted))
        if block is None:
            return None
        start = self._position
        verdict = self.function(block, lambda row: start + row)
        self._carry.commit(verdict.events)
        self._position += verdict.events
        keep = verdict.columns[0]
        kept = Block([c[: verdict.n] for c in block.columns], verdict.n)
        out = kept if keep.all() else kept.select(keep)
        out.error = verdict.error
        return out

    def state(self) -> State:
        return {"position": self._position, "input": self._carry.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self._carry.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"predicate {self.function.describe()}"


class FilterStage(Stage):
    """Serves what a ``Predicate`` let through.

    A predicate is evaluated on whole blocks where reading ahead cannot be noticed; what was not
    asked for yet waits here.
    """

    def __init__(self, source: Stage, function: BlockFunction):
        self.predicate = Predicate(source, function)
        self.eager = source.eager
        self._carry = Carry(self.predicate)

    def next(self, limit: int) -> Block | None:
        while True:
            block = self._carry.pull(limit)
            if block is None or block.events:
                return block

    def state(self) -> State:
        return self._carry.state()

    def restore(self, state: State) -> None:
        self._carry.restore(state)

    def inputs(self) -> Sequence[Stage]:
        return [self.predicate]

    def describe(self) -> str:
        return "keep where true"
