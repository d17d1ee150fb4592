"""``distribute``: splits of a plan that workers make, as stages, and again if a worker is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from drumline._forks import finalize
from drumline.data.elements.block import Block
from drumline.data.elements.errors import WorkerDiedError
from drumline.data.elements.rows import single, stack
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.operations.nested.inner_datasets import InnerDatasets, opener
from drumline.data.operations.nested.nesting import FlatMapStage, InterleaveStage
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    PushbackBuffer,
    RandomAccessSource,
    SlicedRows,
    Stage,
    StartsEarly,
    State,
)
from drumline.data.workers.remote.cluster import (
    MOST,
    Answer,
    Chunk,
    InputSplit,
    Place,
    PoisonSearch,
    RemoteSession,
    WorkerLost,
)
from drumline.data.workers.remote.nodes import Distribute, Piece, Remote, RemoteSplit, Shards
from drumline.data.workers.remote.packing import (
    PickledObject,
    RemotePlan,
    for_workers,
    options_for_workers,
    packed,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


class RemoteRun:
    """Requests the chunks of a split from a worker in order, some of them ahead.

    If the worker is lost, another one continues at the end of the last chunk that arrived.

    Args:
        session: gives it a worker.
        part: the number of the plan's part.
        split: of that part's elements.
        run: the epoch, and the pass of each ``repeat``.
        spec: of the elements.
        credit: how many chunks are asked for ahead.
        exact: whether each element is made of one of the input's: then it is known which ones are
            left, and those after an element can be made without it.

    Attributes:
        at: the split's state after the last chunk; ``None`` at its start, or if it is exact.
        skip: how many positions come after it that were given up.
        arrived: how many positions have arrived.
        ended: whether all have.
    """

    def __init__(
        self,
        session: RemoteSession,
        part: int,
        split: InputSplit,
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
        self._trouble = PoisonSearch()

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

    def receive(self) -> Chunk:
        """Wait for the next chunk, and return it.

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
                chunk = answer.result()
            except WorkerLost as lost:
                given_up = self._lost(place, str(lost))
                if given_up is not None:
                    return given_up
                continue
            with self._session.lock:
                if self._place is place:
                    self._take(chunk)
                    return chunk

    def _take(self, chunk: Chunk) -> None:
        self.at, self.skip = None if self._exact else chunk.after, 0
        self.arrived += sum(block.events for block in chunk.blocks)
        self._trouble.arrived(self.arrived)
        if self._trouble.limit is None:
            self._session.settled(self._place)
        if chunk.ended:
            self.ended = True
            self._leave()
        else:
            self._ask()

    def _lost(self, place: Place | None, how: str) -> Chunk | None:
        """Record that the worker is gone; an error in the place of the element it died of."""
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
            return Chunk([Block(stack([], self._spec), 0, error)], self.at, False, 0.0)

    def _leave(self) -> None:
        self._session.remove(self, self._place)
        self._place = None

    def close(self) -> None:
        """Give the split up."""
        with self._session.lock:
            self.ended = True
            self._answers.clear()
            if self._place is not None:
                self._place.worker.ask("close", self._key)
            self._leave()


_SHORT = 0.05
_LONG = 0.2
_MOST_BYTES = 4 << 20
_MOST = 16_384


