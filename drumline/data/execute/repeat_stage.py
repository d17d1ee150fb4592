"""The input again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State

Make = Callable[[int, list[bool] | None], tuple[Stage, list[bool]]]


class RepeatStage(Stage):
    """``count`` passes over an input that is made anew for each pass; ``None`` never ends.

    Args:
        make: returns the input's stage for the n-th pass, so that shuffles differ between passes,
            and which caches it serves elements from. Takes the latter to make a pass once more;
            ``None`` serves from those that are full by now.
        count: how many passes; ``None`` without end.
    """

    def __init__(self, make: Make, count: int | None):
        self.count = count
        self._make = make
        self._pass = 0
        self._source, self._caches = make(0, None)
        self._seen = False
        self.eager = self._source.eager
        self.granule = self._source.granule

    def next(self, limit: int) -> Block | None:
        while self.count is None or self._pass < self.count:
            block = self._source.next(limit)
            if block is not None:
                self._seen = True
                return block
            if self.count is None and not self._seen:
                return None
            self._start(self._pass + 1)
        return None

    def _start(self, number: int, caches: list[bool] | None = None) -> None:
        self._pass = number
        self._seen = False
        self._source.close()
        if self.count is None or number < self.count:
            self._source, self._caches = self._make(number, caches)

    def state(self) -> State:
        if self.count is not None and self._pass >= self.count:
            return {"pass": self._pass}
        return {
            "pass": self._pass,
            "seen": self._seen,
            "caches": self._caches,
            "input": self._source.state(),
        }

    def restore(self, state: State) -> None:
        if state["pass"] != self._pass:
            self._start(state["pass"], state.get("caches"))
        if "input" in state:
            self._seen = state["seen"]
            self._source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self._source]

    def describe(self) -> str:
        return "repeat" if self.count is None else f"repeat {self.count}"
