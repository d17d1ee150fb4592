"""Elements for which a predicate holds."""

from __future__ import annotations

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage, ServingStage
from drumline.data.execute.stage import Stage
from drumline.data.functions.call import BlockFunction


class Predicate(CountingStage):
    """Whole blocks without the elements that fail the test; only ``FilterStage`` pulls it.

    Where reading ahead cannot be noticed it ignores ``limit`` and evaluates a whole block: padding
    a short one costs the same.
    """

    def __init__(self, source: Stage, function: BlockFunction):
        super().__init__(source)
        self.function = function
        self.granule = max(source.granule, function.block_length)

    def next(self, limit: int) -> Block | None:
        wanted = self.granule if self.eager and self.granule > 1 else limit
        block = self._carry.peek(self.function.limit(wanted))
        if block is None:
            return None
        start = self._position
        verdict = self.function(block, lambda row: start + row)
        self._use(verdict.events)
        keep = verdict.columns[0]
        kept = Block([c[: verdict.n] for c in block.columns], verdict.n)
        out = kept if keep.all() else kept.select(keep)
        out.error = verdict.error
        return out

    def describe(self) -> str:
        return f"predicate {self.function.describe()}"


class FilterStage(ServingStage):
    """Serves what a ``Predicate``, evaluated on whole blocks, let through."""

    def __init__(self, source: Stage, function: BlockFunction):
        super().__init__(Predicate(source, function))

    def describe(self) -> str:
        return "keep where true"
