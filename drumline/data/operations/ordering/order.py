"""Order of elements: ``take``, ``skip``, ``shard``, ``repeat``, ``shuffle``.

`SourceStage` reads a dataset with random access in such an order, and `ParallelSourceStage` does so
with several threads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from drumline._core import ShuffleIndices, mix64
from drumline._forks import finalize
from drumline.data.elements.block import UNBOUNDED, Block, estimated_nbytes
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import INFINITE, UNKNOWN, is_known
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.programs import gathered_rows, whole_batches
from drumline.data.operations.cache import Cache
from drumline.data.operations.numbering import RandomKeys
from drumline.data.operations.ordering.shuffle_buffer import EVERYTHING, ShuffleStage
from drumline.data.plan.node import Node, Pass, Trail, bottom_up
from drumline.data.runtime.stage import (
    Described,
    Index,
    IndexOrder,
    Permuted,
    RandomAccessSource,
    Shuffled,
    SlicedRows,
    Stage,
    State,
    Strided,
    joined,
)
from drumline.data.runtime.threads import Promise, Workers

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


class SourceStage(Stage):
    """Elements at the positions an order gives, with functions applied to them on the way.

    Maps that follow directly are applied to the block while it is in the processor's cache.

    Args:
        indexed: the dataset.
        order: in which it is visited.
        functions: what is applied.
        row_nbytes: estimated bytes of an element on its way.

    Attributes:
        at_once: how many elements to compute at once.
        batch_size: of batches that are computed whole; 1 where they are not.
        prepared: all elements by position, if they were computed beforehand.
    """

    ragged: bool | None = None
    varying: bool | None = None
    prepared: Block | None = None

    def __init__(
        self,
        indexed: RandomAccessSource,
        order: IndexOrder,
        functions: Sequence[BlockFunction] = (),
        row_nbytes: int = 1,
    ):
        self.indexed = indexed
        self.order = order
        self.functions = list(functions)
        self._row_nbytes = row_nbytes
        self.preferred_block_size = indexed.preferred_block_size
        for function in self.functions:
            self.preferred_block_size = function.limit(
                max(self.preferred_block_size, function.block_length)
            )
            if function.ragged is not None:
                self.ragged, self.varying = function.ragged, function.varying
        self.at_once = self.preferred_block_size
        self.batch_size = 1
        self._again: Index = range(0)

    def then(self, function: BlockFunction, row_nbytes: int) -> SourceStage:
        """Return the walk with one more function at its end, whose results take so many bytes."""
        return SourceStage(self.indexed, self.order, [*self.functions, function], row_nbytes)

    @property
    def computes(self) -> bool:
        """Whether there is work worth sharing between threads."""
        return self.preferred_block_size > 1

    def next(self, limit: int) -> Block | None:
        if self.preferred_block_size > 1:
            limit = whole_batches(min(limit, self.at_once), self.batch_size)
        index, start = self.take(limit)
        if not len(index):
            return None
        block = self.evaluate(index, start)
        self.put_back(index[block.events :])
        return block

    def hint_batch_size(self, size: int) -> None:
        if self.preferred_block_size == 1:
            return
        rows = gathered_rows(size, self.preferred_block_size, self._row_nbytes)
        whole = all(function.limit(rows) == rows for function in self.functions)
        if whole and self.indexed.limit(rows) == rows:
            self.at_once = rows
            self.batch_size = size if rows % size == 0 else 1

    def take(self, limit: int) -> tuple[Index, int]:
        """Return up to ``limit`` of the next positions, and how many were taken before them."""
        start = self.order.position - len(self._again)
        if len(self._again):
            index, self._again = self._again[:limit], self._again[limit:]
            return index, start
        return self.order.next(limit), start

    def put_back(self, index: Index) -> None:
        """Take positions back that were returned last, since a row before them failed."""
        if len(index):
            self._again = joined(index, self._again)

    def evaluate(self, index: Index, start: int) -> Block:
        """Return the elements at ``index``, or those before the first that failed; thread-safe."""
        if self.prepared is not None:
            if isinstance(index, range):
                return self.prepared.slice(index.start, index.stop)
            return Block([column[index] for column in self.prepared.columns], len(index))
        wanted = len(index)
        for function in self.functions:
            wanted = function.limit(wanted)
        block = self.indexed.rows(index[:wanted])
        for function in self.functions:
            block = function(block, lambda row: start + row)
        return block

    def state(self) -> State:
        return {"position": self.order.position - len(self._again)}

    def restore(self, state: State) -> None:
        self._again = range(0)
        self.order.seek(state["position"])

    def advance(self, count: int) -> None:
        self.restore({"position": self.state()["position"] + count})

    def parts(self) -> Sequence[Described]:
        return [self.indexed]

    def describe(self) -> str:
        maps = "".join(f", map {function.describe()}" for function in self.functions)
        return f"walk {self.order.describe()}{maps}"


class ParallelSourceStage(Stage):
    """A walk whose blocks are computed by several threads and delivered in order."""

    pool: Workers[Block]

    def __init__(
        self,
        walk: SourceStage,
        pool: Workers[Block],
        row_nbytes: int = 1,
        most_nbytes: int = UNBOUNDED,
    ):
        self.walk = walk
        self._most_nbytes = most_nbytes
        self.pool = pool
        self.preferred_block_size = walk.preferred_block_size
        self._row_nbytes = row_nbytes
        self._block_nbytes = walk.preferred_block_size * row_nbytes
        self._ahead: deque[tuple[Index, int, Promise[Block]]] = deque()
        self._current: Block | None = None
        self._position = 0
        self._used = 0
        self._started = False
        self._finalizer = finalize(self, pool.close)
        self._finalizer.atexit = False

    @property
    def workers(self) -> int:  # type: ignore[override]
        return self.pool.width

    def hint_batch_size(self, size: int) -> None:
        self.walk.hint_batch_size(size)
        self._block_nbytes = self.walk.at_once * self._row_nbytes

    def next(self, limit: int) -> Block | None:
        if self._current is None:
            self._current = self._finished(limit)
            self._used = 0
        block = self._current
        if block is None:
            return None
        limit = whole_batches(limit, self.walk.batch_size)
        start, stop = self._used, min(self._used + limit, block.events)
        self._used = stop
        self._position += stop - start
        if stop == block.events:
            self._current = None
        return block if start == 0 and stop == block.events else block.slice(start, stop)

    def _finished(self, limit: int) -> Block | None:
        if not self._started:
            # The first block is computed here, as short as asked: it should not wait for threads.
            self._started = True
            return self.walk.next(limit)
        while len(self._ahead) <= self._most_ahead():
            index, start = self.walk.take(self.walk.at_once)
            if not len(index):
                break
            self._submit(index, start)
        if not self._ahead:
            return None
        index, start, promise = self._ahead.popleft()
        block = promise.result()
        self._block_nbytes = max(estimated_nbytes(block), self._block_nbytes // 2)
        if block.events < len(index):
            self._submit(index[block.events :], start + block.events, first=True)
        return block

    def _most_ahead(self) -> int:
        return min(self.workers, max(1, self._most_nbytes // self._block_nbytes))

    def _submit(self, index: Index, start: int, first: bool = False) -> None:
        work = functools.partial(self.walk.evaluate, index, start)
        if self.meter is not None:
            work = functools.partial(self.meter.task, work)
        entry = (index, start, self.pool.submit(work, first))
        if first:
            self._ahead.appendleft(entry)
        else:
            self._ahead.append(entry)

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._ahead.clear()
        self._current = None
        self._position = state["position"]
        self.walk.restore(state)

    def advance(self, count: int) -> None:
        self.restore({"position": self._position + count})

    def most_nbytes(self) -> int:
        return (self._most_ahead() + 1) * self._block_nbytes

    def held_nbytes(self) -> int:
        current = 0 if self._current is None else estimated_nbytes(self._current)
        return len(self._ahead) * self._block_nbytes + current

    def queue(self) -> tuple[int, int]:
        ready = max(0, len(self._ahead) - self.pool.unfinished)
        return ready + (self._current is not None), self._most_ahead() + 1

    def parts(self) -> Sequence[Described]:
        return [self.walk]

    def describe(self) -> str:
        return self.pool.describe()

    def close(self) -> None:
        self._finalizer()


ENDLESS = 1 << 62
"""Stands for the length of passes without end."""


class RepeatedSource(RandomAccessSource):
    """Another's elements, which are the same in every pass, ``count`` times; ``None`` for ever."""

    def __init__(self, inner: RandomAccessSource, count: int | None):
        self.inner = inner
        self.preferred_block_size = inner.preferred_block_size
        passes = ENDLESS // max(1, inner.length) if count is None else count
        self.length = passes * inner.length

    def rows(self, index: Index) -> Block:
        length = self.inner.length
        if isinstance(index, range) and len(index):
            start = index.start % length
            if start + len(index) <= length:
                return self.inner.rows(range(start, start + len(index)))
        return self.inner.rows(np.asarray(index, np.int64) % max(1, length))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"the same {self.inner.length} positions again and again"


