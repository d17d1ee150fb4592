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
    """A node of the tree that ``explain()`` shows, one line for each."""

    def describe(self) -> str:
        """Return one line."""
        raise NotImplementedError

    def parts(self) -> Sequence[Described]:
        """Return what it is made of."""
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
       that of the ``threaded`` stage above. ``state`` is called between two calls of ``next`` and
       describes where the next one continues, whatever was read ahead. After an error in an
       element's place the next call continues behind it; after ``None`` there is nothing more.
    4. ``queue``, ``most_nbytes``, ``held_nbytes`` and ``inputs`` may be called by the tuner's
       thread while ``next`` runs.
    5. ``close`` is called at the end of the elements or of the iterator, by the consumer's thread.
       Threads of a stage that is dropped without it are stopped by its finalizer.
    """

    allows_readahead: bool = True
    """Whether elements may be computed before they are demanded: false above a generator."""

    preferred_block_size: int = 1
    """The number of elements, or a multiple of it, that is cheapest to request at once."""

    threaded: bool = False
    """Whether a separate thread pulls from its inputs."""

    workers: int = 0
    """How many threads or processes compute for it, besides the thread that pulls from it."""

    workers_may_wait: bool = False
    """Whether workers may block instead of computing: false for compiled programs."""

    pool: Resizable | None = None
    """Its workers, if they are threads of this process, or wait for processes."""

    meter: Meter | None = None
    """Its measurements, while the dataset is observed."""

    def next(self, limit: int) -> Block | None:
        """Return the next block, of one to ``limit`` positions; ``None`` at the end."""
        raise NotImplementedError

    def state(self) -> State:
        """Return the position, from which ``restore`` of a fresh stage continues."""
        raise NotImplementedError

    def restore(self, state: State) -> None:
        """Move a fresh stage to ``state``."""
        raise NotImplementedError

    def advance(self, count: int) -> None:
        """Move ``count`` positions on without delivering them."""
        while count > 0:
            block = self.next(count)
            if block is None:
                return
            count -= block.events

    def limit_demand(self, positions: int) -> None:
        """Limit the demand: no more than ``positions`` further ones will be requested.

        Stages that read ahead do not call the user's functions for elements beyond the limit.
        """

    def hint_batch_size(self, size: int) -> None:
        """Hint that the consumer batches elements by ``size``."""

    def queue(self) -> tuple[int, int] | None:
        """Return how full the stage's queue is, and its capacity; ``None`` without a queue."""
        return None

    def most_nbytes(self) -> int | None:
        """Return the estimated maximum of bytes held, besides blocks; ``None`` if it depends."""
        return 0

    def held_nbytes(self) -> int | None:
        """Return the estimated bytes held now, of those in ``most_nbytes``; ``None`` if unknown.

        Called only while the dataset is observed.
        """
        return None

    def inputs(self) -> Sequence[Stage]:
        """Return the stages this one pulls from."""
        return []

    def parts(self) -> Sequence[Described]:
        return self.inputs()

    def close(self) -> None:
        """Stop threads and release what the stage holds."""
        for stage in self.inputs():
            stage.close()


class StartsEarly(Stage):
    """A stage that can begin its work before the first ``next``."""

    def start(self) -> None:
        """Begin, without blocking; the stage cannot be restored after that."""
        raise NotImplementedError


class PushbackBuffer:
    """The unused rest of a block pulled from an input, and the position of that block.

    A stage that pulls more than it can use at once leaves the rest here. The state consists of the
    input's state before the block and how much of the block was used, so that it holds no rows.
    """

    def __init__(self, stage: Stage):
        self.stage = stage
        self._block: Block | None = None
        self._used = 0
        self._before: State = {}

    def peek(self, limit: int) -> Block | None:
        """Return up to ``limit`` positions, of the rest, or else of a new block of the input."""
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
        """Mark the first ``count`` positions of the last ``peek`` as used."""
        self._used += count
        if self._block is not None and self._used >= self._block.events:
            self._block = None

    def pull(self, limit: int) -> Block | None:
        """Return the result of ``peek``, marked as used."""
        block = self.peek(limit)
        if block is not None:
            self.commit(block.events)
        return block

    @property
    def events(self) -> int:
        """How many positions are buffered."""
        return 0 if self._block is None else self._block.events - self._used

    def state(self) -> State:
        """Return the input's position, for ``restore``."""
        if self._block is None:
            return {"at": self.stage.state()}
        return {"at": self._before, "used": self._used}

    def restore(self, state: State) -> None:
        """Move the input, a fresh stage, to ``state``."""
        self.stage.restore(state["at"])
        used = state.get("used", 0)
        while used > 0 and (block := self.pull(used)) is not None:
            used -= block.events


class CountingStage(Stage):
    """Consumes blocks of its input and counts their positions, for errors and random keys."""

    def __init__(self, source: Stage):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self._pushback = PushbackBuffer(source)
        self._position = 0

    def count_from(self, position: int) -> None:
        """Set the position at which the input begins, before the first ``next``."""
        self._position = position

    def _use(self, positions: int) -> None:
        """Mark the first ``positions`` of the last ``peek`` as used."""
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
    """Cuts the blocks of a stage that ignores ``limit`` to the requested sizes.

    That stage may also return blocks without a position. What was not requested yet is buffered.
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
"""The size of a block at most. Passing one to another thread wakes that thread, which takes as long
as copying some hundred kilobytes."""

MAX_ELEMENTS = 16_384
_FAST = 0.002
_SLOW = 0.008


class BatchSizeController:
    """Adapts the number of elements in a block: one at first, doubled while blocks are quick.

    The first element thus arrives at once. Blocks of other sizes hold the same elements.
    """

    def __init__(self, row_nbytes: int):
        self._limit = 1
        self._most = max(1, min(MAX_ELEMENTS, TARGET_BYTES // max(1, row_nbytes)))
        self._started = 0.0

    def learn(self, row_nbytes: float) -> None:
        """Limit the block size by the measured size of rows, in bytes."""
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
        """Adapt the size to how long the block took since ``start``."""
        elapsed = time.perf_counter() - self._started
        if elapsed < _FAST:
            self._limit = min(self._limit * 2, MAX_ELEMENTS)
        elif elapsed > _SLOW:
            self._limit = max(1, self._limit // 2)


def may_vary(item: Described) -> bool:
    """Return whether blocks of a stage may hold columns of rows that differ in any dimension."""
    own = getattr(item, "varying", None)
    if own is None and getattr(item, "ragged", None) is False:
        return False
    return own if own is not None else any(may_vary(part) for part in item.parts())


def may_be_ragged(item: Described) -> bool:
    """Return whether blocks of a stage may hold columns of rows that differ in length."""
    own = getattr(item, "ragged", None)
    return own if own is not None else any(may_be_ragged(part) for part in item.parts())


def ragged_rows(spec: ElementSpec) -> bool:
    """Return whether columns may be ragged arrays, whose first dimension alone varies."""
    return any(leaf.shape[:1] == (None,) for leaf in spec.leaves)


class DenseStage(Stage):
    """Splits blocks for operations that take rows of equal shapes only."""

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
    """Return how many rows from the first on have its shape."""
    rows = block.n
    for column in block.columns:
        if isinstance(column, ArrayRows):
            rows = min(rows, column.same_shapes())
        elif isinstance(column, RaggedArray) and rows:
            lengths = column[:rows].row_lengths()
            differs = lengths != lengths[0]
            rows = int(np.argmax(differs)) if differs.any() else rows
    return rows
