"""The rows of one variable that a server stores, and what its optimizer stores beside them.

`ServerShard` is the base of `DenseShard`, which is read and updated whole, and `EmbeddingShard`, of
which single rows are. All methods are called with the shard's lock held, but for those that say
otherwise. `version` is another after each change; an update that is attached keeps its slots.

A snapshot has a shard as it was at one moment while updates continue: of arrays that are never
overwritten, or of rows, which are put aside before they change.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from drumline.distribute.parameter_server.errors import (
    RowIndexError,
    ShardMismatchError,
    UnknownUpdateError,
    UpdateMismatchError,
)
from drumline.distribute.parameter_server.server.optimizer_updates import OptimizerUpdate, Slot

PIECE_BYTES = 16 << 20
"""How much of a table is copied at a time, which updates of it wait for."""

Piece = tuple[str, np.ndarray]


class ArraysSnapshot:
    """Arrays that are not written any more.

    Args:
        arrays: by name.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays

    def pieces(self) -> Iterator[Piece]:
        """All bytes of the arrays, by name, each array's in order."""
        for name, array in self._arrays.items():
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for start in range(0, len(content), PIECE_BYTES):
                yield name, content[start : start + PIECE_BYTES]


class RowsSnapshot:
    """The rows of arrays as they are now. `preserve` is called before some of them change.

    Rows that change before they were read are kept aside, each once.

    Args:
        lock: held by those who change rows, and now.
        arrays: rows of bytes by name, as many in each.
    """

    def __init__(self, lock: threading.Lock, arrays: Mapping[str, np.ndarray]) -> None:
        self._lock = lock
        self._arrays = dict(arrays)
        self._rows = len(next(iter(self._arrays.values())))
        self._read = 0
        self._is_kept = np.zeros(self._rows, np.bool_)
        self._kept: list[tuple[np.ndarray, list[np.ndarray]]] = []

    def preserve(self, ids: np.ndarray) -> None:
        """Keep rows that are about to change; the lock is held."""
        new = ids[(ids >= self._read) & ~self._is_kept[ids]]
        if len(new):
            self._is_kept[new] = True
            self._kept.append((new, [array[new] for array in self._arrays.values()]))

    def pieces(self) -> Iterator[Piece]:
        """All bytes of the arrays, by name, each array's in order. The lock is not held."""
        width = sum(array.shape[1] for array in self._arrays.values())
        count = max(PIECE_BYTES // max(width, 1), 1)
        for start in range(0, self._rows, count):
            stop = min(start + count, self._rows)
            with self._lock:
                copies = [array[start:stop].copy() for array in self._arrays.values()]
                kept = list(self._kept)
                self._read = stop
            _put_back(copies, kept, start, stop)
            yield from zip(self._arrays, copies, strict=True)


def _put_back(
    copies: Sequence[np.ndarray],
    kept: Sequence[tuple[np.ndarray, list[np.ndarray]]],
    start: int,
    stop: int,
) -> None:
    for ids, rows in kept:
        here = (ids >= start) & (ids < stop)
        if here.any():
            for copy, old in zip(copies, rows, strict=True):
                copy[ids[here] - start] = old[here]


Snapshot = ArraysSnapshot | RowsSnapshot


class ServerShard(ABC):
    """The base of both kinds of shards. Methods are called with `lock` held.

    Attributes:
        name: as the cluster calls it.
        shape: of the rows that are here.
        dtype: of the elements.
        start: the number of the first of these rows in the whole variable; None if not known.
        lock: held while the shard is read or written.
        version: another after each change, and always a larger one.
        iteration: how many updates there were.
        update_name: the update that was attached last; None if it has no slots.
        slot_list: what its updates keep beside the value.
    """

    is_table: bool

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype,
        start: int | None,
        versions: itertools.count[int],
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.start = start
        self.lock = threading.Lock()
        self.iteration = 0
        self.update_name: str | None = None
        self.slot_list: tuple[Slot, ...] = ()
        self._versions = versions
        self.version = next(versions)
        self._updates: dict[str, OptimizerUpdate] = {}

    @property
    def rows(self) -> int:
        """How many rows there are; a scalar has one."""
        return self.shape[0] if self.shape else 1

    def attached(self, name: str | None) -> OptimizerUpdate:
        """An attached update; the last one for None.

        Raises:
            UnknownUpdateError: if it was not attached.
        """
        update = self._updates.get(self.update_name if name is None else name)  # type: ignore[arg-type]
        if update is None:
            raise UnknownUpdateError(
                f"No update {name or ''!r} is attached to the shard {self.name!r}, only "
                f"{list(self._updates)}; send it with 'define_update' and 'attach' it."
            )
        return update

    def changed(self) -> None:
        """Note that the value is another one now."""
        self.version = next(self._versions)

    def attach(self, update: OptimizerUpdate) -> None:
        """Have `update` update the shard.

        The slots that are there stay if they are the update's, whether another one or a checkpoint
        brought them; so a program for rows and one for the whole value share them. Otherwise the
        update gets its own, and updates that were attached before go.

        Raises:
            ShardMismatchError: if the update is for other values.
            UpdateMismatchError: if the slots of a checkpoint are not the update's.
        """
        if update.name in self._updates:
            return
        update.check(self.name, self.shape, self.dtype)
        if self.update_name is None or not self._has_slots_of(update):
            self.reset_slots(update.slots)
            self._updates = {}
        self._updates[update.name] = update
        self.update_name = update.name

    def detach(self) -> None:
        """Have no update update the shard."""
        self._updates = {}
        self.update_name = None
        self.reset_slots(())

    def reset_slots(self, slots: tuple[Slot, ...]) -> None:
        """Have these slots, with their initial values, as before the first update."""
        self.slot_list = slots
        self.iteration = 0
        self.make_slots(slots)

    def check_slots(self, slots: tuple[Slot, ...]) -> None:
        """Make sure that the updates that are attached keep just these slots.

        Raises:
            UpdateMismatchError: if not.
        """
        needed = {slot.name: (self.slot_shape(slot), slot.dtype) for slot in slots}
        if self._updates and needed != self.slot_specs():
            raise UpdateMismatchError(
                f"The shard {self.name!r} has the slots {self.slot_specs()}, and the checkpoint "
                f"{needed}. Train with the optimizer of the checkpoint."
            )

    def slot_shape(self, slot: Slot) -> tuple[int, ...]:
        """The shape that a slot has beside this shard."""
        return self.shape if slot.shape is None else slot.shape

    def check_value(self, what: str, value: np.ndarray, shape: tuple[int, ...]) -> None:
        """Make sure that `value` has the shard's dtype and a certain shape.

        Raises:
            ShardMismatchError: if not.
        """
        if value.shape != shape or value.dtype != self.dtype:
            raise ShardMismatchError(
                f"{what} of the shard {self.name!r} has shape {value.shape} and dtype "
                f"{value.dtype}; it has to have {shape} and {self.dtype}."
            )

    def check_range(self, start: int, stop: int) -> tuple[int, ...]:
        """The shape of the rows ``[start, stop)``.

        Raises:
            RowIndexError: if there are no such rows.
        """
        if not 0 <= start <= stop <= self.rows:
            raise RowIndexError(
                f"The shard {self.name!r} has the rows [0, {self.rows}), not [{start}, {stop})."
            )
        return (stop - start, *self.shape[1:]) if self.shape else ()

    def file_name(self, slot: str | None = None) -> str:
        """What a checkpoint calls the value, or a slot."""
        return self.name if slot is None else f"{self.name}#{slot}"

    def check_slot(self, name: str, value: np.ndarray) -> None:
        """Make sure that `value` can be that of a slot.

        Raises:
            ShardMismatchError: if there is no such slot, or one of another shape or dtype.
        """
        found = self.slot_specs()
        if found.get(name) != (value.shape, value.dtype):
            raise ShardMismatchError(
                f"The shard {self.name!r} has no slot {name!r} of shape {value.shape} and dtype "
                f"{value.dtype}; it has {found}."
            )

    def _has_slots_of(self, update: OptimizerUpdate) -> bool:
        needed = {slot.name: (self.slot_shape(slot), slot.dtype) for slot in update.slots}
        found = self.slot_specs()
        if needed != found and not self._updates:
            raise UpdateMismatchError(
                f"The shard {self.name!r} was restored with the slots {found} of the update "
                f"{self.update_name!r}; the update {update.name!r} needs {needed}. Train with the "
                "optimizer of the checkpoint."
            )
        return needed == found

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How many bytes the value and its slots have."""

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """The rows ``[start, stop)``, which stay as they are."""

    @abstractmethod
    def write(self, start: int, stop: int, value: np.ndarray) -> None:
        """Set the rows ``[start, stop)``."""

    @abstractmethod
    def add(self, value: np.ndarray) -> None:
        """Add to the whole value."""

    @abstractmethod
    def update(self, gradient: np.ndarray, update: OptimizerUpdate) -> None:
        """Apply an update once, with a gradient for the whole value."""

    @abstractmethod
    def make_slots(self, slots: tuple[Slot, ...]) -> None:
        """Have these slots, with their initial values, and no others."""

    @abstractmethod
    def slots(self) -> dict[str, np.ndarray]:
        """The slots by name; they stay as they are."""

    @abstractmethod
    def begin_snapshot(self) -> list[Snapshot]:
        """The value and the slots as they are now, each once, to be read without the lock."""

    def end_snapshot(self) -> None:
        """The snapshot is not read any more. The lock is held."""
        return

    @abstractmethod
    def slot_specs(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """The slots' shapes and dtypes by name."""

    @abstractmethod
    def write_slot(
        self, name: str, value: np.ndarray, start: int = 0, stop: int | None = None
    ) -> None:
        """Set a slot, or some rows of one that follows the value's rows."""


@contextlib.contextmanager
def locked(shards: Iterable[ServerShard]) -> Iterator[None]:
    """Holds the locks of shards. All who hold several take them in the order of their names."""
    taken = []
    try:
        for shard in sorted(set(shards), key=_name):
            shard.lock.acquire()
            taken.append(shard.lock)
        yield
    finally:
        for lock in taken:
            lock.release()


_name = operator.attrgetter("name")
