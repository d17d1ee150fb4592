"""Which pushes were applied, so that none is applied twice.

A set of numbers that are almost all those up to some.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Sequence
from typing import Any


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


class AppliedPushes:
    """What closures have pushed to which parts.

    A closure that is run again, by whomever, changes only the parts that its first run had not
    reached. When it is finished nothing of it is kept but its number: a closure is called
    ``"<run>:<number>"``, and a late push of a finished one is taken for applied. Closures with
    other names are forgotten when they are finished.

    A push is named by its part and by how many pushes of its message to that part stand before it.
    Callers hold the part's lock from the question to the answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pushes: dict[str, set[tuple[str, int]]] = {}
        self._finished: dict[str, NumberSet] = {}

    def contains(self, closure: str, part: str, ordinal: int) -> bool:
        """Whether a push was applied."""
        return self.which(closure, [(part, ordinal)])[0]

    def which(self, closure: str, pushes: Sequence[tuple[str, int]]) -> list[bool]:
        """For each push of a closure, a part's name and an ordinal, whether it was applied."""
        run, number = _parsed(closure)
        with self._lock:
            if number is not None and number in self._finished.get(run, NumberSet()):
                return [True] * len(pushes)
            applied = self._pushes.get(closure, ())
            return [push in applied for push in pushes]

    def add(self, closure: str, pushes: Iterable[tuple[str, int]]) -> None:
        """Note that pushes were applied."""
        with self._lock:
            self._pushes.setdefault(closure, set()).update(pushes)

    def finish(self, closures: Iterable[str]) -> None:
        """Note that closures push nothing any more."""
        with self._lock:
            for closure in closures:
                self._pushes.pop(closure, None)
                run, number = _parsed(closure)
                if number is not None:
                    self._finished.setdefault(run, NumberSet()).add(number)

    def of_part(self, part: str) -> dict[str, list[int]]:
        """For each closure the pushes to one part, as JSON has them."""
        with self._lock:
            found = {
                closure: sorted(ordinal for name, ordinal in pushes if name == part)
                for closure, pushes in self._pushes.items()
            }
        return {closure: ordinals for closure, ordinals in found.items() if ordinals}

    @property
    def finished(self) -> dict[str, list[tuple[int, int]]]:
        """The numbers of finished closures by run, as JSON has them."""
        with self._lock:
            return {run: numbers.ranges for run, numbers in self._finished.items()}

    def reset(self, parts: dict[str, dict[str, list[int]]], finished: dict[str, Any]) -> None:
        """Know nothing but what `of_part` told of parts, by their names, and `finished`."""
        with self._lock:
            self._pushes = {}
            for part, closures in parts.items():
                for closure, ordinals in closures.items():
                    pushes = self._pushes.setdefault(closure, set())
                    pushes.update((part, ordinal) for ordinal in ordinals)
            self._finished = {
                run: NumberSet([(start, end) for start, end in ranges])
                for run, ranges in finished.items()
            }

    def __len__(self) -> int:
        """How many closures are known that are not finished."""
        return len(self._pushes)


def _parsed(closure: str) -> tuple[str, int | None]:
    run, colon, number = closure.rpartition(":")
    return run, int(number) if colon and number.isdecimal() else None
