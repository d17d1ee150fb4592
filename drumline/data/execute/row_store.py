"""Single rows kept out of order: the memory of a shuffle over a stream."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.columns import concatenated
from drumline.data.execute.pool import BufferPool, fresh
from drumline.data.execute.sources import Gather
from drumline.data.spec import STRING, ElementSpec, TensorSpec

_FIRST_NBYTES = 1 << 20


class RowStore:
    """Rows by number. A failed element is kept as its error, under its number, like a row."""

    def __init__(self, spec: ElementSpec, pool: BufferPool):
        dense = all(type(leaf) is TensorSpec and leaf.is_static for leaf in spec.leaves)
        self._rows: _DenseRows | _LooseRows = _DenseRows(spec, pool) if dense else _LooseRows()
        self._errors: dict[int, Exception] = {}

    def put(self, number: int, block: Block) -> None:
        """Keeps the rows of ``block`` as ``number``, ``number + 1``, ..."""
        self._rows.put(number, block)
        if block.error is not None:
            self._errors[number + block.n] = block.error

    def take(self, numbers: Sequence[int]) -> Block:
        """Removes and returns rows: as many of ``numbers`` as make one block, at least one."""
        failed = self._errors
        errors = [i for i, number in enumerate(numbers) if number in failed] if failed else []
        stop = errors[0] if errors else len(numbers)
        block = self._rows.take(numbers[:stop])
        if errors and block.n == stop:
            block.error = self._errors.pop(numbers[stop])
        return block

    def drop(self, numbers: Sequence[int]) -> None:
        """Removes rows unseen."""
        self._rows.drop([n for n in numbers if self._errors.pop(n, None) is None])


class _DenseRows:
    def __init__(self, spec: ElementSpec, pool: BufferPool):
        self._columns = [np.empty((0, *_dims(leaf.shape)), leaf.dtype) for leaf in spec.leaves]
        self._first = max(1, min(64, _FIRST_NBYTES // spec.row_nbytes()))
        self._pool = pool
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._gathers: list[Gather | _Objects] = []
        self._size = 0

    def put(self, number: int, block: Block) -> None:
        if len(self._free) < block.n:
            self._grow(block.n)
        slots = self._free[-block.n :] if block.n else []
        del self._free[len(self._free) - block.n :]
        self._slots.update(zip(range(number, number + block.n), slots, strict=True))
        for column, rows in zip(self._columns, block.columns, strict=True):
            column[slots] = rows

    def _grow(self, rows: int) -> None:
        size = max(self._size * 2, self._size + rows, self._first)
        for i, column in enumerate(self._columns):
            grown = _room((size, *column.shape[1:]), column.dtype)
            grown[: self._size] = column
            self._columns[i] = grown
        self._free.extend(range(self._size, size))
        self._gathers = [
            _Objects(column) if column.dtype == STRING else Gather(column, self._pool)
            for column in self._columns
        ]
        self._size = size

    def take(self, numbers: Sequence[int]) -> Block:
        slots = list(map(self._slots.pop, numbers))
        index = np.asarray(slots, np.int64)
        columns = (
            [gather(index) for gather in self._gathers]
            if slots
            else [column[:0] for column in self._columns]
        )
        self._free.extend(slots)
        return Block(columns, len(slots))

    def drop(self, numbers: Sequence[int]) -> None:
        slots = list(map(self._slots.pop, numbers))
        for gather in self._gathers:
            if isinstance(gather, _Objects):
                gather.forget(slots)
        self._free.extend(slots)


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

    def forget(self, index: Sequence[int] | np.ndarray) -> None:
        """Releases rows."""
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

    def take(self, numbers: Sequence[int]) -> Block:
        if not numbers:
            return Block(self._template, 0)
        shapes = [part.shape for part in self._rows[numbers[0]]]
        rows: list[list[np.ndarray]] = []
        for number in numbers:
            if [part.shape for part in self._rows[number]] != shapes:
                break
            rows.append(self._rows.pop(number))
        return Block([concatenated(parts) for parts in zip(*rows, strict=True)], len(rows))

    def drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self._rows[number]


def _dims(shape: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(dim or 0 for dim in shape)
