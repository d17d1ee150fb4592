"""Finding the element of which workers die."""

from __future__ import annotations

MOST = 16_384
"""How many elements are asked for at once when nothing is wrong."""

DEATHS = 3
"""Of how many workers that do nothing else it takes to say that an element is to blame."""


class Trouble:
    """How many elements to ask for at once after a worker was lost.

    One at first, and twice as many after each answer: mostly it was not an element's fault. If the
    next worker is lost as well, single ones, until those it was asked for have come or
    several workers were lost of the same one.

    Attributes:
        limit: how many elements to ask for at once; ``None`` if nothing is wrong.
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._single_until = 0
        self._position = -1
        self._deaths = 0

    def died(self, position: int, alone: bool) -> None:
        """Hears that a worker was lost that was to make the element at ``position`` next.

        Args:
            position: of the first element that has not arrived.
            alone: whether the worker had nothing else to do.
        """
        if position != self._position:
            self._position, self._deaths = position, 0
        if self.limit == 1 and alone:
            self._deaths += 1
        elif self.limit is not None and alone:
            self._single_until = position + self.limit
        self.limit = 1

    def arrived(self, position: int) -> None:
        """Hears that all elements before ``position`` have arrived."""
        if self.limit is not None and position >= self._single_until:
            self.limit = 2 * self.limit if self.limit < MOST else None

    @property
    def proven(self) -> bool:
        """Whether workers die of the element that is to come next."""
        return self._deaths >= DEATHS

    def forget(self) -> None:
        """Starts to count anew: the element was given up."""
        self._position, self._deaths = -1, 0
