"""The stage that visits an indexed dataset in some order."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

from drumline._forks import finalize
from drumline.data.elements.block import UNBOUNDED, Block, estimated_nbytes
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.programs import gathered_rows
from drumline.data.runtime.indexed import Index, Indexed, Order, joined
from drumline.data.runtime.stage import Described, Stage, State
from drumline.data.runtime.threads import Promise, Workers


class WalkStage(Stage):
    """Elements at the positions an order gives, with functions applied to them on the way.

    Maps that follow directly are applied to the block while it is in the processor's cache.

    Args:
        indexed: the dataset.
        order: in which it is visited.
        functions: what is applied.
        row_nbytes: estimated bytes of an element on its way.

    Attributes:
        at_once: how many elements to compute at once.
        prepared: all elements by position, if they were computed beforehand.
    """

    ragged: bool | None = None
    varying: bool | None = None
    prepared: Block | None = None

    def __init__(
        self,
        indexed: Indexed,
        order: Order,
        functions: Sequence[BlockFunction] = (),
        row_nbytes: int = 1,
    ):
        self.indexed = indexed
        self.order = order
        self.functions = list(functions)
        self._row_nbytes = row_nbytes
        self.granule = indexed.granule
        for function in self.functions:
            self.granule = function.limit(max(self.granule, function.block_length))
            if function.ragged is not None:
                self.ragged, self.varying = function.ragged, function.varying
        self.at_once = self.granule
        self._again: Index = range(0)

    def then(self, function: BlockFunction, row_nbytes: int) -> WalkStage:
        """The walk with one more function at its end, whose results take so many bytes."""
        return WalkStage(self.indexed, self.order, [*self.functions, function], row_nbytes)

    @property
    def computes(self) -> bool:
        """Whether there is work worth sharing between threads."""
        return self.granule > 1

    def next(self, limit: int) -> Block | None:
        index, start = self.take(min(limit, self.at_once) if self.granule > 1 else limit)
        if not len(index):
            return None
        block = self.evaluate(index, start)
        self.put_back(index[block.events :])
        return block

    def gathered(self, size: int) -> None:
        if self.granule == 1:
            return
        rows = gathered_rows(size, self.granule, self._row_nbytes)
        whole = all(function.limit(rows) == rows for function in self.functions)
        if whole and self.indexed.limit(rows) == rows:
            self.at_once = rows

    def take(self, limit: int) -> tuple[Index, int]:
        """Up to ``limit`` of the next positions, and how many were taken before them."""
        start = self.order.position - len(self._again)
        if len(self._again):
            index, self._again = self._again[:limit], self._again[limit:]
            return index, start
        return self.order.next(limit), start

    def put_back(self, index: Index) -> None:
        """Returns positions that were taken last: a row before them failed."""
        if len(index):
            self._again = joined(index, self._again)

    def evaluate(self, index: Index, start: int) -> Block:
        """The elements at ``index``, or those before the first that failed; thread-safe."""
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


class ParallelWalkStage(Stage):
    """A walk whose blocks are computed by several threads and delivered in order."""

    pool: Workers[Block]

    def __init__(
        self,
        walk: WalkStage,
        pool: Workers[Block],
        row_nbytes: int = 1,
        most_nbytes: int = UNBOUNDED,
    ):
        self.walk = walk
        self._most_nbytes = most_nbytes
        self.pool = pool
        self.granule = walk.granule
        self._row_nbytes = row_nbytes
        self._block_nbytes = walk.granule * row_nbytes
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

    def gathered(self, size: int) -> None:
        self.walk.gathered(size)
        self._block_nbytes = self.walk.at_once * self._row_nbytes

    def next(self, limit: int) -> Block | None:
        if self._current is None:
            self._current = self._finished(limit)
            self._used = 0
        block = self._current
        if block is None:
            return None
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