class SplitSize:
    """How many input elements a split has: few at first, and more while splits take little time.

    It decides who makes an element, never what it is.

    Args:
        row_nbytes: estimated bytes of an element, in or out.
        fixed: a number that stays.
    """

    def __init__(self, row_nbytes: int, fixed: int | None = None):
        self._fixed = fixed
        self._most = max(1, min(_MOST, _MOST_BYTES // max(1, row_nbytes)))
        self.now = fixed or 1

    def took(self, size: int, seconds: float) -> None:
        """Record how long a split of ``size`` elements took."""
        if self._fixed is not None:
            return
        if seconds < _SHORT:
            self.now = max(self.now, min(2 * size, self._most))
        elif seconds > _LONG:
            self.now = max(1, min(self.now, size // 2))


class SplitStage(Stage):
    """One split at a time, in a block of one row."""

    def __init__(self, size: SplitSize):
        self.size = size
        self._number = 0
        self._next_size = size.now

    def next(self, limit: int) -> Block | None:
        made = self._made(self._next_size)
        if isinstance(made, InputSplit):
            self._number += 1
            # The state says how long the next split is, so it must not change after it was taken.
            self._next_size = self.size.now
            return Block([single(made)[None]], 1)
        return made

    def _made(self, size: int) -> InputSplit | Block | None:
        """Return the next split, an error in its place, or ``None`` at the end."""
        raise NotImplementedError

    def state(self) -> State:
        return {"number": self._number, "size": self._next_size, **self._position()}

    def restore(self, state: State) -> None:
        self._number, self._next_size = state["number"], state["size"]
        self._seek(state)

    def _position(self) -> State:
        raise NotImplementedError

    def _seek(self, state: State) -> None:
        raise NotImplementedError


class SpanStage(SplitStage):
    """Ranges of the positions of a random-access input."""

    def __init__(self, length: int, size: SplitSize):
        super().__init__(size)
        self._length = length
        self._start = 0

    def _made(self, size: int) -> InputSplit | None:
        if self._start >= self._length:
            return None
        start, self._start = self._start, min(self._length, self._start + size)
        return InputSplit(self._number, start, self._start)

    def _position(self) -> State:
        return {"start": self._start}

    def _seek(self, state: State) -> None:
        self._start = state["start"]

    def describe(self) -> str:
        return f"ranges of {self._length} positions"


class RowsStage(SplitStage):
    """Runs of the elements of a stream.

    A split ends where its size says, at an error or at the end, and nowhere else: when it is made
    again it has the same elements.
    """

    def __init__(self, source: Stage, size: SplitSize):
        super().__init__(size)
        self.source = source
        self._pushback = PushbackBuffer(source)
        self._start = 0

    def _made(self, size: int) -> InputSplit | Block | None:
        blocks: list[Block] = []
        rows = 0
        while rows < size:
            block = self._pushback.peek(size - rows)
            if block is None:
                break
            if block.n:
                self._pushback.commit(block.n)
                blocks.append(Block(block.columns, block.n))
                rows += block.n
            if block.error is not None:
                if blocks:
                    break
                self._pushback.commit(1)
                self._start += 1
                return Block([np.empty(0, object)], 0, block.error)
        start, self._start = self._start, self._start + rows
        return InputSplit(self._number, start, self._start, tuple(blocks)) if blocks else None

    def _position(self) -> State:
        return {"start": self._start, "input": self._pushback.state()}

    def _seek(self, state: State) -> None:
        self._start = state["start"]
        self._pushback.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return "runs of elements"


class ShardsStage(SplitStage):
    """The numbers of all shards."""

    def __init__(self, shards: int):
        super().__init__(SplitSize(1, fixed=1))
        self._shards = shards

    def _made(self, size: int) -> InputSplit | None:
        return InputSplit(self._number, shard=self._number) if self._number < self._shards else None

    def _position(self) -> State:
        return {}

    def _seek(self, state: State) -> None:
        """The number is all."""

    def describe(self) -> str:
        return f"{self._shards} shards"


class RemoteStage(StartsEarly):
    """Serves the chunks of a split.

    Args:
        session: hands out the work.
        run: receives the chunks.
        label: the split, for ``explain()``.
        size: records how long a split of ``elements`` took.
        elements: of the input.
    """

    ragged = False

    def __init__(
        self, session: RemoteSession, run: RemoteRun, label: str, size: SplitSize, elements: int
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
        chunk = self._remote.receive()
        self._before, self._used = before, 0
        self._blocks.extend(chunk.blocks)
        self._seconds += chunk.seconds
        if chunk.ended:
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


_SPLITS = ElementSpec(LEAF_STRUCTURE, (TensorSpec((), STRING),))
_FEW, _MANY = 2, 32
"""How many chunks of a split are asked for ahead; many of a file's, which may have any size."""


def piece(lowering: Lowering, node: Piece, trail: Trail, run: Pass) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None or node.stop is None:
        return None
    return SlicedRows(inner, node.start, node.stop - node.start)


def here(lowering: Lowering, node: Distribute, trail: Trail, run: Pass) -> Stage:
    """Lower a node of a plan that was not split, to look at its first elements alone."""
    return lowering.input(node, trail, run, ragged=True)


def remote_split(lowering: Lowering, node: RemoteSplit, trail: Trail, run: Pass) -> Stage:
    return cast(Stage, node.stage)


def remote(lowering: Lowering, node: Remote, trail: Trail, run: Pass) -> Stage:
    found, below = _piece(node.input, (*trail, 0))
    nbytes = max(node.spec.row_nbytes(), found.spec.row_nbytes())
    size = SplitSize(nbytes, fixed=1 if found.one else None)
    source: SplitStage
    if found.by_position:
        indexed = lowering.indexed(found.input, (*below, 0), run)
        assert indexed is not None
        source = SpanStage(indexed.length, size)
    else:
        source = RowsStage(lowering.input(found, below, run), size)
    session = lowering.runtime.session(node.service)
    made = _Made(lowering, session, node, trail, run, size, _MANY if found.one else _FEW)
    return _stage(made, source, node.cycle_length, node.block_length)


def shards(lowering: Lowering, node: Shards, trail: Trail, run: Pass) -> Stage:
    source = ShardsStage(node.shards)
    session = lowering.runtime.session(node.service)
    made = _Made(lowering, session, node, trail, run, source.size, _FEW)
    return _stage(made, source, node.shards, 1)


class _Made:
    """Makes the plan of a split: the stage that receives it."""

    def __init__(
        self,
        lowering: Lowering,
        session: RemoteSession,
        node: Remote | Shards,
        trail: Trail,
        run: Pass,
        size: SplitSize,
        credit: int,
    ):
        self.lowering, self.session, self.node, self.run = lowering, session, node, run
        self._size, self._credit = size, credit
        self._exact = isinstance(node, Remote) and node.exact
        self._number = session.part(node, lambda: _packed(lowering, node, trail))

    def __call__(self, split: Any, place: Sequence[int]) -> Node:
        assert isinstance(split, InputSplit)
        spec = self.node.spec
        run = RemoteRun(
            self.session, self._number, split, self.run, spec, self._credit, self._exact
        )
        stage = RemoteStage(
            self.session, run, split.describe(), self._size, split.stop - split.start
        )
        return RemoteSplit((), spec, stage)


def _stage(made: _Made, source: SplitStage, cycle_length: int, block_length: int) -> Stage:
    start: Callable[..., Any] = opener(made.lowering)
    inner_datasets = InnerDatasets(
        source, _SPLITS, made, start, made.run, lambda: 2 * made.session.width
    )
    spec, label = made.node.spec, "splits made by workers"
    if cycle_length == 1:
        return FlatMapStage(inner_datasets, spec, label, True)
    pool = made.lowering.pool
    return InterleaveStage(inner_datasets, cycle_length, block_length, spec, label, True, pool)


def _piece(node: Node, trail: Trail) -> tuple[Piece, Trail]:
    while not isinstance(node, Piece):
        node, trail = node.input, (*trail, 0)
    return node, trail


def _packed(lowering: Lowering, node: Node, trail: Trail) -> PickledObject:
    options = options_for_workers(lowering.runtime.options)
    if isinstance(node, Shards):
        plan = for_workers(node.shared)
        return packed(RemotePlan(plan, {}, options, node.policy, node.shards), plan)
    plan, below = for_workers(node.input), (*trail, 0)
    occurrences = {
        where[len(below) :]: count
        for where, count in lowering.occurrences.items()
        if where[: len(below)] == below
    }
    return packed(RemotePlan(plan, occurrences, options), plan)