class Reordered(RandomAccessSource):
    """Another's elements in the order of a shuffle buffer, computed on demand."""

    def __init__(self, inner: RandomAccessSource, buffer_size: int, key: int):
        self.inner = inner
        self.length = inner.length
        self.preferred_block_size = inner.preferred_block_size
        self._indices = ShuffleIndices(key, buffer_size, inner.length)
        self._known = np.empty(0, np.int64)

    def rows(self, index: Index) -> Block:
        positions = np.asarray(index, np.int64)
        most = int(positions.max(initial=-1)) + 1
        if most > len(self._known):
            further = self._indices.next(max(most - len(self._known), len(self._known)))
            self._known = np.concatenate([self._known, further])
        return self.inner.rows(self._known[positions])

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return "shuffled positions"


class Passes(RandomAccessSource):
    """Pass after pass of one dataset, each with an order and random numbers of its own.

    Args:
        inner: gives the elements of the pass of that number.
        count: of the passes; ``None`` for ever.
    """

    def __init__(self, inner: Callable[[int], RandomAccessSource], count: int | None):
        self._inner = inner
        self._passes: dict[int, RandomAccessSource] = {0: inner(0)}
        self._each = self._passes[0].length
        self.preferred_block_size = self._passes[0].preferred_block_size
        self.length = (ENDLESS // max(1, self._each) if count is None else count) * self._each

    def rows(self, index: Index) -> Block:
        """Return positions of one pass only: those before the first of another pass."""
        positions = np.asarray(index, np.int64)
        if not len(positions):
            return self._passes[0].rows(positions)
        numbers, within = np.divmod(positions, self._each)
        others = np.flatnonzero(numbers != numbers[0])
        return self._pass(int(numbers[0])).rows(within[: others[0] if len(others) else None])

    def _pass(self, number: int) -> RandomAccessSource:
        if number not in self._passes:
            self._passes[number] = self._inner(number)
        return self._passes[number]

    def parts(self) -> Sequence[Described]:
        return [self._passes[0]]

    def describe(self) -> str:
        return "pass after pass by position"


class TakeStage(Stage):
    """The first ``count`` positions; never requests more from its input."""

    def __init__(self, source: Stage, count: int):
        self.source = source
        self.count = count
        self.allows_readahead = source.allows_readahead
        self._taken = 0
        source.limit_demand(count)

    @property
    def preferred_block_size(self) -> int:  # type: ignore[override]
        return min(self.source.preferred_block_size, max(1, self.count - self._taken))

    def limit_demand(self, positions: int) -> None:
        self.source.limit_demand(min(positions, self.count - self._taken))

    def next(self, limit: int) -> Block | None:
        limit = min(limit, self.count - self._taken)
        block = self.source.next(limit) if limit > 0 else None
        if block is not None:
            self._taken += block.events
        return block

    def state(self) -> State:
        return {"taken": self._taken, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._taken = state["taken"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"take {self.count}"


class SkipStage(Stage):
    """All but the first ``count`` positions."""

    def __init__(self, source: Stage, count: int):
        self.source = source
        self.count = count
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._skipped = False

    def next(self, limit: int) -> Block | None:
        if not self._skipped:
            self._skipped = True
            self.source.advance(self.count)
        return self.source.next(limit)

    def state(self) -> State:
        return {"skipped": self._skipped, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._skipped = state["skipped"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"skip {self.count}"


class ShardStage(Stage):
    """Every ``num_shards``-th position of its input, errors included; the others are dropped."""

    def __init__(self, source: Stage, num_shards: int, index: int):
        self.source = source
        self.num_shards = num_shards
        self.index = index
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._position = 0

    def next(self, limit: int) -> Block | None:
        while True:
            first = (self.index - self._position) % self.num_shards
            covering = first + (limit - 1) * self.num_shards + 1
            block = self.source.next(min(covering, max(limit, first + 1)))
            if block is None:
                return None
            self._position += block.events
            kept = self._kept(block, first)
            if kept.events:
                return kept

    def _kept(self, block: Block, first: int) -> Block:
        rows = range(first, block.n, self.num_shards)
        columns = [_strided(c, first, self.num_shards) for c in block.columns]
        failed = (block.n - first) % self.num_shards == 0
        return Block(columns, len(rows), block.error if failed else None)

    def state(self) -> State:
        return {"position": self._position, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"shard {self.index} of {self.num_shards}"


def _strided(column: Any, first: int, step: int) -> Any:
    rows = column[first::step]
    return rows if isinstance(rows, RaggedArray) else np.ascontiguousarray(rows)


Make = Callable[[int, list[bool] | None], tuple[Stage, list[bool]]]


class RepeatStage(Stage):
    """``count`` passes over an input, each over a new stage; ``None`` never ends.

    Args:
        make: returns the input's stage for the n-th pass, so that shuffles differ between passes,
            and which caches it serves elements from. Takes the latter to make a pass once more;
            ``None`` serves from those that are full by now.
        count: how many passes; ``None`` without end.
    """

    def __init__(self, make: Make, count: int | None):
        self.count = count
        self._make = make
        self._pass = 0
        self._source, self._caches = make(0, None)
        self._seen = False
        self.allows_readahead = self._source.allows_readahead
        self.preferred_block_size = self._source.preferred_block_size

    def next(self, limit: int) -> Block | None:
        while self.count is None or self._pass < self.count:
            block = self._source.next(limit)
            if block is not None:
                self._seen = True
                return block
            if self.count is None and not self._seen:
                return None
            self._start(self._pass + 1)
        return None

    def _start(self, number: int, caches: list[bool] | None = None) -> None:
        self._pass = number
        self._seen = False
        self._source.close()
        if self.count is None or number < self.count:
            self._source, self._caches = self._make(number, caches)

    def state(self) -> State:
        if self.count is not None and self._pass >= self.count:
            return {"pass": self._pass}
        return {
            "pass": self._pass,
            "seen": self._seen,
            "caches": self._caches,
            "input": self._source.state(),
        }

    def restore(self, state: State) -> None:
        if state["pass"] != self._pass:
            self._start(state["pass"], state.get("caches"))
        if "input" in state:
            self._seen = state["seen"]
            self._source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self._source]

    def describe(self) -> str:
        return "repeat" if self.count is None else f"repeat {self.count}"


def index_take(
    lowering: Lowering, node: Take, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return SlicedRows(inner, 0, min(node.count, inner.length))


def index_skip(
    lowering: Lowering, node: Skip, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    start = min(node.count, inner.length)
    return SlicedRows(inner, start, inner.length - start)


def index_shard(
    lowering: Lowering, node: Shard, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Strided(inner, node.index, node.num_shards)


def lower_take(lowering: Lowering, node: Take, trail: Trail, run: Pass) -> Stage:
    return TakeStage(lowering.input(node, trail, run, ragged=True), node.count)


def lower_skip(lowering: Lowering, node: Skip, trail: Trail, run: Pass) -> Stage:
    return SkipStage(lowering.input(node, trail, run, ragged=True), node.count)


def lower_shard(lowering: Lowering, node: Shard, trail: Trail, run: Pass) -> Stage:
    return ShardStage(lowering.input(node, trail, run, ragged=True), node.num_shards, node.index)


def lower_shuffle(lowering: Lowering, node: Shuffle, trail: Trail, run: Pass) -> Stage:
    key = shuffle_key(lowering, node, trail, run)
    indexed = _shuffled_input(lowering, node.input, (*trail, 0), run)
    size = buffered(node)
    if indexed is not None:
        order = Shuffled(indexed.length, size, key)
        return SourceStage(indexed, order, row_nbytes=node.spec.row_nbytes())
    source = lowering.input(node, trail, run, ragged=True)
    return ShuffleStage(source, size, key, node.spec, lowering.pool)


def buffered(node: Shuffle) -> int:
    """Return how many elements the buffer of a shuffle holds."""
    return EVERYTHING if node.buffer_size == UNKNOWN else node.buffer_size


def shuffle_key(lowering: Lowering, node: Shuffle, trail: Trail, run: Pass) -> int:
    """Return what the order of a shuffle follows from."""
    key = mix64(node.seed, lowering.occurrences[trail])
    if node.reshuffle:
        for part in run:
            key = mix64(key, part)
    return key


def _shuffled_input(
    lowering: Lowering, node: Node, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    """Return a shuffle's input by position, or of a ``repeat`` of identical passes."""
    drawing = Shuffle | RandomKeys
    if not isinstance(node, Repeat) or any(isinstance(n, drawing) for n in node.walk()):
        return lowering.indexed(node, trail, run)
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else RepeatedSource(inner, node.count)


def lower_repeat(lowering: Lowering, node: Repeat, trail: Trail, run: Pass) -> Stage:
    stores = [inner.store for inner in node.walk() if isinstance(inner, Cache)]

    def make(number: int, caches: list[bool] | None) -> tuple[Stage, list[bool]]:
        if caches is None:
            # The epoch decides for the first pass; later ones profit from what it filled.
            caches = [store in lowering.filled or (number > 0 and store.full) for store in stores]
        served = {store for store, serve in zip(stores, caches, strict=True) if serve}
        lowering.fill(node, served)
        source = lowering.serving(served).input(node, trail, (*run, number), ragged=True)
        return source, caches

    return RepeatStage(make, node.count)


SHARD_HINT = -1
"""Stands for both arguments of a shard that the strategy fills in."""


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle(Node):
    """A shuffle buffer; ``seed`` is always set here, drawn when the user gave none.

    Attributes:
        buffer_size: how many elements it holds; ``UNKNOWN`` for all that there are.
    """

    buffer_size: int
    seed: int
    reshuffle: bool
    name: ClassVar[str] = "shuffle"

    def arguments(self) -> str:
        size = "all elements" if self.buffer_size == UNKNOWN else self.buffer_size
        return f"{size}, reshuffle_each_iteration={self.reshuffle}"


GLOBAL: Final = "global"
"""A shuffle's buffer size that stands for all elements at once, without memory for them."""


@dataclasses.dataclass(frozen=True, eq=False)
class GlobalShuffle(Shuffle):
    """A permutation of a random-access input."""

    def arguments(self) -> str:
        return f"GLOBAL, reshuffle_each_iteration={self.reshuffle}"


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat(Node):
    """Pass after pass; ``count`` ``None`` never ends."""

    count: int | None
    name: ClassVar[str] = "repeat"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if inner == 0 or self.count == 0:
            return 0
        if self.count is None:
            return INFINITE
        return inner * self.count if is_known(inner) else inner

    def arguments(self) -> str:
        return "" if self.count is None else str(self.count)


@dataclasses.dataclass(frozen=True, eq=False)
class Take(Node):
    """The first ``count`` elements."""

    count: int
    name: ClassVar[str] = "take"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if inner == INFINITE or self.count == 0:
            return self.count
        return min(inner, self.count) if is_known(inner) else UNKNOWN

    def arguments(self) -> str:
        return str(self.count)


@dataclasses.dataclass(frozen=True, eq=False)
class Skip(Node):
    """All but the first ``count`` elements."""

    count: int
    name: ClassVar[str] = "skip"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return max(0, inner - self.count) if is_known(inner) else inner

    def arguments(self) -> str:
        return str(self.count)


@dataclasses.dataclass(frozen=True, eq=False)
class Shard(Node):
    """Every ``num_shards``-th element, from the one at ``index`` on; a hint is all of them."""

    num_shards: int
    index: int
    name: ClassVar[str] = "shard"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if not is_known(inner) or self.num_shards == SHARD_HINT:
            return inner
        return len(range(self.index, inner, self.num_shards))

    def arguments(self) -> str:
        if self.num_shards == SHARD_HINT:
            return "SHARD_HINT"
        return f"{self.num_shards}, index={self.index}"


def locate_shuffle(
    lowering: Lowering, node: Shuffle, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Reordered(inner, buffered(node), shuffle_key(lowering, node, trail, run))


def locate_repeat(
    lowering: Lowering, node: Repeat, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    if lowering.indexed_input(node, trail, (*run, 0)) is None:
        return None

    def make(number: int) -> RandomAccessSource:
        found = lowering.indexed_input(node, trail, (*run, number))
        assert found is not None
        return found

    return Passes(make, node.count)


def index_global_shuffle(
    lowering: Lowering, node: GlobalShuffle, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.by_position().indexed_input(node, trail, run)
    if inner is None:
        return None
    key = mix64(node.seed, lowering.occurrences[trail])
    for part in run if node.reshuffle else ():
        key = mix64(key, part)
    return Permuted(inner, key)


def has_shard_hints(plan: Node) -> bool:
    """Return whether some shard of the plan is a hint."""
    return any(isinstance(node, Shard) and node.num_shards == SHARD_HINT for node in plan.walk())


def resolve_shard_hints(plan: Node, num_shards: int, index: int) -> Node:
    """Return the plan of one of `num_shards` processes; with one it reads everything."""

    def resolve(node: Node) -> Node:
        if isinstance(node, Shard) and node.num_shards == SHARD_HINT:
            return dataclasses.replace(node, num_shards=num_shards, index=index)
        return node

    return bottom_up(plan, resolve)
