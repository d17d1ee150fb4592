"""What running operations implement: stages, pulled in order, and elements by position.

`Stage` is the interface of streams, followed by what many of them share: `DenseStage`, for one,
splits blocks of rows of different lengths where the length changes. `RandomAccessSource` computes
the elements at any positions; an `IndexOrder` says which positions come when.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import ShuffleIndices, permuted
from drumline.data.elements.block import Block
from drumline.data.elements.columns import ArrayRows, concatenated, dense
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

    least_block_size: int = 1
    """How many elements a thread that reads ahead requests at least: fewer cost as much."""

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


Index = range | np.ndarray
"""Positions: a ``range`` of step 1, or an int64 array (k,)."""


def joined(first: Index, then: Index) -> Index:
    """Return the positions of both, which follow one another in an order."""
    if not len(then):
        return first
    if isinstance(first, range) and isinstance(then, range):
        return range(first.start, then.stop)
    return np.concatenate([first, then])


class IndexOrder:
    """A sequence of positions that can be resumed at any point."""

    position: int = 0
    """How many positions were given out."""

    def next(self, limit: int) -> Index:
        """Return up to ``limit`` further positions; none at the end."""
        raise NotImplementedError

    def seek(self, position: int) -> None:
        """Continue after the first ``position`` positions."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return a word or two for ``explain()``."""
        raise NotImplementedError


class Sequential(IndexOrder):
    """The positions 0, 1, 2, ..."""

    def __init__(self, length: int):
        self.length = length

    def next(self, limit: int) -> Index:
        start = self.position
        self.position = min(self.length, start + limit)
        return range(start, self.position)

    def seek(self, position: int) -> None:
        self.position = min(position, self.length)

    def describe(self) -> str:
        return "in order"


class Shuffled(IndexOrder):
    """The order of a shuffle buffer over 0, 1, 2, ...

    The state is the number of positions given out: replaying a million of them takes a few
    milliseconds.
    """

    def __init__(self, length: int, buffer_size: int, key: int):
        self.length = length
        self.buffer_size = buffer_size
        self.key = key
        self._indices = ShuffleIndices(key, buffer_size, length)

    def next(self, limit: int) -> Index:
        index = self._indices.next(limit)
        self.position += len(index)
        return index

    def seek(self, position: int) -> None:
        self._indices = ShuffleIndices(self.key, self.buffer_size, self.length)
        self._indices.skip(position)
        self.position = min(position, self.length)

    def describe(self) -> str:
        return f"shuffled by index (buffer of {min(self.buffer_size, self.length)})"


class RandomAccessSource(Described):
    """Random access to ``length`` elements, by position.

    A chain of these (a source, then maps, ``enumerate``, ``zip``, ``take``, ...) has no state but
    the position, which is what makes shuffles cheap and resuming exact.
    """

    length: int = 0
    preferred_block_size: int = 1

    def rows(self, index: Index) -> Block:
        """Return the elements at ``index``: all of them, or those before the first that failed.

        Args:
            index: a ``range`` of step 1, or an int64 array (k,), within ``0 <= i < length``.
        """
        raise NotImplementedError

    def limit(self, wanted: int) -> int:
        """Return how many elements to ask for at once when ``wanted`` are needed."""
        return min(
            (p.limit(wanted) for p in self.parts() if isinstance(p, RandomAccessSource)),
            default=wanted,
        )

    def parts(self) -> Sequence[Described]:
        """Return what this is made of."""
        return []


class SlicedRows(RandomAccessSource):
    """A run of another's positions: ``take`` and ``skip``."""

    def __init__(self, inner: RandomAccessSource, start: int, length: int):
        self.inner = inner
        self.start = start
        self.length = length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        if isinstance(index, range):
            return self.inner.rows(range(index.start + self.start, index.stop + self.start))
        return self.inner.rows(index + self.start)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"positions {self.start} to {self.start + self.length}"


