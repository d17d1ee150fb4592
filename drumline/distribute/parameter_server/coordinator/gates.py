"""How many of the waiting closures may start now: what asynchronous training allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.coordinator.closure import Closure


class Gate:
    """Lets closures start as soon as a worker has room."""

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        """How many closures a worker may start.

        Args:
            worker: its number.
            waiting: how many wait.
            running: how many have been given to workers and have not ended.
            flushing: whether somebody waits until all have run.
        """
        return waiting

    def started(self, worker: int, closures: Sequence[Closure]) -> None:
        """These closures start on a worker."""

    def given_back(self, closures: int) -> None:
        """A lost worker leaves so many closures that it had started."""

    def present(self, worker: int, here: bool) -> None:
        """A worker has come, or is lost."""


class Staleness(Gate):
    """Lets the values that a closure reads miss at most a number of updates of others.

    While a closure runs, at most that many others do. With 0, closures run one after the other and
    give what one device would.

    Args:
        most_missed: updates.
    """

    def __init__(self, most_missed: int) -> None:
        self._most_running = most_missed + 1

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        return max(0, min(waiting, self._most_running - running))


class Rounds(Gate):
    """Lets every worker start one closure, and waits for all of them.

    Those of a round read the same values, and what they push is applied as one update. What a lost
    worker leaves runs on another. The last round before a `join` can be smaller.

    Args:
        size: how many closures a round has.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._round = 0
        self._of = 0
        self._left = 0
        self._here: set[int] = set()
        self._had: set[int] = set()

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        if self._left == 0 and running == 0 and (waiting >= self._size or flushing):
            self._of = self._left = min(waiting, self._size)
            self._round += 1
            self._had = set()
        if worker in self._had and not self._had >= self._here:
            return 0
        return min(waiting, self._left, 1)

    def started(self, worker: int, closures: Sequence[Closure]) -> None:
        for closure in closures:
            self._had.add(worker)
            self._left -= 1
            if closure.round is None:
                closure.round = (self._round, self._of)

    def given_back(self, closures: int) -> None:
        """A lost worker leaves so many closures of the round, for any other."""
        self._left += closures
        self._had = set(self._here)

    def present(self, worker: int, here: bool) -> None:
        (self._here.add if here else self._here.discard)(worker)
