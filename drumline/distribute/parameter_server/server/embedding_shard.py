"""A shard of which rows are read and updated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import jax
import numpy as np

from drumline._core import DistinctRows, TableRows, read_rows
from drumline.distribute.parameter_server.errors import (
    RepeatedRowError,
    RequestError,
    RowIndexError,
)
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.optimizer_updates import OptimizerUpdate, Slot
from drumline.distribute.parameter_server.server.shard import (
    ArraysSnapshot,
    RowsSnapshot,
    ServerShard,
    Snapshot,
)


class EmbeddingShard(ServerShard):
    """The rows of a table. A gather sees all of a push of rows, or nothing of it.

    Args:
        name: as the cluster calls it.
        value: at first, writable; the table keeps it.
        start: the number of its first row in the whole variable.
        versions: where the numbers of its versions come from.
    """

    is_table = True

    def __init__(
        self, name: str, value: np.ndarray, start: int | None, versions: itertools.count[int]
    ) -> None:
        super().__init__(name, value.shape, value.dtype, start, versions)
        self._value = value
        self._following: dict[str, np.ndarray] = {}
        self._shared: dict[str, np.ndarray] = {}
        self._order: list[str] = []
        self._bytes = [_row_bytes(value)]
        self._operands: dict[str, list[np.ndarray]] = {}
        self._snapshot: RowsSnapshot | None = None

    @property
    def row_bytes(self) -> np.ndarray:
        """The rows of the value as bytes, which are read with the lock held."""
        return self._bytes[0]

    @property
    def nbytes(self) -> int:
        slots = (*self._following.values(), *self._shared.values())
        return sum(each.nbytes for each in (self._value, *slots))

    def checked(self, ids: np.ndarray) -> TableRows:
        """The rows that are to be read. The lock is not needed.

        Raises:
            RequestError: if they are no list of integers.
            RowIndexError: if there is no such row.
        """
        try:
            return TableRows(_integers(self.name, ids), self.rows)
        except IndexError as error:
            raise self._no_row(str(error)) from error

    def distinct(self, ids: np.ndarray) -> DistinctRows:
        """The rows that are to be updated, checked. The lock is not needed.

        Raises:
            RequestError: if they are no list of integers.
            RowIndexError: if there is no such row.
            RepeatedRowError: if one is named twice.
        """
        integers = _integers(self.name, ids)
        try:
            return DistinctRows(integers, self.rows)
        except IndexError as error:
            raise self._no_row(str(error)) from error
        except ValueError as error:
            raise RepeatedRowError(
                f"Rows of the shard {self.name!r} cannot be updated: {error}. Sum the gradients of "
                "a row before they are pushed."
            ) from error

    def update_rows(
        self, ids: np.ndarray, rows: DistinctRows, gradient: np.ndarray, update: OptimizerUpdate
    ) -> None:
        """Apply a sparse update once to some rows, with a gradient for each.

        Args:
            ids: which rows.
            rows: the same, checked.
            gradient: a row for each.
            update: it is attached.
        """
        if update.native is not None:
            operands = self.begin_update(ids, rows, gradient, update)
            update.native.update_rows([operands], float(update.learning_rate))
        else:
            self._preserve_rows(ids)
            gradient = np.ascontiguousarray(gradient)
            shared = list(self._shared.values())
            shared = update.row_update.run(rows, gradient, self._bytes, shared, self.iteration)
            self._shared = dict(zip(self._shared, shared, strict=True))
        self.count_update()

    def begin_update(
        self, ids: np.ndarray, rows: DistinctRows, gradient: np.ndarray, update: OptimizerUpdate
    ) -> tuple[list[np.ndarray], DistinctRows, np.ndarray, int]:
        """What an update's native takes to update rows; `count_update` comes after it."""
        self._preserve_rows(ids)
        operands = self._operands.get(update.name)
        if operands is None:
            arrays = [self._value, *(self._following[slot.name] for slot in update.slots)]
            operands = self._operands[update.name] = [_row_elements(each) for each in arrays]
        flat = _row_elements(np.require(gradient, requirements=["C", "A"]))
        return operands, rows, flat, self.iteration

    def count_update(self) -> None:
        """Note that the shard was updated."""
        self.iteration += 1
        self.changed()

    def update(self, gradient: np.ndarray, update: OptimizerUpdate) -> None:
        if update.sparse:
            ids = np.arange(self.rows)
            return self.update_rows(ids, self.distinct(ids), gradient, update)
        self._preserve(0, self.rows)
        held = [self._value, *(self._slot(name) for name in self._order)]
        results = update.compiled(())(
            *held, gradient, np.int32(self.iteration), update.learning_rate
        )
        for array, result in zip(held, jax.block_until_ready(results), strict=True):
            array[...] = result
        self.count_update()

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._value[start:stop].copy()

    def write(self, start: int, stop: int, value: np.ndarray) -> None:
        self._preserve(start, stop)
        self._value[start:stop] = value
        self.changed()

    def add(self, value: np.ndarray) -> None:
        self._preserve(0, self.rows)
        self._value += value
        self.changed()

    def make_slots(self, slots: tuple[Slot, ...]) -> None:
        self._order = [slot.name for slot in slots]
        self._operands = {}
        made = {
            slot.name: memory.filled(self.slot_shape(slot), slot.dtype, slot.initial)
            for slot in slots
        }
        self._following = {slot.name: made[slot.name] for slot in slots if slot.shape is None}
        self._shared = {slot.name: made[slot.name] for slot in slots if slot.shape is not None}
        self._bytes = [_row_bytes(each) for each in (self._value, *self._following.values())]

    def slots(self) -> dict[str, np.ndarray]:
        return {name: self._slot(name).copy() for name in self._order}

    def slot_specs(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        slots = {name: self._slot(name) for name in self._order}
        return {name: (slot.shape, slot.dtype) for name, slot in slots.items()}

    def write_slot(
        self, name: str, value: np.ndarray, start: int = 0, stop: int | None = None
    ) -> None:
        slot = self._slot(name)
        if name in self._following:
            self._preserve(start, self.rows if stop is None else stop)
            slot[start:stop] = value
        else:
            slot[...] = value

    def begin_snapshot(self) -> list[Snapshot]:
        names = [self.file_name(), *map(self.file_name, self._following)]
        shared = {self.file_name(name): slot.copy() for name, slot in self._shared.items()}
        arrays = dict(zip(names, self._bytes, strict=True))
        self._snapshot = RowsSnapshot(self.lock, arrays)
        return [self._snapshot, ArraysSnapshot(shared)]

    def end_snapshot(self) -> None:
        self._snapshot = None

    def _preserve(self, start: int, stop: int) -> None:
        if self._snapshot is not None:
            self._snapshot.preserve(np.arange(start, stop))

    def _preserve_rows(self, ids: np.ndarray) -> None:
        if self._snapshot is not None:
            self._snapshot.preserve(ids)

    def _slot(self, name: str) -> np.ndarray:
        slots = self._following if name in self._following else self._shared
        return slots[name]

    def _no_row(self, error: str) -> RowIndexError:
        return RowIndexError(
            f"The shard {self.name!r} has the rows [0, {self.rows}): {error}. Ids are numbered "
            f"from the shard's first row, which is row {self.start} of the whole table."
        )


def gather(readings: Sequence[tuple[EmbeddingShard, TableRows, np.ndarray]]) -> None:
    """Copy rows of tables, whose locks are held: of each those that were `checked`, to an array."""
    read_rows([(shard.row_bytes, rows, _row_bytes(out)) for shard, rows, out in readings])


def _integers(shard: str, ids: np.ndarray) -> np.ndarray:
    if ids.ndim == 1 and ids.dtype in (np.int32, np.int64):
        return np.ascontiguousarray(ids)
    raise RequestError(
        f"Ids of rows of the shard {shard!r} are of shape {ids.shape} and dtype {ids.dtype}; pass "
        "a list of int32 or int64."
    )


def _row_elements(array: np.ndarray) -> np.ndarray:
    """The rows of a C-contiguous array, in two dimensions."""
    return array if array.ndim == 2 else array.reshape(len(array), math.prod(array.shape[1:]))


def _row_bytes(array: np.ndarray) -> np.ndarray:
    """The rows of a C-contiguous array, as bytes."""
    width = math.prod(array.shape[1:]) * array.dtype.itemsize
    return array.reshape(-1).view(np.uint8).reshape(len(array), width)
