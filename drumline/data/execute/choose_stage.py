"""Elements of several streams, each time of one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.carry import Carry
from drumline.data.execute.choices import Choices
from drumline.data.execute.pool import BufferPool
from drumline.data.execute.stage import Stage, State
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec


@dataclasses.dataclass
class _Stop:
    """Where a block ends: before the draw ``place``, whose outcome may be an error."""

    place: int
    error: Exception | None = None
    failing: int | None = None
    ended: bool = False

    def earlier(self, place: int) -> bool:
        return place < self.place


class ChooseStage(Stage):
    """Draws a whole block of numbers, takes from each stream what falls to it, and merges.

    A draw of a stream that has ended gives nothing, or ends it all.
    """

    def __init__(
        self,
        choices: Choices,
        sources: Sequence[Stage],
        stop_on_empty: bool,
        spec: ElementSpec,
        pool: BufferPool,
        operation: str,
    ):
        self.sources = list(sources)
        self.eager = choices.eager and all(source.eager for source in sources)
        self._choices = choices
        self._carries = [Carry(source) for source in sources]
        self._live = np.ones(len(sources), bool)
        self._stop_on_empty = stop_on_empty
        self._spec = spec
        self._pool = pool
        self._operation = operation
        self._draws = 0

    def next(self, limit: int) -> Block | None:
        while self._live.any():
            drawn = self._choices.peek(limit if self.eager else 1)
            if drawn is None:
                return None
            stop = self._valid(*drawn)
            places = self._places(drawn[0][: stop.place])
            blocks = self._pulled(places, stop)
            block = self._merged(places, blocks, stop)
            if stop.ended and not block.events:
                return None
            self._commit(places, stop)
            if block.events:
                return block
        return None

    def _valid(self, numbers: np.ndarray, error: Exception | None) -> _Stop:
        wrong = (numbers < 0) | (numbers >= len(self.sources))
        if not wrong.any():
            return _Stop(len(numbers), error)
        place = int(np.argmax(wrong))
        return _Stop(
            place,
            IndexError(
                f"{self._operation}: element {self._draws + place} chooses dataset "
                f"{numbers[place]}, but there are {len(self.sources)}: it must be at least 0 and "
                "less than that"
            ),
        )

    def _places(self, numbers: np.ndarray) -> list[np.ndarray]:
        """For each stream that has not ended, which draws fall to it, ascending."""
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(self.sources) + 1))
        return [
            order[bounds[i] : bounds[i + 1]] if live else order[:0]
            for i, live in enumerate(self._live)
        ]

    def _pulled(self, places: Sequence[np.ndarray], stop: _Stop) -> list[Block | None]:
        """A block of each stream; moves ``stop`` to the first draw that cannot be served."""
        blocks: list[Block | None] = []
        for which, draws in enumerate(places):
            block = self._peek(which, len(draws)) if len(draws) else None
            blocks.append(block)
            if not len(draws):
                continue
            if block is None:
                self._note_end(which, int(draws[0]), stop)
            elif block.error is not None:
                if stop.earlier(int(draws[block.n])):
                    stop.place, stop.error = int(draws[block.n]), block.error
                    stop.failing, stop.ended = which, False
            elif block.n < len(draws) and stop.earlier(int(draws[block.n])):
                stop.place, stop.error = int(draws[block.n]), None
                stop.failing, stop.ended = None, False
        self._stop_at_other_shapes(places, blocks, stop)
        return blocks

    def _peek(self, which: int, count: int) -> Block | None:
        carry, source = self._carries[which], self.sources[which]
        if self.eager and not carry.events:
            # A function compiled for many rows costs the same for few.
            carry.peek(-(-count // source.granule) * source.granule)
        return carry.peek(count)

    def _note_end(self, which: int, place: int, stop: _Stop) -> None:
        if not self._stop_on_empty:
            self._live[which] = False
        if (self._stop_on_empty or not self._live.any()) and stop.earlier(place):
            stop.place, stop.error, stop.failing, stop.ended = place, None, None, True

    def _stop_at_other_shapes(
        self, places: Sequence[np.ndarray], blocks: Sequence[Block | None], stop: _Stop
    ) -> None:
        found = [
            (int(draws[0]), block)
            for draws, block in zip(places, blocks, strict=True)
            if block is not None and block.n
        ]
        if len(found) < 2:
            return
        first = min(found, key=lambda pair: pair[0])[1]
        for place, block in found:
            if not block.same_shapes(first) and stop.earlier(place):
                stop.place, stop.error, stop.failing, stop.ended = place, None, None, False

    def _merged(
        self, places: Sequence[np.ndarray], blocks: Sequence[Block | None], stop: _Stop
    ) -> Block:
        served = [
            (draws[: int(np.searchsorted(draws, stop.place))], block)
            for draws, block in zip(places, blocks, strict=True)
            if block is not None
        ]
        served = [(draws, block) for draws, block in served if len(draws)]
        if not served:
            return Block(stack([], self._spec), 0, stop.error)
        if len(served) == 1:
            ((draws, block),) = served
            return Block([column[: len(draws)] for column in block.columns], len(draws), stop.error)
        live = np.zeros(stop.place, bool)
        for draws, _ in served:
            live[draws] = True
        rank = np.cumsum(live) - 1
        total = int(rank[-1]) + 1
        columns = []
        for leaf, model in enumerate(served[0][1].columns):
            out = self._pool.empty((total, *model.shape[1:]), model.dtype)
            for draws, block in served:
                out[rank[draws]] = block.columns[leaf][: len(draws)]
            out.flags.writeable = False
            columns.append(out)
        return Block(columns, total, stop.error)

    def _commit(self, places: Sequence[np.ndarray], stop: _Stop) -> None:
        for which, (carry, draws) in enumerate(zip(self._carries, places, strict=True)):
            if self._live[which]:
                carry.commit(int(np.searchsorted(draws, stop.place)) + (which == stop.failing))
        used = stop.place + (stop.error is not None)
        self._choices.commit(used)
        self._draws += used

    def state(self) -> State:
        return {
            "draws": self._draws,
            "choices": self._choices.state(),
            "inputs": [carry.state() for carry in self._carries],
        }

    def restore(self, state: State) -> None:
        self._draws = state["draws"]
        self._choices.restore(state["choices"])
        for carry, saved in zip(self._carries, state["inputs"], strict=True):
            carry.restore(saved)

    def inputs(self) -> Sequence[Stage]:
        return [*self._choices.inputs(), *self.sources]

    def describe(self) -> str:
        return f"one of {len(self.sources)} datasets each time, {self._choices.describe()}"
