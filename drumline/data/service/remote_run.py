"""A split that a worker makes, and another one if that is lost."""

from __future__ import annotations

from collections import deque

from drumline.data.elements.block import Block
from drumline.data.elements.errors import WorkerDiedError
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import ElementSpec
from drumline.data.plan.node import Pass
from drumline.data.runtime.stage import State
from drumline.data.service.cluster import Answer, Portion, Split, WorkerLost
from drumline.data.service.session import Place, Session
from drumline.data.service.trouble import MOST, Trouble


class RemoteRun:
    """Asks a worker for one portion of a split after the other, some of them ahead.

    If the worker is lost, another one goes on where the last portion that arrived ends.

    Args:
        session: gives it a worker.
        part: the number of the plan's part.
        split: of that part's elements.
        run: the epoch, and the pass of each ``repeat``.
        spec: of the elements.
        credit: how many portions are asked for ahead.
        exact: whether each element is made of one of the input's: then it is known which ones are
            left, and those after an element can be made without it.

    Attributes:
        at: the split's state after the last portion; ``None`` at its start, or if it is exact.
        skip: how many positions come after it that were given up.
        arrived: how many positions have arrived.
        ended: whether all have.
    """

    def __init__(
        self,
        session: Session,
        part: int,
        split: Split,
        run: Pass,
        spec: ElementSpec,
        credit: int,
        exact: bool,
    ):
        self.at: State | None = None
        self.skip = 0
        self.arrived = 0
        self.ended = False
        self._session = session
        self._part = part
        self._split = split
        self._run = run
        self._spec = spec
        self._credit = credit
        self._exact = exact
        self._key = session.key()
        self._place: Place | None = None
        self._alone = False
        self._answers: deque[Answer] = deque()
        self._trouble = Trouble()

    def assigned(self, place: Place, alone: bool) -> None:
        self._place, self._alone = place, alone
        split = self._split.after(self.arrived) if self._exact else self._split
        place.worker.ask("open", self._key, self._part, split, self._run, self.at, self.skip)
        self._ask()

    def moved(self) -> None:
        self._place = None
        self._answers.clear()

    def _ask(self) -> None:
        assert self._place is not None
        limit = self._trouble.limit
        credit = self._credit if limit is None else 1
        while len(self._answers) < credit:
            self._answers.append(self._place.worker.ask("pull", self._key, limit or MOST))

    def receive(self) -> Portion:
        """The next portion: waits for it.

        Raises:
            WorkerDiedError: workers die of an element, and also when it is passed over.
            Exception: the split could not be begun.
        """
        while True:
            with self._session.lock:
                if self._place is None:
                    self._session.hurry(self, self._trouble.limit is not None)
                place, answer = self._place, self._answers.popleft()
            try:
                portion = answer.result()
            except WorkerLost as lost:
                given_up = self._lost(place, str(lost))
                if given_up is not None:
                    return given_up
                continue
            with self._session.lock:
                if self._place is place:
                    self._take(portion)
                    return portion

    def _take(self, portion: Portion) -> None:
        self.at, self.skip = None if self._exact else portion.after, 0
        self.arrived += sum(block.events for block in portion.blocks)
        self._trouble.arrived(self.arrived)
        if self._trouble.limit is None:
            self._session.settled(self._place)
        if portion.ended:
            self.ended = True
            self._leave()
        else:
            self._ask()

    def _lost(self, place: Place | None, how: str) -> Portion | None:
        """Notes that the worker is gone; an error in the place of the element it died of."""
        with self._session.lock:
            if place is None or self._place is not place:
                return None
            self._trouble.died(self.arrived, self._alone)
            self._session.lost(place, self)
            self.moved()
            if not self._trouble.proven:
                return None
            error = WorkerDiedError(self._split.describe(), self.arrived, how)
            if self._exact:
                error.element_index = self._split.start + self.arrived
            elif self.skip:
                raise error
            else:
                self.skip = 1
            self._trouble.forget()
            self.arrived += 1
            return Portion([Block(stack([], self._spec), 0, error)], self.at, False, 0.0)

    def _leave(self) -> None:
        self._session.leave(self, self._place)
        self._place = None

    def close(self) -> None:
        """Gives the split up."""
        with self._session.lock:
            self.ended = True
            self._answers.clear()
            if self._place is not None:
                self._place.worker.ask("close", self._key)
            self._leave()
