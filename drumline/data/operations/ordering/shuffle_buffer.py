"""A shuffle buffer over a stream, and its memory: single rows stored out of order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from drumline._core import RowSlots, ScalarRows, ShuffleIndices, scatter_rows
from drumline._memory import BufferPool, fresh
from drumline.data.elements.block import Block, nbytes_of
from drumline.data.elements.columns import concatenated
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.operations.reading.sources import Gather
from drumline.data.runtime.stage import TARGET_BYTES, Stage, State

_FIRST_NBYTES = 1 << 20

_Item = TypeVar("_Item")


class RowStore:
    """Rows by number. A failed element is stored as its error, under its number, like a row.

    Args:
        spec: of the elements.
        pool: where taken rows are written.
        most: how many rows there are at the same time, about.
    """

    def __init__(self, spec: ElementSpec, pool: BufferPool, most: int):
        dense = all(type(leaf) is TensorSpec and leaf.is_static for leaf in spec.leaves)
        self._rows: _DenseRows | _LooseRows = (
            _DenseRows(spec, pool, most) if dense else _LooseRows()
        )
        self._errors: dict[int, Exception] = {}

    def put(self, number: int, block: Block) -> None:
        """Store the rows of ``block`` as ``number``, ``number + 1``, ..."""
        self._rows.put(number, block)
        if block.error is not None:
            self._errors[number + block.n] = block.error

    def take(self, numbers: np.ndarray) -> Block:
        """Remove and return rows: as many of ``numbers`` as make one block, at least one."""
        stop = len(numbers)
        if self._errors:
            failed = np.flatnonzero(np.isin(numbers, list(self._errors)))
            stop = int(failed[0]) if len(failed) else stop
        block = self._rows.take(numbers[:stop])
        if stop < len(numbers) and block.n == stop:
            block.error = self._errors.pop(int(numbers[stop]))
        return block

    @property
    def nbytes(self) -> int:
        """Its bytes, free capacity included."""
        return self._rows.nbytes

    def drop(self, numbers: np.ndarray) -> None:
        """Remove rows unseen."""
        if self._errors:
            kept = [self._errors.pop(number, None) is None for number in numbers.tolist()]
            numbers = numbers[kept]
        self._rows.drop(numbers)


class _DenseRows:
    """Scalars are copied column after column in one call, larger rows in a call each."""

    def __init__(self, spec: ElementSpec, pool: BufferPool, most: int):
        self._most = most
        self._scalar = [leaf.shape == () and leaf.dtype.itemsize > 0 for leaf in spec.leaves]
        self._scalars = ScalarRows(_chosen([leaf.dtype for leaf in spec.leaves], self._scalar))
        self._empty = [np.empty((0, *_dims(leaf.shape)), leaf.dtype) for leaf in spec.leaves]
        self._columns = _chosen(self._empty, self._scalar, False)
        self._tables = list(map(_bytes_of, self._columns))
        self._first = max(1, min(64, _FIRST_NBYTES // spec.row_nbytes()))
        self._pool = pool
        self._slots = RowSlots()
        self._gathers: list[Gather | _Objects] = []
        self._size = 0

    def put(self, number: int, block: Block) -> None:
        slots = self._slots.put(number, block.n)
        if self._slots.size > self._size:
            self._grow(self._slots.size)
        columns = list(map(np.ascontiguousarray, _chosen(block.columns, self._scalar)))
        self._scalars.put(slots, columns)
        wide = _chosen(block.columns, self._scalar, False)
        for column, table, rows in zip(self._columns, self._tables, wide, strict=True):
            if table is None or not rows.flags.c_contiguous:
                column[slots] = rows
            else:
                scatter_rows(_as_bytes(rows, table.shape[1]), slots, table)

    def _grow(self, rows: int) -> None:
        size = max(rows, min(self._most, max(self._size * 2, self._first)))
        self._scalars.grow(size)
        for i, column in enumerate(self._columns):
            grown = _room((size, *column.shape[1:]), column.dtype)
            grown[: self._size] = column
            self._columns[i], self._tables[i] = grown, _bytes_of(grown)
        self._gathers = [
            _Objects(column) if column.dtype == STRING else Gather(column, self._pool)
            for column in self._columns
        ]
        self._size = size

    def take(self, numbers: np.ndarray) -> Block:
        if not len(numbers):
            return Block(self._empty, 0)
        index = self._slots.take(numbers)
        scalars = iter(self._scalars.take(index))
        wide = (gather(index) for gather in self._gathers)
        return Block([next(scalars if one else wide) for one in self._scalar], len(index))

    @property
    def nbytes(self) -> int:
        scalars = sum(column.itemsize for column in _chosen(self._empty, self._scalar))
        return self._size * scalars + sum(map(nbytes_of, self._columns))

    def drop(self, numbers: np.ndarray) -> None:
        slots = self._slots.take(numbers)
        self._scalars.forget(slots)
        for gather in self._gathers:
            if isinstance(gather, _Objects):
                gather.forget(slots)


def _chosen(items: Sequence[_Item], flags: Sequence[bool], flag: bool = True) -> list[_Item]:
    """Return the items whose flag is ``flag``."""
    return [item for item, found in zip(items, flags, strict=True) if found is flag]


def _bytes_of(column: np.ndarray) -> np.ndarray | None:
    """Return the memory of a column's rows, unless there is none or they are objects."""
    width = column.itemsize * math.prod(column.shape[1:])
    return None if column.dtype == STRING or not width else _as_bytes(column, width)


