"""A shard that is read and updated whole.

`CowArray` has its value and each slot: readers get a view that never changes, and the next update
works in place if no reader holds one, or else in other memory. So a value can be sent while it is
updated, without a copy for each reader. Updates run in Rust, or in a compiled program that is given
the memory of the old value.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from drumline.distribute.parameter_server.errors import ShardLostError
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.optimizer_updates import OptimizerUpdate, Slot
from drumline.distribute.parameter_server.server.shard import ArraysSnapshot, ServerShard, Snapshot


class CowArray:
    """An array of which no reader sees a change: a view has the value of its time.

    Its memory is changed in place while there is no view of it. Otherwise the next value gets other
    memory, which is that of an older one without views if there is one. Calls must not
    overlap.

    Args:
        value: it is copied.
    """

    def __init__(self, value: np.ndarray) -> None:
        self._value: np.ndarray | jax.Array = memory.copied(value)
        self._alias: weakref.ref[memory.Alias] | None = None
        self._former: tuple[weakref.ref[memory.Alias], np.ndarray] | None = None

    @property
    def view(self) -> np.ndarray:
        """The value, read-only and unchanged for as long as it is referred to."""
        value = self._value
        if value.size == 0:
            return _frozen(np.zeros(value.shape, value.dtype))
        alias = self._alias and self._alias()
        if alias is None:
            alias = memory.Alias(value, value.shape, np.dtype(value.dtype), writable=False)
            self._alias = weakref.ref(alias)
        array = np.asarray(alias)
        return array if array.dtype == value.dtype else array.view(value.dtype)

    @property
    def operand(self) -> np.ndarray | jax.Array:
        """The value for a compiled function, which may be given its memory if `is_spare`."""
        return self._value

    @property
    def is_spare(self) -> bool:
        """Whether the memory is JAX's and there is no view of it: the next value can take it."""
        return not isinstance(self._value, np.ndarray) and self._is_unseen

    @property
    def _is_unseen(self) -> bool:
        return self._alias is None or self._alias() is None

    def writable(self) -> np.ndarray:
        """The value in memory without views, to be changed in place."""
        value = self._value
        if isinstance(value, np.ndarray) and self._is_unseen:
            return value
        target = self._former_memory()
        if target is None:
            target = memory.zeros(value.shape, np.dtype(value.dtype))
        target[...] = self.view
        if isinstance(value, np.ndarray) and self._alias is not None:
            self._former = self._alias, value
        self._value, self._alias = target, None
        return target

    def copy_to(self, out: np.ndarray) -> None:
        """Copy the value, as it is now."""
        out[...] = np.asarray(self._value)

    def replace(self, value: np.ndarray | jax.Array) -> None:
        """Set another value, a JAX array that was computed or a numpy array, which is copied."""
        self._alias = self._former = None
        self._value = memory.copied(value) if isinstance(value, np.ndarray) else value

    def _former_memory(self) -> np.ndarray | None:
        if self._former is None or self._former[0]() is not None:
            return None
        (_, array), self._former = self._former, None
        return array


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


_SMALL = 16 << 10

Shared = Callable[[tuple[int, ...], np.dtype], np.ndarray | None]


class DenseShard(ServerShard):
    """A variable's rows, of which readers see one value or the next, never something between.

    Args:
        name: as the cluster calls it.
        value: at first; it is copied.
        start: the number of its first row in the whole variable.
        versions: where the numbers of its versions come from.
    """

    is_table = False

    def __init__(
        self, name: str, value: np.ndarray, start: int | None, versions: itertools.count[int]
    ) -> None:
        super().__init__(name, value.shape, value.dtype, start, versions)
        self._value = CowArray(value)
        self._slots: dict[str, CowArray] = {}

    @property
    def value(self) -> np.ndarray:
        """The value, read-only; it stays as it is."""
        return self._value.view

    @property
    def nbytes(self) -> int:
        held = [self._value, *self._slots.values()]
        return sum(each.operand.nbytes for each in held)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.value[start:stop] if self.shape else self.value

    def write(self, start: int, stop: int, value: np.ndarray) -> None:
        if stop - start < self.rows:
            whole = self.value.copy()
            whole[start:stop] = value
            value = whole
        self._value.replace(value)
        self.changed()

    def add(self, value: np.ndarray) -> None:
        self._value.replace(np.asarray(np.add(self.value, value, dtype=self.dtype)))
        self.changed()

    def pull(self, shared: Shared) -> np.ndarray:
        """The value for a reply: copied to memory that its receiver sees, if there is such memory.

        Args:
            shared: gives that memory, or None.
        """
        operand = self._value.operand
        if operand.nbytes < _SMALL:
            return np.array(operand)
        out = shared(self.shape, self.dtype)
        if out is None:
            return self.value
        self._value.copy_to(out)
        return out

    def attach(self, update: OptimizerUpdate) -> None:
        super().attach(update)
        if update.native is not None:
            return
        # Memory of JAX's own, which the first update can use again.
        for held in (self._value, *self._slots.values()):
            if isinstance(held.operand, np.ndarray):
                held.replace(memory.on_cpu(held.operand))

    def update(self, gradient: np.ndarray, update: OptimizerUpdate) -> None:
        if update.native is not None:
            held = [self._value, *(self._slots[slot.name] for slot in update.slots)]
            arrays = [each.writable().reshape(-1) for each in held]
            flat = np.require(gradient, requirements=["C", "A"]).reshape(-1)
            rate = float(update.learning_rate)
            update.native.update_whole([(arrays, flat, self.iteration)], rate)
        else:
            self._compute(gradient, update)
        self.iteration += 1
        self.changed()

    def _compute(self, gradient: np.ndarray, update: OptimizerUpdate) -> None:
        held = [self._value, *self._slots.values()]
        donated = tuple(i for i, each in enumerate(held) if each.is_spare)
        operands = [each.operand for each in held]
        compiled = update.compiled(donated)
        try:
            results = compiled(*operands, gradient, np.int32(self.iteration), update.learning_rate)
            jax.block_until_ready(results)
        except Exception as error:
            self._check_not_lost(operands, error)
            raise
        for each, result in zip(held, results, strict=True):
            each.replace(result)

    def _check_not_lost(self, operands: list[Any], error: Exception) -> None:
        if any(isinstance(each, jax.Array) and each.is_deleted() for each in operands):
            raise ShardLostError(
                f"An update of the shard {self.name!r} failed when it had overwritten the old "
                f"value: {error}. Restore the servers from a checkpoint."
            ) from error

    def make_slots(self, slots: tuple[Slot, ...]) -> None:
        self._slots = {
            slot.name: CowArray(np.full(self.slot_shape(slot), slot.initial, slot.dtype))
            for slot in slots
        }

    def slots(self) -> dict[str, np.ndarray]:
        return {name: held.view for name, held in self._slots.items()}

    def slot_specs(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        operands = {name: held.operand for name, held in self._slots.items()}
        return {name: (each.shape, np.dtype(each.dtype)) for name, each in operands.items()}

    def begin_snapshot(self) -> list[Snapshot]:
        arrays = {self.file_name(name): value for name, value in self.slots().items()}
        return [ArraysSnapshot({self.file_name(): self.value, **arrays})]

    def write_slot(
        self, name: str, value: np.ndarray, start: int = 0, stop: int | None = None
    ) -> None:
        held = self._slots[name]
        follows = any(slot.name == name and slot.shape is None for slot in self.slot_list)
        if follows and self.shape:
            whole = held.view.copy()
            whole[start:stop] = value
            value = whole
        held.replace(value)
