"""A set of numbers that are almost all those up to some."""

from __future__ import annotations

import bisect


class NumberSet:
    """Numbers as ranges without gaps, so that a million in a row take no more memory than one.

    Args:
        ranges: their starts and ends, ascending, the ends excluded.
    """

    def __init__(self, ranges: list[tuple[int, int]] | None = None) -> None:
        self._starts = [start for start, _ in ranges or []]
        self._ends = [end for _, end in ranges or []]

    def __contains__(self, number: int) -> bool:
        place = bisect.bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    def add(self, number: int) -> None:
        """Have `number` in the set."""
        if number in self:
            return
        place = bisect.bisect_right(self._starts, number)
        joins_left = place > 0 and self._ends[place - 1] == number
        joins_right = place < len(self._starts) and self._starts[place] == number + 1
        if joins_left and joins_right:
            self._ends.pop(place - 1)
            self._starts.pop(place)
        elif joins_left:
            self._ends[place - 1] = number + 1
        elif joins_right:
            self._starts[place] = number
        else:
            self._starts.insert(place, number)
            self._ends.insert(place, number + 1)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The starts and ends of the ranges, ascending, the ends excluded."""
        return list(zip(self._starts, self._ends, strict=True))