def _as_bytes(column: np.ndarray, width: int) -> np.ndarray:
    """Return a contiguous column as uint8 (n, width)."""
    return column.reshape(-1).view(np.uint8).reshape(len(column), width)


def _room(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype == STRING:
        return np.empty(shape, dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    return fresh(nbytes)[:nbytes].view(dtype).reshape(shape)


class _Objects:
    """Takes rows of ``bytes`` out of a column, which then holds them no longer."""

    def __init__(self, column: np.ndarray):
        self._column = column

    def __call__(self, index: np.ndarray) -> np.ndarray:
        rows = self._column[index]
        self.forget(index)
        return rows

    def forget(self, index: np.ndarray) -> None:
        """Release rows."""
        self._column[index] = None


class _LooseRows:
    def __init__(self) -> None:
        self._rows: dict[int, list[np.ndarray]] = {}
        self._template: list[np.ndarray] = []

    def put(self, number: int, block: Block) -> None:
        self._template = [column[:0] for column in block.columns]
        for i in range(block.n):
            # A copy: a view would keep the whole block alive for one row.
            self._rows[number + i] = [column[i : i + 1].copy() for column in block.columns]

    def take(self, wanted: np.ndarray) -> Block:
        numbers = wanted.tolist()
        if not numbers:
            return Block(self._template, 0)
        shapes = [part.shape for part in self._rows[numbers[0]]]
        rows: list[list[np.ndarray]] = []
        for number in numbers:
            if [part.shape for part in self._rows[number]] != shapes:
                break
            rows.append(self._rows.pop(number))
        return Block([concatenated(parts) for parts in zip(*rows, strict=True)], len(rows))

    @property
    def nbytes(self) -> int:
        return sum(nbytes_of(leaf) for row in self._rows.values() for leaf in row)

    def drop(self, numbers: np.ndarray) -> None:
        for number in numbers.tolist():
            del self._rows[number]


def _dims(shape: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(dim or 0 for dim in shape)


_CHUNK = 1024

EVERYTHING = 2**62
"""The size of a buffer for all elements, however many there are."""


class ShuffleStage(Stage):
    """The same order as ``Shuffled`` gives over positions, for inputs that must be read in order.

    Its state is the number of elements delivered: restoring reads the input again from its start.
    """

    def __init__(
        self, source: Stage, buffer_size: int, key: int, spec: ElementSpec, pool: BufferPool
    ):
        self.source = source
        self.buffer_size = buffer_size
        self.allows_readahead = source.allows_readahead
        self._spec = spec
        self._indices = ShuffleIndices(key, buffer_size, None)
        self._most = buffer_size + max(
            TARGET_BYTES // spec.row_nbytes(), source.preferred_block_size
        )
        self._store = RowStore(spec, pool, self._most)
        self._arrived = 0
        self._ended = False
        self._drawn = np.empty(0, np.int64)
        self._delivered = 0

    def next(self, limit: int) -> Block | None:
        if not len(self._drawn):
            self._drawn = self._draw(limit)
        if not len(self._drawn):
            return None
        block = self._store.take(self._drawn[:limit])
        self._drawn = self._drawn[block.events :]
        self._delivered += block.events
        return block

    def _draw(self, limit: int) -> np.ndarray:
        count = min(limit, _CHUNK)
        self._fill(self._indices.needed(count))
        return self._indices.next(count)

    def _fill(self, needed: int) -> None:
        while self._arrived < needed and not self._ended:
            missing = needed - self._arrived
            preferred_block_size = self.source.preferred_block_size if self.allows_readahead else 1
            block = self.source.next(-(-missing // preferred_block_size) * preferred_block_size)
            if block is None:
                self._ended = True
                self._indices.set_length(self._arrived)
            else:
                self._store.put(self._arrived, block)
                self._arrived += block.events

    def state(self) -> State:
        return {"delivered": self._delivered}

    def restore(self, state: State) -> None:
        missing = state["delivered"]
        while missing > 0 and len(numbers := self._draw(missing)):
            self._store.drop(numbers)
            missing -= len(numbers)
            self._delivered += len(numbers)

    def most_nbytes(self) -> int | None:
        if self.buffer_size == EVERYTHING:
            return None
        static = all(leaf.nbytes is not None for leaf in self._spec.leaves)
        # What it holds is copied when it grows.
        return 2 * self._most * self._spec.row_nbytes() if static else None

    def held_nbytes(self) -> int:
        return self._store.nbytes

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        size = "all elements" if self.buffer_size == EVERYTHING else self.buffer_size
        return f"shuffle rows (buffer of {size})"
