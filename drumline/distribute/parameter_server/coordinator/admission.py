"""How many of the waiting closures may start now: what asynchronous training allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.coordinator.closure import Closure


class Admission:
    """Lets closures start as soon as a worker has room.

    Attributes:
        depends_on_others: whether a closure that starts or ends lets others start.
    """

    depends_on_others = False

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

    def ended(self, closure: Closure) -> None:
        """A closure has run, or failed."""

    def given_back(self, closures: Sequence[Closure]) -> None:
        """A lost worker leaves closures that it had started; they will start again."""

    def cancelled(self, running: Sequence[Closure], failed: Sequence[Closure]) -> int | None:
        """All that waits is cancelled.

        Args:
            running: what goes on.
            failed: what started and will not end.

        Returns:
            The number of a round that will never be complete, for which others of it would wait.
        """
        return None

    def present(self, worker: int, here: bool) -> None:
        """A worker has come, or is lost."""


class StalenessAdmission(Admission):
    """Lets a closure miss at most a number of updates of others.

    It misses those that run when it starts, and those that start before it has ended: when its
    gradients are applied, at most so many updates were made that its values do not have. With 0,
    closures run one after the other and give what one device would.

    Args:
        most_missed: updates.
    """

    depends_on_others = True

    def __init__(self, most_missed: int) -> None:
        self._most = most_missed
        self._missed: dict[Closure, int] = {}

    def most(self, worker: int, waiting: int, running: int, flushing: bool) -> int:
        left = self._most - max(self._missed.values(), default=-1)
        return max(0, min(waiting, left))

    def started(self, worker: int, closures: Sequence[Closure]) -> None:
        for closure in closures:
            for other in self._missed:
                self._missed[other] += 1
            self._missed[closure] = len(self._missed)

    def ended(self, closure: Closure) -> None:
        self._missed.pop(closure, None)

    def given_back(self, closures: Sequence[Closure]) -> None:
        for closure in closures:
            self.ended(closure)


class RoundAdmission(Admission):
    """Lets every worker start one closure, and waits for all of them.

    Those of a round read the same values, and what they push is applied as one update. What a lost
    worker leaves runs on another. The last round before a `join` can be smaller.

    Args:
        size: how many closures a round has.
    """

    depends_on_others = True

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

    def given_back(self, closures: Sequence[Closure]) -> None:
        self._left += len(closures)
        self._had = set(self._here)

    def cancelled(self, running: Sequence[Closure], failed: Sequence[Closure]) -> int | None:
        lacks_some = self._left > 0 or bool(failed)
        self._left = 0
        return self._round if running and lacks_some else None

    def present(self, worker: int, here: bool) -> None:
        (self._here.add if here else self._here.discard)(worker)
