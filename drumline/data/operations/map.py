"""``map``: a user's function applied to a stream or by position, on one thread or several."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from drumline._forks import finalize
from drumline.data.elements.block import UNBOUNDED, Block, estimated_nbytes
from drumline.data.elements.columns import concatenated
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.call import BlockFunction, SupportsBatchHint, Vectorized
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.programs import whole_batches
from drumline.data.operations.ordering.order import ParallelSourceStage, SourceStage
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    MAX_ELEMENTS,
    TARGET_BYTES,
    CountingStage,
    Described,
    Index,
    RandomAccessSource,
    Stage,
    State,
)
from drumline.data.runtime.threads import Promise, Workers

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering
    from drumline.data.operations.checks import TakeWhile
    from drumline.data.operations.filter import Filter


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Node):
    """A function applied to every element.

    Attributes:
        function: the user's, traced or arranged to run as Python.
        label: its name, for ``explain()``.
        workers: how many blocks are computed at once, or ``AUTOTUNE``; ``None`` leaves it to the
            optimizer.
        unbounded: whether its workers are its own, whatever threads maps share.
        deterministic: whether order matters more than that no worker waits for a slow one; ``None``
            leaves it to the options.
    """

    function: BuiltFunction
    label: str
    workers: int | None
    unbounded: bool = False
    deterministic: bool | None = None
    name: ClassVar[str] = "map"

    @property
    def spec(self) -> ElementSpec:
        return self.function.spec

    def arguments(self) -> str:
        return self.label


class Mapped(RandomAccessSource):
    """A function applied to each element, block by block."""

    def __init__(self, inner: RandomAccessSource, function: BlockFunction):
        self.inner = inner
        self.function = function
        self.ragged = function.ragged
        self.varying = function.varying
        self.length = inner.length
        self.preferred_block_size = function.limit(
            max(inner.preferred_block_size, function.block_length)
        )

    def rows(self, index: Index) -> Block:
        block = self.inner.rows(index[: self.function.limit(len(index))])
        return self.function(block, lambda row: int(index[row]))

    def limit(self, wanted: int) -> int:
        return self.function.limit(self.inner.limit(wanted))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"map {self.function.describe()}"


def own_input(
    lowering: Lowering,
    node: Map | Filter | TakeWhile,
    trail: Trail,
    run: Pass,
) -> Stage:
    """Return the input of a node's function, as varied as the function takes it."""
    function = node.function
    return lowering.input(
        node, trail, run, ragged=function.takes_ragged, varying=function.takes_varying
    )


_IN_TURN = (
    "; one by one in the thread that asks: python_workers='processes' needs num_parallel_calls"
)


class MapStage(CountingStage):
    """Applies a function block by block; a failed element is an error in its place.

    Args:
        source: of the elements.
        function: what is applied.
        processes: whether worker processes would run the function if their number was given.
    """

    def __init__(self, source: Stage, function: BlockFunction, processes: bool = False):
        super().__init__(source)
        self._processes = processes
        self._gathering = function if isinstance(function, SupportsBatchHint) else None
        self._at_once = 0
        self._batch_size = 1
        self.function = function
        self.ragged = function.ragged
        self.varying = function.varying

    @property
    def preferred_block_size(self) -> int:  # type: ignore[override]
        return max(self.source.preferred_block_size, self.function.block_length)

    def next(self, limit: int) -> Block | None:
        if self.preferred_block_size > 1:
            most = max(self.preferred_block_size, self._at_once)
            limit = whole_batches(min(limit, most), self._batch_size)
        limit = self.function.limit(limit)
        block = self._pushback.peek(limit)
        if block is None:
            return None
        start = self._position
        out = self.function(block, lambda row: start + row)
        self._use(out.events)
        return out

    def hint_batch_size(self, size: int) -> None:
        if self._gathering is not None:
            self._at_once = self._gathering.at_once(size)
            self._batch_size = size if self._at_once % size == 0 else 1

    def limit_demand(self, positions: int) -> None:
        self.source.limit_demand(positions)

    def describe(self) -> str:
        return f"map {self.function.describe()}{_IN_TURN if self._processes else ''}"


