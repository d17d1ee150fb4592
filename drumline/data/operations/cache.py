"""``cache`` in memory and the node of ``snapshot``: elements stored in the first complete epoch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from drumline._forks import ForkSafeLock
from drumline.data.elements.block import Block, estimated_nbytes
from drumline.data.elements.columns import concatenated
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec
from drumline.data.operations.nested.dataset_function import DatasetFunction
from drumline.data.operations.reading.sources import Columns, PartsStage
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import Concatenated, RandomAccessSource, Stage, State

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


class Recorder:
    """Takes the elements of a pass that may become those of a cache.

    Attributes:
        in_memory: whether it keeps the blocks themselves.
    """

    in_memory = False

    def add(self, block: Block) -> None:
        """The next elements."""
        raise NotImplementedError

    def complete(self) -> None:
        """Store what was added, at the end of a pass, unless the cache is full already."""
        raise NotImplementedError

    def drop(self) -> None:
        """The pass will not reach the end."""


class CacheStore:
    """The store of ``cache()``, shared by all iterators of the datasets made from it."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._blocks: list[Block] | None = None

    @property
    def blocks(self) -> list[Block] | None:
        """The cached elements, once a pass reached the end."""
        return self._blocks

    @property
    def checks(self) -> Sequence[Any]:
        """What compares the columns of the blocks with their checksums, for columns in files."""
        return ()

    @property
    def full(self) -> bool:
        """Whether a pass reached the end."""
        return self._blocks is not None

    def recorder(self) -> Recorder:
        """Return what takes the elements of a pass."""
        return _MemoryRecorder(self)

    def anew(self, plan: Any) -> CacheStore:
        """Return another store, for the elements of another plan."""
        return CacheStore()

    def complete(self, blocks: list[Block]) -> None:
        """Store the elements of a complete pass, joined where their shapes agree."""
        joined = _joined(blocks)
        with self._lock:
            if self._blocks is None:
                self._blocks = joined


class _MemoryRecorder(Recorder):
    in_memory = True

    def __init__(self, store: CacheStore):
        self._store = store
        self._blocks: list[Block] = []

    def add(self, block: Block) -> None:
        self._blocks.append(block)

    def complete(self) -> None:
        self._store.complete(self._blocks)


class FillStage(Stage):
    """Passes elements on and remembers them; a pass that saw an error is not kept."""

    def __init__(self, source: Stage, store: CacheStore):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._store = store
        self._recorder: Recorder | None = None
        self._nbytes = 0
        self._whole = True
        self._failure: Exception | None = None

    def next(self, limit: int) -> Block | None:
        if self._failure is not None:
            raise self._failure
        block = self.source.next(limit)
        if self._whole:
            try:
                self._record(block)
            except Exception as failure:
                # The block is lost, so the elements that follow cannot be delivered either.
                self._failure = failure
                self._give_up()
                raise
        return block

    def _record(self, block: Block | None) -> None:
        if self._recorder is None:
            self._recorder = self._store.recorder()
        if block is None:
            self._recorder.complete()
            self._whole = False
        elif block.error is not None:
            self._give_up()
        else:
            self._recorder.add(block)
            if self.meter is not None and self._recorder.in_memory:
                self._nbytes += estimated_nbytes(block)

    def _give_up(self) -> None:
        self._whole = False
        if self._recorder is not None:
            self._recorder.drop()
            self._recorder = None

    def state(self) -> State:
        return {"input": self.source.state()}

    def restore(self, state: State) -> None:
        started = state["input"] == self.source.state()
        self.source.restore(state["input"])
        if not started:
            self._give_up()

    def most_nbytes(self) -> int | None:
        return None

    def held_nbytes(self) -> int:
        return self._nbytes

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return "cache (filling: kept when this pass ends)"

    def close(self) -> None:
        if self._whole:
            self._give_up()
        super().close()


class ReplayStage(PartsStage):
    """Cached elements whose shapes differ, in order."""

    def __init__(self, blocks: Sequence[Block]):
        super().__init__([block.n for block in blocks])
        self._blocks = blocks
        self.ragged = any(isinstance(c, RaggedArray) for block in blocks for c in block.columns)

    def part(self, which: int) -> Sequence[Any]:
        return self._blocks[which].columns

    def describe(self) -> str:
        return f"cached elements ({self.length})"


def _joined(blocks: list[Block]) -> list[Block]:
    """Return neighbours of equal shapes as one block each, by column to bound the memory."""
    runs: list[list[Block]] = []
    for block in blocks:
        if block.n == 0:
            continue
        if runs and runs[-1][0].same_shapes(block):
            runs[-1].append(block)
        else:
            runs.append([block])
    return [_concatenated(run) for run in runs]


def _concatenated(run: list[Block]) -> Block:
    columns = []
    for leaf in range(len(run[0].columns)):
        column = concatenated([block.columns[leaf] for block in run])
        column.flags.writeable = False
        columns.append(column)
    return Block(columns, sum(block.n for block in run))


@dataclasses.dataclass(frozen=True, eq=False)
class Cache(Node):
    """Elements kept, in memory or in a directory, from the first complete pass on."""

    store: CacheStore
    where: str = ""
    name: ClassVar[str] = "cache"

    def arguments(self) -> str:
        return self.where


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot(Cache):
    """Elements stored in files, from the first complete pass on.

    Attributes:
        element: describes the elements.
        sharded: whether those of the input have one more leaf, which says for each its shard.
        reader: makes a dataset of the datasets of all shards; ``None``: elements of all by turns.
    """

    element: ElementSpec = dataclasses.field(kw_only=True)
    sharded: bool = dataclasses.field(kw_only=True)
    reader: DatasetFunction | None = dataclasses.field(kw_only=True)
    name: ClassVar[str] = "snapshot"

    @property
    def spec(self) -> ElementSpec:
        return self.element

    @property
    def seed(self) -> int | None:
        """The seed that those inside the reader are derived from; ``None`` if it draws none."""
        return None if self.reader is None else self.reader.seed

    def with_seed(self, seed: int) -> Snapshot:
        """Return the same operation with other seeds."""
        assert self.reader is not None
        return dataclasses.replace(self, reader=dataclasses.replace(self.reader, seed=seed))

    @property
    def in_order(self) -> bool:
        """Whether the elements come back in the order in which they were written."""
        return not self.sharded and self.reader is None


def locate_cache(
    lowering: Lowering, node: Cache, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    """Return what the cache holds, or else what it will be filled with."""
    blocks = node.store.blocks if node.store in lowering.filled else None
    if not blocks:
        return lowering.indexed_input(node, trail, (0,))
    parts: list[RandomAccessSource] = [
        Columns(block.columns, block.n, lowering.pool, node.store.checks) for block in blocks
    ]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [*(Concatenated(a, b) for a, b in pairs), *rest]
    return parts[0]


def index_cache(
    lowering: Lowering, node: Cache, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    blocks = node.store.blocks if node.store in lowering.filled else None
    if blocks is None or len(blocks) != 1:
        return None
    return Columns(blocks[0].columns, blocks[0].n, lowering.pool, node.store.checks)


def lower_cache(lowering: Lowering, node: Cache, trail: Trail, run: Pass) -> Stage:
    if node.store in lowering.filled and node.store.blocks is not None:
        for check in node.store.checks:
            check.check_all()
        return ReplayStage(node.store.blocks)
    # What a cache holds must not depend on the epoch in which it was filled.
    return FillStage(lowering.input(node, trail, (0,), ragged=True), node.store)
