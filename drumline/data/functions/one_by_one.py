"""A compiled function called for one element at a time."""

from __future__ import annotations

from functools import partial
from typing import Protocol, runtime_checkable

from drumline.data.elements.block import Block, concat
from drumline.data.functions.call import BlockFunction, Position


@runtime_checkable
class Vectorized(Protocol):
    """A ``BlockFunction`` that computes the elements of a block together."""

    @property
    def one_by_one(self) -> OneByOne:
        """The same function, and the same bits, with a call for each element."""


class OneByOne:
    """Elements travel in blocks as they do to the function it stands for; each has its own call.

    Args:
        function: the one it stands for.
        alone: the same, made for single rows as far as that cannot show in what it computes.
    """

    def __init__(self, function: BlockFunction, alone: BlockFunction):
        self._function = function
        self._alone = alone

    @property
    def ragged(self) -> bool | None:
        return self._function.ragged

    @property
    def varying(self) -> bool | None:
        return self._function.varying

    @property
    def block_length(self) -> int:
        return self._function.block_length

    def limit(self, wanted: int) -> int:
        return min(self._function.limit(wanted), self._alone.limit(wanted))

    def __call__(self, block: Block, position: Position) -> Block:
        done: list[Block] = []
        for row in range(block.n):
            made = self._alone(block.slice(row, row + 1), partial(_moved, position, row))
            if made.error is not None:
                return _with(done, made.error) if done else made
            if done and not done[0].same_shapes(made):
                return concat(done)
            done.append(made)
        return _with(done, block.error) if done else self._alone(block, position)

    def describe(self) -> str:
        return f"{self._alone.describe()}, one element at a time"


def _with(done: list[Block], error: Exception | None) -> Block:
    whole = concat(done)
    return Block(whole.columns, whole.n, error)


def _moved(position: Position, start: int, row: int) -> int:
    return position(start + row)
