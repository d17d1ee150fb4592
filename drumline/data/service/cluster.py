"""What a cluster offers to those who have parts of plans run on it."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from drumline.data.elements.block import Block
from drumline.data.runtime.stage import State


class WorkerLost(Exception):
    """A worker ended, or its machine did, before its answer arrived."""


class Answer(Protocol):
    """What a worker will have answered."""

    def result(self) -> Any:
        """Waits for it.

        Raises:
            WorkerLost: it will not come.
            Exception: what the worker raised.
        """


class Worker(Protocol):
    """A ``PlanWorker`` somewhere, which does what it is asked in the order it was asked."""

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Has one of its methods called; never waits, also if the worker is lost."""

    def stop(self) -> None:
        """Ends it, whatever it does; may be called again."""


class Cluster(Protocol):
    """Where workers are started."""

    def width(self) -> int:
        """How many workers there should be."""

    def start(self) -> Worker | None:
        """Another worker; ``None`` if there is no room for it at present."""

    def share(self, value: Any) -> Any:
        """``value`` as an argument of ``Worker.ask`` that is sent to many workers."""

    def stop(self) -> None:
        """Ends all workers; may be called again."""


class Service(Protocol):
    """Where a dataset asks for its cluster when it is first iterated."""

    def connect(self) -> Cluster:
        """The cluster.

        Raises:
            RuntimeError: it cannot be reached.
        """

    def describe(self) -> str:
        """Which it is, for ``explain()``."""


@dataclasses.dataclass(frozen=True)
class Split:
    """A part of the elements, made by one worker from begin to end.

    Attributes:
        number: how many splits come before it.
        start: the position of its first element in the input.
        stop: the position after its last one.
        rows: these elements, where a worker cannot make them by position.
        shard: instead of all that, which of the shards.
    """

    number: int
    start: int = 0
    stop: int = 0
    rows: tuple[Block, ...] = ()
    shard: int | None = None

    def after(self, count: int) -> Split:
        """Without its first ``count`` elements."""
        rows, drop = [], count
        for block in self.rows:
            if drop < block.n:
                rows.append(block.slice(drop, block.n))
            drop = max(0, drop - block.n)
        return dataclasses.replace(self, start=self.start + count, rows=tuple(rows))

    def describe(self) -> str:
        """For messages."""
        if self.shard is not None:
            return f"shard {self.shard}"
        return f"split {self.number}, made of input elements {self.start} to {self.stop - 1}"


@dataclasses.dataclass(frozen=True)
class Portion:
    """Consecutive elements of a split.

    Attributes:
        blocks: they, errors in their places.
        after: the state of the split after them; ``None`` at its start.
        ended: whether the split ends here.
        seconds: how long they took to make.
    """

    blocks: list[Block]
    after: State | None
    ended: bool
    seconds: float
