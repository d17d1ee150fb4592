"""How a stage calls a function on a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from drumline.data.elements.block import Block

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
class Gathering(Protocol):
    """A ``BlockFunction`` that may take other numbers of rows at the same cost."""

    def at_once(self, size: int) -> int:
        """How many rows to pass where ``size`` of them will be put together."""