FEW_EACH = 2
"""So that a worker that is done finds the next task."""

MANY_EACH = 32
"""So that workers find tasks while the result of one that takes much longer is waited for."""


_PATIENCE = 0.001
"""Seconds for which a result that is ready waits while more of the input is read ahead."""


class _Task:
    """A part of an input block that a worker computes.

    Attributes:
        before: the input's state before the block.
        used: how many of the block's positions come before this part.
        start: the position of its first element in the stream.
    """

    __slots__ = ("before", "block", "promise", "start", "used")

    def __init__(self, before: State, used: int, start: int, block: Block):
        self.before = before
        self.used = used
        self.start = start
        self.block = block
        self.promise: Promise[Block]


class ParallelMapStage(Stage):
    """Applies a function block by block, on workers, and delivers the results in order.

    The input is read ahead, some blocks for each worker, each of which takes a Python function some
    milliseconds, but never beyond the demand that ``limit_demand`` has set.

    Args:
        source: its input.
        function: what is applied.
        pool: the workers.
        may_wait: whether they may be occupied without computing.
        row_nbytes: estimated bytes of an element and its result.
        most_nbytes: what is read ahead may take so many bytes; two blocks always may.
        light: whether blocks of the input are put together at next to no cost.
        each: how many blocks it reads ahead for each worker.
        sized: whether ``row_nbytes`` is what they take; otherwise a first result tells.
    """

    pool: Workers[Block]

    def __init__(
        self,
        source: Stage,
        function: BlockFunction,
        pool: Workers[Block],
        may_wait: bool,
        row_nbytes: int = 1,
        most_nbytes: int = UNBOUNDED,
        light: bool = False,
        each: int = FEW_EACH,
        sized: bool = True,
    ):
        self.source = source
        # Asked once: what a protocol is takes long to find out.
        self._gathering = function if isinstance(function, SupportsBatchHint) else None
        self._light = light and self._gathering is not None
        self.function = function
        self.ragged = function.ragged
        self.varying = function.varying
        self.pool = pool
        self._most_nbytes = most_nbytes
        self._each = each
        self._sized = self._always_sized = sized
        self.workers_may_wait = may_wait
        self.allows_readahead = source.allows_readahead
        self._ahead: deque[_Task] = deque()
        self._current: Block | None = None
        self._rest: tuple[State, int, Block] | None = None
        self._head: _Task | None = None
        self._used = 0
        self._taken = 0
        self._position = 0
        self._end: int | None = None
        self._row_nbytes = row_nbytes
        self._task_nbytes = self.preferred_block_size * row_nbytes
        # What few elements cost is known to a function; not what they take.
        self._most_rows = max(self.preferred_block_size, TARGET_BYTES // row_nbytes)
        self._ended = False
        self._batch_hint = 1
        self._batch_size = 1
        self._finalizer = finalize(self, pool.close)
        self._finalizer.atexit = False

    def count_from(self, position: int) -> None:
        """Set the position at which the input begins, before the first ``next``."""
        self._position = self._taken = position

    def hint_batch_size(self, size: int) -> None:
        self._batch_hint = size
        if self._gathering is not None:
            at_once = max(self.preferred_block_size, self._gathering.at_once(size))
            self._task_nbytes = at_once * self._row_nbytes
            self._batch_size = size if self._gathering.at_once(size) % size == 0 else 1

    @property
    def preferred_block_size(self) -> int:  # type: ignore[override]
        return max(self.source.preferred_block_size, self.function.block_length)

    @property
    def workers(self) -> int:  # type: ignore[override]
        return self.pool.width

    def next(self, limit: int) -> Block | None:
        if self._current is None and not self._finish():
            return None
        block = self._current
        assert block is not None
        events = block.events
        limit = whole_batches(limit, self._batch_size)
        start, stop = self._used, min(self._used + limit, events)
        self._used = stop
        self._position += stop - start
        if stop == events:
            self._current = None
        else:
            self._fill()
        return block if start == 0 and stop == events else block.slice(start, stop)

    def _finish(self) -> bool:
        """Make the oldest task's result the current block; false at the end."""
        self._fill(patience=0)
        if not self._ahead:
            return False
        task = self._ahead.popleft()
        block = task.promise.result()
        nbytes = estimated_nbytes(task.block) + estimated_nbytes(block)
        self._task_nbytes = max(nbytes, self._task_nbytes // 2)
        self._sized = True
        if block.events < task.block.events:
            rest = task.block.slice(block.events, task.block.events)
            done = block.events
            again = _Task(task.before, task.used + done, task.start + done, rest)
            self._submit(again, first=True)
        self._current, self._head, self._used = block, task, 0
        self._fill()
        return True

    def _fill(self, patience: float = _PATIENCE) -> None:
        most, few = self._most_ahead(), FEW_EACH * self.pool.width
        deadline = time.perf_counter() + patience
        while len(self._ahead) < most:
            # What is ready must not wait for a slow input.
            ready = len(self._ahead) >= few and self._ahead[0].promise.done
            if ready and time.perf_counter() >= deadline:
                break
            task = self._cut()
            if task is None:
                break
            self._submit(task)

    def _most_ahead(self) -> int:
        """Return how many tasks there may be: some for each worker, within the memory limit.

        They are few until the memory of one is known.
        """
        each = self._each if self._sized else min(self._each, FEW_EACH)
        return min(each * self.pool.width, max(2, self._most_nbytes // self._task_nbytes))

    def _cut(self) -> _Task | None:
        """Return the next task, from what is left of an input block or from a new one."""
        wanted = self._at_once() if self.allows_readahead else 1
        if self._rest is None:
            self._rest = self._pull(wanted)
        if self._rest is None:
            return None
        before, used, block = self._rest
        self._rest = None
        events = block.events
        if events > wanted:
            self._rest = (before, used + wanted, block.slice(wanted, events))
            block, events = block.slice(0, wanted), wanted
        task = _Task(before, used, self._taken, block)
        self._taken += events
        return task

    def _at_once(self) -> int:
        if self._gathering is not None:
            return self._gathering.at_once(self._batch_hint)
        return self.function.limit(min(MAX_ELEMENTS, self._most_rows))

    def _pull(self, wanted: int) -> tuple[State, int, Block] | None:
        if self.allows_readahead and self.preferred_block_size > 1:
            # Fewer would cost the same where the input is computed in blocks of one length.
            wanted = (
                self.preferred_block_size
                if self._gathering is None
                else max(wanted, self.preferred_block_size)
            )
        if self._end is not None:
            wanted = min(wanted, self._end - self._taken)
        if self._ended or wanted <= 0:
            return None
        before = self.source.state()
        block = self.source.next(wanted)
        self._ended = block is None
        return None if block is None else (before, 0, self._filled_up(block, wanted))

    def _filled_up(self, block: Block, wanted: int) -> Block:
        """Return the block joined with what follows, where that saves copies of results."""
        if self._batch_hint == 1 or not (self._light and self.allows_readahead):
            return block
        parts, rows = [block], block.n
        while parts[-1].error is None and rows < wanted:
            more = self.source.next(wanted - rows)
            if more is None:
                self._ended = True
                break
            parts.append(more)
            rows += more.n
        if len(parts) == 1:
            return block
        columns = [concatenated(found) for found in zip(*(p.columns for p in parts), strict=True)]
        return Block(columns, rows, parts[-1].error)

    def _submit(self, task: _Task, first: bool = False) -> None:
        work = functools.partial(_apply, self.function, task.block, task.start)
        if self.meter is not None:
            work = functools.partial(self.meter.task, work)
        task.promise = self.pool.submit(work, first)
        if first:
            self._ahead.appendleft(task)
        else:
            self._ahead.append(task)

    def limit_demand(self, positions: int) -> None:
        self._end = self._position + positions
        self.source.limit_demand(self._end - self._taken)

    def state(self) -> State:
        task = self._head if self._current is not None else next(iter(self._ahead), None)
        if task is None and self._rest is not None:
            before, used, _ = self._rest
            return self._state(before, used)
        if task is None:
            return self._state(self.source.state(), 0)
        used = task.used + (self._used if self._current is not None else 0)
        return self._state(task.before, used)

    def _state(self, before: State, used: int) -> State:
        """Return a state as ``MapStage`` does, which any number of cores can restore."""
        return {"position": self._position, "input": {"at": before, "used": used}}

    def restore(self, state: State) -> None:
        self.source.restore(state["input"]["at"])
        self.source.advance(state["input"].get("used", 0))
        self._position = self._taken = state["position"]

    def queue(self) -> tuple[int, int]:
        ready = max(0, len(self._ahead) - self.pool.unfinished)
        return ready + (self._current is not None), self._most_ahead()

    def most_nbytes(self) -> int:
        if not self._always_sized:
            return self._most_nbytes
        # While a function runs, its results exist in two copies: single ones, and the block.
        tasks = self._most_ahead() + min(self.pool.width, self._most_ahead())
        return tasks * self._task_nbytes

    def held_nbytes(self) -> int:
        current = 0 if self._current is None else estimated_nbytes(self._current)
        return len(self._ahead) * self._task_nbytes + current

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"map {self.function.describe()}{self._whole_batches()}, {self.pool.describe()}"

    def _whole_batches(self) -> str:
        size = self._batch_hint
        gathers = self._gathering is not None and size > 1
        return f", whole batches of {size}" if gathers and self._at_once() % size == 0 else ""

    def close(self) -> None:
        self._finalizer()
        self.source.close()


def _apply(function: BlockFunction, block: Block, start: int) -> Block:
    return function(block, lambda row: start + row)


_LIGHT_NBYTES = 64


def index_map(lowering: Lowering, node: Map, trail: Trail, run: Pass) -> RandomAccessSource | None:
    if not node.function.reorderable:
        return None
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else Mapped(inner, _applied(lowering, node))


def lower_map(lowering: Lowering, node: Map, trail: Trail, run: Pass) -> Stage:
    source = own_input(lowering, node, trail, run)
    function = _applied(lowering, node)
    row_nbytes = node.input.spec.row_nbytes() + node.spec.row_nbytes()
    if node.function.reorderable and isinstance(source, SourceStage | ParallelSourceStage):
        walk = source if isinstance(source, SourceStage) else source.walk
        source.close()
        return lowering.shared(walk.then(function, row_nbytes), node)
    memory = (row_nbytes, lowering.runtime.nbytes // 2)
    each = _tasks_each(lowering, node)
    leaves = (*node.input.spec.leaves, *node.spec.leaves)
    ahead = (each, all(leaf.nbytes is not None for leaf in leaves))
    if processes := lowering.runtime.processes(node):
        return ParallelMapStage(source, *processes, True, *memory, False, *ahead)
    # A function that is compiled is padded to whole blocks: where the input must not be read ahead,
    # there are none to share.
    if node.workers in (None, 1) or not (node.function.is_python or source.allows_readahead):
        return MapStage(source, function, lowering.runtime.left_in_turn(node))
    workers = lowering.runtime.workers(node.workers, node.unbounded)
    light = all(_is_light(leaf) for leaf in node.input.spec.leaves)
    may_wait = node.function.is_python
    return ParallelMapStage(source, function, workers, may_wait, *memory, light, *ahead)


def _applied(lowering: Lowering, node: Map) -> BlockFunction:
    """Return the map's function, on whole blocks unless the options say otherwise."""
    function: BlockFunction = node.function.run
    options = lowering.runtime.options.experimental_optimization
    if options.map_vectorization is False and isinstance(function, Vectorized):
        return function.one_by_one
    if isinstance(function, CompiledFunction) and options.applies("native_arithmetic"):
        return function.with_native_arithmetic
    return function


def _tasks_each(lowering: Lowering, node: Map) -> int:
    """Return how many tasks a worker may be ahead."""
    chosen = node.deterministic
    if chosen is None:
        chosen = lowering.runtime.options.deterministic
    return MANY_EACH if chosen is False else FEW_EACH


def _is_light(leaf: TensorSpec) -> bool:
    """Return whether it costs next to nothing to copy: strings are objects or parts of a file."""
    if leaf.is_string:
        return leaf.shape == ()
    return leaf.is_static and (leaf.nbytes or 0) <= _LIGHT_NBYTES
