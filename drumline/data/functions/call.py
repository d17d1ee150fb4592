"""How a stage calls a function: on a block, or for one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

from drumline.data.elements.block import Block, concat

Position = Callable[[int], int]
"""From a row of a block to the element's index in the operation's input."""


class BlockFunction(Protocol):
    """A user's function over the elements of a block."""

    @property
    def ragged(self) -> bool | None:
        """Whether rows of a result may differ in length; ``None`` if as the argument's do."""

    @property
    def varying(self) -> bool | None:
        """Whether they may differ in other dimensions, likewise."""

    @property
    def block_length(self) -> int:
        """The number of elements for which a call costs the least per element."""

    def limit(self, wanted: int) -> int:
        """How many elements to pass at once when ``wanted`` are asked for."""

    def __call__(self, block: Block, position: Position) -> Block:
        """The results for the rows of ``block``: all, or those before the first that failed.

        An error that ``block`` carries comes after the last result.
        """

    def describe(self) -> str:
        """How the function runs, for ``explain()``."""


@runtime_checkable
class SupportsBatchHint(Protocol):
    """A ``BlockFunction`` that may take other numbers of rows at the same cost."""

    def at_once(self, size: int) -> int:
        """How many rows to pass where ``size`` of them will be put together."""


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
        alone: the same, compiled for single rows where that cannot change its results.
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
