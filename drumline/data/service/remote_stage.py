"""The elements of a split, which a worker makes."""

from __future__ import annotations

from collections import deque

from drumline._forks import finalize
from drumline.data.elements.block import Block
from drumline.data.runtime.stage import StartsEarly, State
from drumline.data.service.remote_run import RemoteRun
from drumline.data.service.session import Session
from drumline.data.service.splits import SplitSize


class RemoteStage(StartsEarly):
    """Serves the portions of a split.

    Args:
        session: hands out the work.
        run: receives the portions.
        label: the split, for ``explain()``.
        size: hears how long a split of ``elements`` took.
        elements: of the input.
    """

    ragged = False

    def __init__(
        self, session: Session, run: RemoteRun, label: str, size: SplitSize, elements: int
    ):
        self._session = session
        self._remote = run
        self._label = label
        self._size = size
        self._elements = elements
        self._blocks: deque[Block] = deque()
        self._used = 0
        self._before: State = {"at": None, "skip": 0, "arrived": 0}
        self._seconds = 0.0
        self._entered = False
        # The session refers to the run only, so that a dropped iterator ends it.
        self._finalizer = finalize(self, session.drop, run)

    def start(self) -> None:
        if not self._entered:
            self._entered = True
            self._session.enter(self._remote)

    def next(self, limit: int) -> Block | None:
        while not self._blocks:
            if self._remote.ended:
                return None
            self._receive()
        block = self._blocks.popleft()
        if block.events > limit:
            self._blocks.appendleft(block.slice(limit, block.events))
            block = block.slice(0, limit)
        self._used += block.events
        return block

    def _receive(self) -> None:
        self._entered = True
        before = self._now()
        portion = self._remote.receive()
        self._before, self._used = before, 0
        self._blocks.extend(portion.blocks)
        self._seconds += portion.seconds
        if portion.ended:
            self._size.took(self._elements, self._seconds)

    def _now(self) -> State:
        return {"at": self._remote.at, "skip": self._remote.skip, "arrived": self._remote.arrived}

    def state(self) -> State:
        return {**self._before, "used": self._used}

    def restore(self, state: State) -> None:
        self._remote.at, self._remote.skip = state["at"], state["skip"]
        self._remote.arrived = state["arrived"]
        self._before = self._now()
        self.advance(state["used"])

    def describe(self) -> str:
        return f"{self._label}, on a worker"

    def close(self) -> None:
        self._blocks.clear()
        if self._finalizer.detach() is not None:
            self._remote.close()