class Strided(RandomAccessSource):
    """Every ``step``-th of another's positions: ``shard``."""

    def __init__(self, inner: RandomAccessSource, start: int, step: int):
        self.inner = inner
        self.start = start
        self.step = step
        self.length = len(range(start, inner.length, step))
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64) * self.step + self.start
        return self.inner.rows(positions)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"every {self.step}th position from {self.start}"


class Zipped(RandomAccessSource):
    """Elements at the same position of several datasets side by side."""

    def __init__(self, inner: Sequence[RandomAccessSource]):
        self.inner = list(inner)
        self.length = min((part.length for part in inner), default=0)
        self.preferred_block_size = max((part.preferred_block_size for part in inner), default=1)

    def rows(self, index: Index) -> Block:
        parts = [part.rows(index) for part in self.inner]
        shortest = min(parts, key=lambda part: part.n)
        columns = [column[: shortest.n] for part in parts for column in part.columns]
        return Block(columns, shortest.n, shortest.error)

    def parts(self) -> Sequence[Described]:
        return self.inner

    def describe(self) -> str:
        return "zip"


class Enumerated(RandomAccessSource):
    """The position in front of each element."""

    def __init__(self, inner: RandomAccessSource, start: int):
        self.inner = inner
        self.start = start
        self.length = inner.length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        block = self.inner.rows(index)
        numbers = np.asarray(index, np.int64)[: block.n] + self.start
        numbers.flags.writeable = False
        return Block([numbers, *block.columns], block.n, block.error)

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"enumerate from {self.start}"


class Concatenated(RandomAccessSource):
    """One dataset after another."""

    def __init__(self, first: RandomAccessSource, second: RandomAccessSource):
        self.first = first
        self.second = second
        self.length = first.length + second.length
        self.preferred_block_size = max(first.preferred_block_size, second.preferred_block_size)

    def rows(self, index: Index) -> Block:
        edge = self.first.length
        if isinstance(index, range):
            return self._contiguous(index, edge)
        early = index < edge
        if not early.any():
            return self.second.rows(index - edge)
        if early.all():
            return self.first.rows(index)
        whole = self._interleaved(index, early)
        return whole if whole is not None else self._first_run(index, early)

    def _interleaved(self, index: np.ndarray, early: np.ndarray) -> Block | None:
        late = ~early
        a, b = self.first.rows(index[early]), self.second.rows(index[late] - self.first.length)
        if a.n + b.n < len(index) or not a.same_shapes(b):
            return None
        columns = []
        for x, y in zip(a.columns, b.columns, strict=True):
            if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
                places = np.argsort(np.concatenate([np.flatnonzero(early), np.flatnonzero(late)]))
                columns.append(concatenated([x, y]).take(places))
                continue
            column = np.empty((len(index), *x.shape[1:]), x.dtype)
            column[early], column[late] = x, y
            column.flags.writeable = False
            columns.append(column)
        return Block(columns, len(index))

    def _first_run(self, index: np.ndarray, early: np.ndarray) -> Block:
        """Return rows up to the next change of side, where a row failed or shapes differ."""
        stop = int(np.argmax(early != early[0]))
        run = index[:stop]
        return self.first.rows(run) if early[0] else self.second.rows(run - self.first.length)

    def _contiguous(self, index: range, edge: int) -> Block:
        if index.start >= edge:
            return self.second.rows(range(index.start - edge, index.stop - edge))
        return self.first.rows(range(index.start, min(index.stop, edge)))

    def parts(self) -> Sequence[Described]:
        return [self.first, self.second]

    def describe(self) -> str:
        return "concatenate"


class Permuted(RandomAccessSource):
    """Another's elements in an order that is computed from ``key``, and takes no memory."""

    def __init__(self, inner: RandomAccessSource, key: int):
        self.inner = inner
        self.key = key
        self.length = inner.length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64)
        return self.inner.rows(permuted(self.key, self.length, positions))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"permutation of {self.length} positions"
