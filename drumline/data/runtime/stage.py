"""The interface of stages, and what many of them share.

`DenseStage` splits blocks of rows of different lengths where the length changes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.elements.columns import ArrayRows, dense
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec
from drumline.data.runtime.meter import Meter
from drumline.data.runtime.threads import Resizable

State = dict[str, Any]
"""A JSON-able description of a position in a stream."""


class Described:
    """Something that ``explain()`` shows as a line with its parts below."""

    def describe(self) -> str:
        """One line."""
        raise NotImplementedError

    def parts(self) -> Sequence[Described]:
        """What it is made of."""
        raise NotImplementedError


class Stage(Described):
    """A stream of elements, pulled in blocks.

    A position of the stream is one element, or one error in an element's place. ``next`` covers at
    most ``limit`` positions and never reads more of its input than that requires, unless the stage
    is ``allows_readahead`` (reading ahead has no visible effect).

    Lifecycle, and who calls what:

    1. ``Lowering`` makes the stages of one epoch, inputs first, in the thread that begins the epoch
       (for a dataset inside another, in the one that pulls from the outer one). The stage above may
       call ``hint_batch_size`` and ``limit_demand``, which are hints, from its constructor.
    2. ``restore`` is called at most once, before the first ``next``; ``start``, where a stage
       ``StartsEarly``, after it.
    3. ``next``, ``advance`` and ``state`` are called by one thread at a time: the consumer's, or
       that of the ``threaded`` stage above. ``state`` is asked between two calls of ``next`` and
       says where the next one continues, whatever was made ahead. After an error in an element's
       place the next call continues behind it; after ``None`` there is nothing more.
    4. ``queue``, ``most_nbytes``, ``held_nbytes`` and ``inputs`` may be asked by the tuner's thread
       while ``next`` runs.
    5. ``close`` is called at the end of the elements or of the iterator, by the consumer's thread.
       Threads of a stage that is dropped without it are stopped by its finalizer.
    """

    allows_readahead: bool = True
    """Whether elements may be computed before they are asked for: not so for a user's generator."""

    preferred_block_size: int = 1
    """The number of elements that is cheapest to ask for at once (or a multiple of it)."""

    threaded: bool = False
    """Whether a thread of its own pulls from its inputs."""

    workers: int = 0
    """How many threads or processes compute for it beside the one that pulls from it."""

    workers_may_wait: bool = False
    """Whether workers may be occupied without computing: not so in compiled programs."""

    pool: Resizable | None = None
    """Its workers, if they are threads of this process or wait for others."""

    meter: Meter | None = None
    """What measures it while the dataset is observed."""

    def next(self, limit: int) -> Block | None:
        """The next block, at least one and at most ``limit`` positions; ``None`` at the end."""
        raise NotImplementedError

    def state(self) -> State:
        """The position, such that ``restore`` on a fresh stage goes on with the same elements."""
        raise NotImplementedError

    def restore(self, state: State) -> None:
        """Moves a fresh stage to ``state``."""
        raise NotImplementedError

    def advance(self, count: int) -> None:
        """Moves ``count`` positions on without delivering them."""
        while count > 0:
            block = self.next(count)
            if block is None:
                return
            count -= block.events

    def limit_demand(self, positions: int) -> None:
        """Hears that no more than ``positions`` further ones will be asked for.

        Who makes elements of a user's ahead makes none past that.
        """

    def hint_batch_size(self, size: int) -> None:
        """Hears that its elements are put together by ``size``: a hint."""

    def queue(self) -> tuple[int, int] | None:
        """How much was made ahead and how much may be, ``None`` for a stage without a queue."""
        return None

    def most_nbytes(self) -> int | None:
        """About how many bytes it holds at most beside its blocks; ``None`` if elements say."""
        return 0

    def held_nbytes(self) -> int | None:
        """About how many bytes it holds now, of what ``most_nbytes`` counts; ``None``: not known.

        Only while the dataset is observed is it asked.
        """
        return None

    def inputs(self) -> Sequence[Stage]:
        """The stages this one pulls from."""
        return []

    def parts(self) -> Sequence[Described]:
        return self.inputs()

    def close(self) -> None:
        """Stops threads and releases what the stage holds."""
        for stage in self.inputs():
            stage.close()


class StartsEarly(Stage):
    """A stage that can begin its work before it is first asked."""

    def start(self) -> None:
        """Begins, without waiting; not to be restored after that."""
        raise NotImplementedError


class PushbackBuffer:
    """The unused rest of a block pulled from an input, and where that block began.

    A stage that pulls more than it can use at once keeps the rest here; the state it reports is
    the input's state before the block plus how much of the block was used, so that no row ever
    has to be part of a state.
    """

    def __init__(self, stage: Stage):
        self.stage = stage
        self._block: Block | None = None
        self._used = 0
        self._before: State = {}

    def peek(self, limit: int) -> Block | None:
        """Up to ``limit`` positions: the rest if there is one, else a new block of the input."""
        if self._block is None:
            self._before = self.stage.state()
            self._block = self.stage.next(limit)
            self._used = 0
            if self._block is None:
                return None
        block, start = self._block, self._used
        if start == 0 and block.events <= limit:
            return block
        return block.slice(start, min(start + limit, block.events))

    def commit(self, count: int) -> None:
        """Marks the first ``count`` positions of what ``peek`` gave as used."""
        self._used += count
        if self._block is not None and self._used >= self._block.events:
            self._block = None

    def pull(self, limit: int) -> Block | None:
        """``peek`` and ``commit`` of all of it."""
        block = self.peek(limit)
        if block is not None:
            self.commit(block.events)
        return block

    @property
    def events(self) -> int:
        """How many positions are at hand without pulling."""
        return 0 if self._block is None else self._block.events - self._used

    def state(self) -> State:
        """The input's position, for ``restore``."""
        if self._block is None:
            return {"at": self.stage.state()}
        return {"at": self._before, "used": self._used}

    def restore(self, state: State) -> None:
        """Moves the input, fresh, to ``state``."""
        self.stage.restore(state["at"])
        used = state.get("used", 0)
        while used > 0 and (block := self.pull(used)) is not None:
            used -= block.events


