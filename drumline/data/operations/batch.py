"""Elements stacked: ``batch``, ``padded_batch``, ``ragged_batch``, ``rebatch``.

``unbatch`` flattens batches again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drumline._memory import BufferPool
from drumline.data.elements.block import Block
from drumline.data.elements.columns import concatenated
from drumline.data.elements.ragged import (
    RaggedArray,
    RaggedTensorSpec,
    has_ragged,
    objects,
    row_spec,
    splits_of,
    uniform,
)
from drumline.data.elements.rows import single, stack
from drumline.data.elements.spec import INFINITE, UNKNOWN, ElementSpec, TensorSpec, is_known
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    CountingStage,
    Described,
    Index,
    RandomAccessSource,
    ServingStage,
    Stage,
    State,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Batch(Node):
    """Consecutive elements stacked."""

    size: int
    drop_remainder: bool
    name: ClassVar[str] = "batch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        size = self.size if self.drop_remainder else None
        return inner.with_leaves([leaf.batched(size) for leaf in inner.leaves])

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if not is_known(inner):
            return inner
        return inner // self.size if self.drop_remainder else -(-inner // self.size)

    def arguments(self) -> str:
        return f"{self.size}, drop_remainder={self.drop_remainder}"


@dataclasses.dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """The rows of each element.

    Attributes:
        operation: what the user asked for, for messages.
    """

    operation: str = dataclasses.field(default="unbatch", kw_only=True)

    name: ClassVar[str] = "unbatch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        return inner.with_leaves([row_spec(leaf) for leaf in inner.leaves])

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        rows = self.input.spec.leaves[0].shape[0]
        if inner == 0 or (rows is not None and is_known(inner)):
            return inner * (rows or 0)
        return inner if not is_known(inner) and rows else UNKNOWN


def locate_batch(
    lowering: Lowering, node: Batch, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else BatchedRows(inner, node.size, node.drop_remainder, node.spec)


class BatchedRows(RandomAccessSource):
    """Runs of another's elements, stacked; the last may be shorter."""

    def __init__(
        self, inner: RandomAccessSource, size: int, drop_remainder: bool, spec: ElementSpec
    ):
        self.inner = inner
        self.size = size
        self._spec = spec
        whole, rest = divmod(inner.length, size)
        self.length = whole + (rest > 0 and not drop_remainder)
        self.preferred_block_size = max(1, inner.preferred_block_size // size)

    def rows(self, index: Index) -> Block:
        """Return batches of equal lengths; a shorter one is a block by itself."""
        starts = np.asarray(index, np.int64) * self.size
        short = np.flatnonzero(starts + self.size > self.inner.length)
        if len(short):
            starts = starts[: max(1, short[0])]
        size = int(min(self.size, self.inner.length - starts[0])) if len(starts) else self.size
        positions = (starts[:, None] + np.arange(size)).reshape(-1)
        block = self.inner.rows(positions)
        count = block.n // size
        columns = [c[: count * size].reshape(count, size, *c.shape[1:]) for c in block.columns]
        if count == len(starts):
            return Block(columns, count)
        error = block.error or self._uneven(positions[count * size], block)
        return Block(columns if count else stack([], self._spec), count, error)

    def _uneven(self, first: int, block: Block) -> ValueError:
        return ValueError(
            f"batch({self.size}) cannot stack elements of different shapes: those of the batch "
            f"that begins with element {first} differ; pad or crop them in a map before the batch"
        )

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"batches of {self.size} by position"


@dataclasses.dataclass(frozen=True, eq=False)
class PaddedBatch(Batch):
    """Consecutive elements filled up to a common shape and stacked.

    Attributes:
        shapes: of each leaf of the input; ``None`` for as long as the longest of the batch.
        values: for each leaf, what it is filled up with.
    """

    shapes: tuple[tuple[int | None, ...], ...]
    values: tuple[Any, ...]
    name: ClassVar[str] = "padded_batch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        size = self.size if self.drop_remainder else None
        pairs = zip(inner.leaves, self.shapes, strict=True)
        return inner.with_leaves([TensorSpec((size, *shape), leaf.dtype) for leaf, shape in pairs])

    def arguments(self) -> str:
        values = ", ".join(repr(np.asarray(value).tolist()) for value in self.values)
        shapes = ", ".join(map(str, self.shapes))
        return f"{self.size}, {shapes}, values={values}, drop_remainder={self.drop_remainder}"


@dataclasses.dataclass(frozen=True, eq=False)
class RaggedBatch(Batch):
    """Consecutive elements stacked; leaves that vary in shape become ragged arrays."""

    name: ClassVar[str] = "ragged_batch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        return inner.with_leaves([self._stacked(leaf) for leaf in inner.leaves])

    def _stacked(self, leaf: TensorSpec) -> TensorSpec:
        size = self.size if self.drop_remainder else None
        if leaf.is_static:
            return leaf.batched(size)
        rank = 1 + max(i for i, dim in enumerate(leaf.shape) if dim is None)
        return RaggedTensorSpec((size, *leaf.shape), leaf.dtype, rank)


@dataclasses.dataclass(frozen=True, eq=False)
class Rebatch(Node):
    """Rows of batches that were split, in batches of other sizes, which take turns.

    Attributes:
        rows: how many each of the split batches had, if that is known.
    """

    sizes: tuple[int, ...]
    drop_remainder: bool
    rows: int | None = None
    name: ClassVar[str] = "rebatch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        size = self.sizes[0] if len(set(self.sizes)) == 1 else None
        if size is not None and not self.drop_remainder and (self.rows is None or self.rows % size):
            size = None
        return inner.with_leaves([leaf.batched(size) for leaf in inner.leaves])

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if inner in (INFINITE, UNKNOWN):
            return inner
        whole, rest = divmod(inner, sum(self.sizes))
        count = whole * len(self.sizes)
        for size in self.sizes:
            # A batch of no rows comes as long as none has found the end.
            if size and (rest <= 0 or (rest < size and self.drop_remainder)):
                break
            count += 1
            rest -= size
            if rest < 0:
                break
        return count

    def arguments(self) -> str:
        return f"{list(self.sizes)}, drop_remainder={self.drop_remainder}"


class StackStage(CountingStage):
    """One element of ``size`` of its input's; subclasses say how they are put together.

    Args:
        source: its blocks may be ragged.
        spec: of the results.
        size: how many elements make one.
        drop_remainder: whether fewer at the end are left out.
    """

    ragged = False
    varying = False

    def __init__(self, source: Stage, spec: ElementSpec, size: int, drop_remainder: bool):
        super().__init__(source)
        self.spec = spec
        self.size = size
        self.drop_remainder = drop_remainder

    def next(self, limit: int) -> Block | None:
        parts: list[Block] = []
        rows = 0
        while rows < self.size:
            part = self._pushback.peek(self._ask(self.size - rows))
            if part is None:
                break
            usable = min(part.n, self.size - rows)
            failed = part.error is not None and rows + part.n < self.size
            self._use(part.events if failed else usable)
            if failed:
                return self._failed(part.error)
            parts.append(part.slice(0, usable))
            rows += usable
        if rows == 0 or (rows < self.size and self.drop_remainder):
            return None
        return self._made(parts, rows)

    def _ask(self, rows: int) -> int:
        preferred_block_size = self.source.preferred_block_size
        return (
            -(-rows // preferred_block_size) * preferred_block_size
            if self.allows_readahead
            else rows
        )

    def _failed(self, error: Exception | None) -> Block:
        return Block(stack([], self.spec), 0, error)

    def _made(self, parts: Sequence[Block], rows: int) -> Block:
        try:
            columns = [
                self.stacked(leaf, pieces, rows)
                for leaf, pieces in enumerate(zip(*(part.columns for part in parts), strict=True))
            ]
        except ValueError as error:
            return self._failed(error)
        return Block([column[None] for column in columns], 1)

    def stacked(self, leaf: int, pieces: Sequence[Any], rows: int) -> Any:
        """Return the array that a leaf's columns, with ``rows`` rows in all, become.

        Raises:
            ValueError: rows do not go together.
        """
        raise NotImplementedError


class BatchStage(CountingStage):
    """Batches of ``size`` elements; only batches that straddle two input blocks are copied."""

    def __init__(
        self,
        source: Stage,
        size: int,
        drop_remainder: bool,
        pool: BufferPool,
        operation: str = "batch",
    ):
        super().__init__(source)
        self.size = size
        self.drop_remainder = drop_remainder
        self._pool = pool
        self._operation = operation

    def next(self, limit: int) -> Block | None:
        parts: list[Block] = []
        rows = 0
        while rows < self.size:
            part = self._pushback.peek(self._ask(limit * self.size - rows))
            if part is None:
                return self._remainder(parts, rows)
            if parts and part.n and not parts[-1].same_shapes(part):
                return self._mismatched(parts[-1], part, rows)
            usable = self._usable(part, rows, limit)
            self._use(usable)
            if usable > part.n:
                return self._failed(part, part.error)
            parts.append(part.slice(0, usable))
            rows += usable
        return self._emit(parts, rows)

    def _ask(self, rows: int) -> int:
        """Round up to whole blocks where read-ahead is allowed: a padded block costs the same."""
        preferred_block_size = self.source.preferred_block_size
        return (
            -(-rows // preferred_block_size) * preferred_block_size
            if self.allows_readahead
            else rows
        )

    def _usable(self, part: Block, rows: int, limit: int) -> int:
        """Return how many positions of ``part`` to use: complete batches, or the rest of one."""
        if rows == 0 and part.n >= self.size:
            return min(part.n // self.size, limit) * self.size
        if part.error is not None and rows + part.n < self.size:
            return part.events
        return min(part.n, self.size - rows)

    def _mismatched(self, before: Block, part: Block, rows: int) -> Block | None:
        """Return a block of an error alone: as in ``tf.data``, it replaces the whole batch.

        An element of the batch that failed has precedence; a dropped remainder has no error.
        """
        error: Exception | None = self._shape_error(before, part)
        while rows < self.size:
            more = self._pushback.peek(self._ask(self.size - rows))
            if more is None:
                return None if self.drop_remainder else self._failed(part, error)
            usable = self._usable(more, rows, 1)
            self._use(usable)
            if usable > more.n:
                return self._failed(part, more.error)
            rows += usable
        return self._failed(part, error)

    def _failed(self, part: Block, error: Exception | None) -> Block:
        """Return a block of the error alone: as in ``tf.data``, it replaces the whole batch."""
        empty = [column[:0].reshape(0, 1, *column.shape[1:]) for column in part.columns]
        return Block(empty, 0, error)

    def _emit(self, parts: list[Block], rows: int) -> Block:
        count = rows // self.size
        columns = [
            self._joined(pieces).reshape(count, self.size, *pieces[0].shape[1:])
            for pieces in zip(*(part.columns for part in parts), strict=True)
        ]
        return Block(columns, count)

    def _remainder(self, parts: list[Block], rows: int) -> Block | None:
        if rows == 0 or self.drop_remainder:
            return None
        columns = [
            self._joined(pieces).reshape(1, rows, *pieces[0].shape[1:])
            for pieces in zip(*(part.columns for part in parts), strict=True)
        ]
        return Block(columns, 1)

    def _joined(self, pieces: Sequence[np.ndarray]) -> np.ndarray:
        if len(pieces) == 1:
            return pieces[0]
        if not isinstance(pieces[0], np.ndarray):
            return concatenated(pieces)
        rows = sum(len(piece) for piece in pieces)
        out = self._pool.empty((rows, *pieces[0].shape[1:]), pieces[0].dtype)
        np.concatenate(pieces, out=out)
        out.flags.writeable = False
        return out

    def _shape_error(self, before: Block, part: Block) -> ValueError:
        pairs = enumerate(zip(before.columns, part.columns, strict=True))
        leaf, found, expected = next(
            (i, b.shape[1:], a.shape[1:]) for i, (a, b) in pairs if a.shape[1:] != b.shape[1:]
        )
        return ValueError(
            f"{self._operation}({self.size}) cannot stack elements of different shapes: leaf "
            f"{leaf} of element {self._position} has shape {found}, the elements before it in the "
            f"batch have {expected}; pad or crop them in a map before the batch"
        )

    def limit_demand(self, positions: int) -> None:
        self.source.limit_demand(positions * self.size)

    def describe(self) -> str:
        dropped = ", remainder dropped" if self.drop_remainder else ""
        return f"{self._operation} {self.size}{dropped}"


class PaddedBatchStage(StackStage):
    """A dimension without a given size is as long as the longest in the batch."""

    def __init__(self, source: Stage, node: PaddedBatch):
        super().__init__(source, node.spec, node.size, node.drop_remainder)
        self.shapes = node.shapes
        self.values = node.values

    def stacked(self, leaf: int, pieces: Sequence[Any], rows: int) -> np.ndarray:
        extents = [_extent(piece) for piece in pieces]
        longest = tuple(map(max, zip(*extents, strict=True)))
        dims = [m if d is None else d for d, m in zip(self.shapes[leaf], longest, strict=True)]
        if any(m > d for m, d in zip(longest, dims, strict=True)):
            raise self._too_long(leaf, longest, rows)
        out = np.full((rows, *dims), self.values[leaf], pieces[0].dtype)
        start = 0
        for piece, extent in zip(pieces, extents, strict=True):
            _write(piece, extent, out[start : start + len(piece)])
            start += len(piece)
        return out

    def _too_long(self, leaf: int, longest: tuple[int, ...], rows: int) -> ValueError:
        first = self._position - rows
        return ValueError(
            f"padded_batch({self.size}): leaf {leaf} of elements {first} to {self._position - 1} "
            f"is up to {longest} long, more than its padded shape {self.shapes[leaf]}; cut it "
            "in a map before, or give None for dimensions that may be of any length"
        )

    def describe(self) -> str:
        return f"padded batch {self.size}{', remainder dropped' if self.drop_remainder else ''}"


def _extent(piece: Any) -> tuple[int, ...]:
    return piece.bounding_shape()[1:] if isinstance(piece, RaggedArray) else piece.shape[1:]


def _write(piece: Any, extent: tuple[int, ...], out: np.ndarray) -> None:
    if isinstance(piece, RaggedArray) and extent[1:] == out.shape[2:]:
        piece.write_to(out)
        return
    rows = piece.to_tensor(out.flat[0]) if isinstance(piece, RaggedArray) and out.size else piece
    out[(slice(None), *map(slice, extent))] = rows


class RaggedBatchStage(StackStage):
    """Leaves of one shape become dense arrays."""

    def stacked(self, leaf: int, pieces: Sequence[Any], rows: int) -> np.ndarray:
        spec = self.spec.leaves[leaf]
        if not isinstance(spec, RaggedTensorSpec):
            return np.asarray(concatenated(pieces))
        if spec.ragged_rank == 1:
            made = concatenated([p if isinstance(p, RaggedArray) else uniform(p) for p in pieces])
            return single(made.copy())
        return single(_nested([np.asarray(row) for p in pieces for row in p], spec.ragged_rank))

    def describe(self) -> str:
        return f"ragged batch {self.size}{', remainder dropped' if self.drop_remainder else ''}"


def _nested(rows: Sequence[np.ndarray], rank: int) -> RaggedArray:
    """Return dense rows (a, b, ...) as one array whose first ``rank`` dimensions vary."""
    values: Any = np.concatenate([row.reshape(-1, *row.shape[rank:]) for row in rows])
    for depth in reversed(range(rank)):
        counts = [int(np.prod(row.shape[:depth], dtype=np.int64)) for row in rows]
        lengths = np.repeat([row.shape[depth] for row in rows], counts)
        values = RaggedArray._view(values, splits_of(lengths))
    return values


class RebatchStage(BatchStage):
    """Each batch has the next of ``sizes``, again from the first after the last.

    ``tf.data`` drops a batch that is too short, whichever of the sizes was its turn.
    """

    def __init__(
        self,
        source: Stage,
        sizes: Sequence[int],
        drop_remainder: bool,
        pool: BufferPool,
        spec: ElementSpec,
    ):
        super().__init__(source, sizes[0], drop_remainder, pool, "rebatch")
        self.sizes = list(sizes)
        self._made = 0
        self._rowless = [column[None] for column in stack([], spec)]
        # Whether a batch found the end: none without rows comes after it.
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        self.size = self.sizes[self._made % len(self.sizes)]
        block = super().next(1) if self.size else Block(self._rowless, 1)
        self._made += block.events if block is not None else 0
        return block

    def _remainder(self, parts: list[Block], rows: int) -> Block | None:
        self._ended = True
        return super()._remainder(parts, rows)

    def state(self) -> State:
        return {**super().state(), "made": self._made, "ended": self._ended}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._made = state["made"]
        self._ended = state.get("ended", False)

    def describe(self) -> str:
        return f"rebatch {self.sizes}{', remainder dropped' if self.drop_remainder else ''}"


class Flattened(CountingStage):
    """Blocks of batches as blocks of rows, of any length; only ``UnbatchStage`` pulls it."""

    def __init__(self, source: Stage, spec: ElementSpec, operation: str):
        super().__init__(source)
        self._operation = operation
        self.ragged = has_ragged(spec)
        self._spec = spec
        self._rows = 1

    def next(self, limit: int) -> Block | None:
        block = self._pushback.peek(max(1, limit // self._rows))
        if block is None:
            return None
        if self.ragged:
            return self._batch_of_rows(block)
        sizes = {column.shape[1] for column in block.columns}
        if not block.n:
            # Empty columns stand in for dimensions that vary: their sizes mean nothing.
            self._use(block.events)
            return _failed(block, block.error)
        if len(sizes) > 1:
            error = self._uneven(sizes, self._position)
            self._use(1)
            return _failed(block, error)
        self._use(block.events)
        self._rows = max(1, sizes.pop())
        rows = block.n * block.columns[0].shape[1]
        columns = [column.reshape(rows, *column.shape[2:]) for column in block.columns]
        return Block(columns, rows, block.error)

    def _batch_of_rows(self, block: Block) -> Block:
        """Return the rows of one batch that has ragged leaves."""
        if not block.n:
            self._use(block.events)
            return self._nothing(block.error)
        batch = [column[0] for column in block.columns]
        sizes = set(map(len, batch))
        position = self._position
        self._use(1)
        if len(sizes) > 1:
            return self._nothing(self._uneven(sizes, position))
        columns = [_rows(leaf) if isinstance(leaf, RaggedArray) else leaf for leaf in batch]
        return Block(columns, sizes.pop())

    def _uneven(self, sizes: set[int], index: int) -> ValueError:
        return ValueError(
            f"{self._operation} needs leaves with equal first dimensions; element {index} has "
            f"{sorted(sizes)}"
        )

    def _nothing(self, error: Exception | None) -> Block:
        rows = [row_spec(leaf) for leaf in self._spec.leaves]
        return Block(stack([], self._spec.with_leaves(rows)), 0, error)

    def describe(self) -> str:
        return "rows of batches"


class UnbatchStage(ServingStage):
    """The rows of each batch as elements."""

    def __init__(self, source: Stage, spec: ElementSpec, operation: str = "unbatch"):
        super().__init__(Flattened(source, spec, operation))

    def describe(self) -> str:
        return "unbatch"


def _rows(batch: RaggedArray) -> Any:
    return batch if batch.ragged_rank == 1 else objects(batch)


def _failed(block: Block, error: Exception | None) -> Block:
    return Block([c[:0].reshape(0, *c.shape[2:]) for c in block.columns], 0, error)


def lower_batch(lowering: Lowering, node: Batch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    _gather(lowering, source, node.size)
    return BatchStage(source, node.size, node.drop_remainder, lowering.pool)


def _gather(lowering: Lowering, source: Stage, size: int) -> None:
    """Hint a map to return complete batches, if it can at no cost, to save a copy."""
    if lowering.runtime.options.experimental_optimization.applies("map_and_batch_fusion"):
        source.hint_batch_size(size)


def lower_unbatch(lowering: Lowering, node: Unbatch, trail: Trail, run: Pass) -> Stage:
    return UnbatchStage(lowering.input(node, trail, run), node.input.spec, node.operation)


def lower_padded_batch(lowering: Lowering, node: PaddedBatch, trail: Trail, run: Pass) -> Stage:
    return PaddedBatchStage(lowering.input(node, trail, run, ragged=True), node)


def lower_ragged_batch(lowering: Lowering, node: RaggedBatch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return RaggedBatchStage(source, node.spec, node.size, node.drop_remainder)


def lower_rebatch(lowering: Lowering, node: Rebatch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    if len(set(node.sizes)) == 1:
        _gather(lowering, source, node.sizes[0])
        return BatchStage(source, node.sizes[0], node.drop_remainder, lowering.pool, node.name)
    return RebatchStage(source, node.sizes, node.drop_remainder, lowering.pool, node.input.spec)