class CountingStage(Stage):
    """Uses up blocks of its input and counts their positions, for errors and random keys."""

    def __init__(self, source: Stage):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self._pushback = PushbackBuffer(source)
        self._position = 0

    def count_from(self, position: int) -> None:
        """Hears, before it is asked for anything, that its input begins at this position."""
        self._position = position

    def _use(self, positions: int) -> None:
        """Marks the first ``positions`` of what the carry gave as used."""
        self._pushback.commit(positions)
        self._position += positions

    def state(self) -> State:
        return {"position": self._position, "input": self._pushback.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self._pushback.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]


class ServingStage(Stage):
    """Serves, as much at a time as is asked for, the blocks of a stage that gives any number.

    That stage may ignore ``limit`` and give blocks without a position; what was not asked for yet
    waits here.
    """

    def __init__(self, source: Stage):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self._pushback = PushbackBuffer(source)

    def next(self, limit: int) -> Block | None:
        while True:
            block = self._pushback.pull(limit)
            if block is None or block.events:
                return block

    def state(self) -> State:
        return self._pushback.state()

    def restore(self, state: State) -> None:
        self._pushback.restore(state)

    def inputs(self) -> Sequence[Stage]:
        return [self.source]


TARGET_BYTES = 2 << 20
"""What a block may hold. Handing one over wakes a thread, which takes as long as copying some
hundred kilobytes."""

MAX_ELEMENTS = 16_384
_FAST = 0.002
_SLOW = 0.008


class BatchSizeController:
    """Starts with one element, which so arrives at once, and doubles while blocks are quick.

    It decides only how elements travel together, never what they are.
    """

    def __init__(self, row_nbytes: int):
        self._limit = 1
        self._most = max(1, min(MAX_ELEMENTS, TARGET_BYTES // max(1, row_nbytes)))
        self._started = 0.0

    def learn(self, row_nbytes: float) -> None:
        """Asks for fewer elements at once, since they are larger than was known."""
        self._most = max(1, min(self._most, int(TARGET_BYTES // row_nbytes)))

    def start(self, preferred_block_size: int) -> int:
        """Note the time, and return how many elements to request from the stage.

        Args:
            preferred_block_size: that of the stage.
        """
        self._started = time.perf_counter()
        limit = min(self._limit, max(self._most, preferred_block_size))
        return limit - limit % preferred_block_size if limit > preferred_block_size else limit

    def stop(self) -> None:
        """Adapts to how long the block took since ``start``."""
        elapsed = time.perf_counter() - self._started
        if elapsed < _FAST:
            self._limit = min(self._limit * 2, MAX_ELEMENTS)
        elif elapsed > _SLOW:
            self._limit = max(1, self._limit // 2)


def may_vary(item: Described) -> bool:
    """Whether blocks of a stage may hold columns of rows that differ in any dimension."""
    own = getattr(item, "varying", None)
    if own is None and getattr(item, "ragged", None) is False:
        return False
    return own if own is not None else any(may_vary(part) for part in item.parts())


def may_be_ragged(item: Described) -> bool:
    """Whether blocks of a stage may hold columns of rows that differ in length."""
    own = getattr(item, "ragged", None)
    return own if own is not None else any(may_be_ragged(part) for part in item.parts())


def ragged_rows(spec: ElementSpec) -> bool:
    """Whether columns of such elements may be ragged arrays: only their first dimension varies."""
    return any(leaf.shape[:1] == (None,) for leaf in spec.leaves)


class DenseStage(Stage):
    """For operations that take blocks of equal shapes only."""

    ragged = False
    varying = False

    def __init__(self, source: Stage):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._pushback = PushbackBuffer(source)

    def next(self, limit: int) -> Block | None:
        block = self._pushback.peek(limit)
        if block is None:
            return None
        rows = _equal_rows(block)
        part = block.slice(0, block.events if rows == block.n else rows)
        self._pushback.commit(part.events)
        return Block([dense(column) for column in part.columns], part.n, part.error)

    def state(self) -> State:
        return self._pushback.state()

    def restore(self, state: State) -> None:
        self._pushback.restore(state)

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return "rows of equal shapes at a time"


def _equal_rows(block: Block) -> int:
    """How many rows from the first on have its shape."""
    rows = block.n
    for column in block.columns:
        if isinstance(column, ArrayRows):
            rows = min(rows, column.same_shapes())
        elif isinstance(column, RaggedArray) and rows:
            lengths = column[:rows].row_lengths()
            differs = lengths != lengths[0]
            rows = int(np.argmax(differs)) if differs.any() else rows
    return rows
