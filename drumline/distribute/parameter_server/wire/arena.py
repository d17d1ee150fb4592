"""Shared memory in which one process puts arrays for one other on the same machine.

Its pages are reserved before they are written, and its size is sealed, so that neither a full
memory nor the other side can make an access fail.

It is divided into slots, with an array in each, or several of one message. A byte per slot says
whether the other side still holds one: this side sets it when it sends, and the other clears it
when the last of a slot's arrays dies there.

The receiving side of an `Arena`.

Whether two processes share a machine, and the memory they then share.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import logging
import math
import mmap
import operator
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline._memory import ALIGNMENT, address_of, aligned_empty, padded, size_class
from drumline._shared_memory import (
    MemoryOffer,
    create_memory,
    is_enabled,
    machine,
    map_memory,
)
from drumline.distribute.parameter_server.errors import ProtocolError
from drumline.distribute.parameter_server.wire.codec import ArrayForm, Place, Spec

ARENA_BYTES = 1 << 30
"""Of addresses; memory is taken as it is needed."""

FLAG_BYTES = 64
"""Each flag has a cache line of its own."""
MOST_SLOTS = 1023
DATA_START = FLAG_BYTES * (MOST_SLOTS + 1)

_PAGE = 4096
_LARGEST_SHARE = 4
_IDLE_SECONDS = 10.0
_LOOKED_AT = 4
_start = operator.attrgetter("start")


@dataclasses.dataclass(slots=True)
class _Slot:
    number: int
    start: int
    length: int
    used_at: float = 0.0
    local: weakref.ref[np.ndarray] | None = None

    @property
    def stop(self) -> int:
        return self.start + self.length


class Arena:
    """The sending side.

    Args:
        nbytes: of addresses.

    Attributes:
        descriptor: of the memory.
        offer: of the memory, for `MappedArena`.
        nbytes: as given.

    Raises:
        OSError: if the system has no such memory.
    """

    def __init__(self, nbytes: int = ARENA_BYTES) -> None:
        self.nbytes = nbytes
        self.descriptor = create_memory(nbytes, reserved=DATA_START)
        try:
            self.offer = MemoryOffer.of(self.descriptor)
            self._memory = map_memory(self.descriptor)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._address = address_of(np.frombuffer(self._memory, np.uint8))
        self._lock = threading.Lock()
        self._slots: list[_Slot] = []
        self._by_length: dict[int, collections.deque[_Slot]] = {}
        self._numbers = list(reversed(range(MOST_SLOTS)))
        self._closed = False

    def put(self, arrays: Sequence[np.ndarray]) -> list[Place | None]:
        """Send the arrays of one message: the place of each here, or None if there is no room.

        They are copied, except for those that `empties` made.
        """
        places: list[Place | None] = []
        copies: list[tuple[_Slot, np.ndarray]] = []
        with self._lock:
            sent: _Slot | None = None
            stop = 0
            for array in arrays:
                offset = address_of(array) - self._address
                if sent is None or offset < stop or not _lies_in(sent, offset, array):
                    sent = self._sent_as_it_lies(offset, array)
                if sent is not None:
                    stop = offset + array.nbytes
                    places.append((sent.number, offset))
                elif copy := self._sent_as_copy(array):
                    places.append((copy.number, copy.start))
                    copies.append((copy, array))
                else:
                    places.append(None)
        for slot, array in copies:
            np.copyto(self._view(slot, array.shape, array.dtype), array)
        return places

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray] | None:
        """Arrays here to be filled and sent in one message, or None if there is no room.

        They are one to the memory: what one of them takes is free when all are gone.
        """
        sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in forms]
        stops = list(itertools.accumulate(map(padded, sizes)))
        with self._lock:
            slot = None if self._closed else self._take(stops[-1] if stops else 0)
            if slot is None:
                return None
            base = np.frombuffer(self._memory, np.uint8, stops[-1], slot.start)
            slot.local = weakref.ref(base)
        return [
            base[start : start + size].view(dtype).reshape(shape)
            for (shape, dtype), start, size in zip(forms, [0, *stops], sizes, strict=False)
        ]

    def trim(self) -> None:
        """Give memory back that was not used for a while."""
        if self._lock.acquire(blocking=False):
            try:
                now = time.monotonic()
                self._drop(s for s in self._free() if now - s.used_at > _IDLE_SECONDS)
            finally:
                self._lock.release()

    def close(self) -> None:
        """Send no more. The memory lives on with the arrays over it, here and there."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.descriptor)
                self._slots.clear()
                self._by_length.clear()

    @property
    def held_bytes(self) -> int:
        """The memory taken for slots."""
        return sum(slot.length for slot in self._slots)

    def _view(self, slot: _Slot, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        count = math.prod(shape)
        return np.frombuffer(self._memory, dtype, count, slot.start).reshape(shape)

    def _sent_as_it_lies(self, offset: int, array: np.ndarray) -> _Slot | None:
        """The slot in which `array` lies, unless that is on its way already."""
        if not 0 <= offset < self.nbytes:
            return None
        before = bisect.bisect_right(self._slots, offset, key=_start)
        slot = self._slots[before - 1] if before else None
        if slot is None or not _lies_in(slot, offset, array) or self._memory[_flag(slot.number)]:
            return None
        self._memory[_flag(slot.number)] = 1
        return slot

    def _sent_as_copy(self, array: np.ndarray) -> _Slot | None:
        slot = None if self._closed else self._take(array.nbytes)
        if slot is not None:
            self._memory[_flag(slot.number)] = 1
        return slot

    def _take(self, nbytes: int) -> _Slot | None:
        if not 0 < nbytes <= self.nbytes // _LARGEST_SHARE:
            return None
        length = size_class(nbytes, _PAGE)
        slot = self._free_of(length) or self._fitting(length) or self._new(length)
        if slot is None:
            self._drop(self._free())
            slot = self._new(length)
        if slot is not None:
            slot.used_at = time.monotonic()
            slot.local = None
        return slot

    def _free_of(self, length: int) -> _Slot | None:
        """A slot of that length, of the first few: those that were taken longest ago."""
        slots = self._by_length.get(length, collections.deque())
        for _ in range(min(len(slots), _LOOKED_AT)):
            slot = slots[0]
            slots.rotate(-1)
            if self._is_free(slot):
                return slot
        return None

    def _fitting(self, length: int) -> _Slot | None:
        fitting = [s for s in self._free() if length <= s.length <= 2 * length]
        return min(fitting, key=lambda s: s.length, default=None)

    def _free(self) -> list[_Slot]:
        return [slot for slot in self._slots if self._is_free(slot)]

    def _is_free(self, slot: _Slot) -> bool:
        here = slot.local is not None and slot.local() is not None
        return not here and not self._memory[_flag(slot.number)]

    def _new(self, length: int) -> _Slot | None:
        start = next((start for start, gap in self._gaps() if gap >= length), None)
        if start is None or not self._numbers:
            return None
        try:
            os.posix_fallocate(self.descriptor, start, length)
        except OSError:  # memory is short: the array goes by the network
            return None
        slot = _Slot(self._numbers.pop(), start, length)
        bisect.insort(self._slots, slot, key=_start)
        self._by_length.setdefault(length, collections.deque()).append(slot)
        return slot

    def _gaps(self) -> Iterator[tuple[int, int]]:
        start = DATA_START
        for slot in self._slots:
            yield start, slot.start - start
            start = slot.stop
        yield start, self.nbytes - start

    def _drop(self, slots: Any) -> None:
        for slot in list(slots):
            self._slots.remove(slot)
            self._by_length[slot.length].remove(slot)
            self._numbers.append(slot.number)
            self._memory.madvise(mmap.MADV_REMOVE, slot.start, slot.length)


def _lies_in(slot: _Slot, offset: int, array: np.ndarray) -> bool:
    """Whether an array at that offset is in the slot, and can be sent as it lies."""
    inside = slot.start <= offset < slot.stop
    return inside and offset % ALIGNMENT == 0 and array.flags.c_contiguous


def _flag(number: int) -> int:
    return FLAG_BYTES * (number + 1)


_NOT_THERE = "an array lies outside of the shared memory, or upon another one"


class MappedArena:
    """Makes arrays of what the other process put into its arena.

    Args:
        offer: of the other's arena.

    Raises:
        OSError: if it cannot be opened: another machine, user or namespace, or no such memory.
    """

    def __init__(self, offer: MemoryOffer) -> None:
        opened = offer.open()
        try:
            self._memory = map_memory(opened)
        finally:
            os.close(opened)
        self._nbytes = offer.nbytes
        self._process = os.getpid()
        self._held: dict[int, weakref.ref[np.ndarray]] = {}

    def arrays(self, specs: Sequence[Spec]) -> list[np.ndarray]:
        """The arrays of one message, which lie at their places.

        A slot is free again when all its arrays and their views are gone.

        Raises:
            ProtocolError: if there is no such place, or an array there is still in use.
        """
        made: list[np.ndarray] = []
        for number, group in itertools.groupby(specs, key=_slot_of):
            made += self._of_slot(number, list(group))
        return made

    def _of_slot(self, number: int, specs: Sequence[Spec]) -> list[np.ndarray]:
        first, stop = _start_of(specs[0]), DATA_START
        for spec in specs:
            start = _start_of(spec)
            if start < stop or start % ALIGNMENT or spec.nbytes <= 0:
                raise ProtocolError(_NOT_THERE)
            stop = start + spec.nbytes
        if not 0 <= number < MOST_SLOTS or stop > self._nbytes or number in self._held:
            raise ProtocolError(_NOT_THERE)
        base = np.frombuffer(self._memory, np.uint8, stop - first, first)
        self._held[number] = weakref.ref(base, lambda _: self._release(number))
        return [_of(base, spec, _start_of(spec) - first) for spec in specs]

    def _release(self, number: int) -> None:
        if os.getpid() == self._process:  # a forked child's copies say nothing of this process's
            del self._held[number]
            self._memory[FLAG_BYTES * (number + 1)] = 0


def _slot_of(spec: Spec) -> int:
    return spec.where[0] if spec.where else -1


def _start_of(spec: Spec) -> int:
    return spec.where[1] if spec.where else 0


def _of(base: np.ndarray, spec: Spec, start: int) -> np.ndarray:
    array = base[start : start + spec.nbytes].view(spec.dtype).reshape(spec.shape)
    # If that is of another array, views of it do not keep `base` alive, and the slot.
    return array if array.base is base else array.copy()


_log = logging.getLogger("drumline")


class SharedMemory:
    """The memory of one connection, as one of its sides sees it.

    It is set up while the connection is: each side describes its own (`offer`), tries to open the
    other's (`accept`), and says whether it could (`confirm`). Without it, all arrays travel.

    Raises:
        ValueError: if the environment's ``DRUMLINE_SHARED_MEMORY`` is neither 0 nor 1.
    """

    def __init__(self) -> None:
        self._own: Arena | None = None
        self._theirs: MappedArena | None = None
        self._confirmed = False
        self._told = False
        if is_enabled():
            try:
                self._own = Arena()
            except OSError as error:
                self._tell(f"there is none: {error}")

    def offer(self) -> dict[str, Any] | None:
        """What the other side needs to know, for JSON."""
        if self._own is None:
            return None
        return self._own.offer.to_json()

    def accept(self, offered: object) -> bool:
        """Open the other side's memory. Returns whether that worked."""
        offer = MemoryOffer.parse(offered)
        if offer is not None and is_enabled() and offer.machine == machine():
            try:
                self._theirs = MappedArena(offer)
            except (OSError, ValueError) as error:
                self._tell(f"the other process's cannot be opened: {error}")
        return self._theirs is not None

    def confirm(self, accepted: object) -> None:
        """Whether the other side could open this side's memory."""
        self._confirmed = accepted is True
        if not self._confirmed:
            self.close()

    def put(self, arrays: Sequence[np.ndarray]) -> list[Place | None]:
        """Send the arrays of a message: the place of each, or None if it has to travel."""
        own = self._own  # which another thread may close
        if own is None or not self._confirmed:
            return [None] * len(arrays)
        places = own.put(arrays)
        for array, place in zip(arrays, places, strict=True):
            if place is None:
                self._tell(f"an array of {array.nbytes} bytes found no room")
        return places

    def arrays(self, specs: Sequence[Spec]) -> list[np.ndarray]:
        """The arrays of a message that the other side put into its memory.

        Raises:
            ProtocolError: if it did not.
        """
        if self._theirs is None:
            raise ProtocolError("this connection has no shared memory")
        return self._theirs.arrays(specs)

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """Arrays to be filled and sent in one message, without a copy where there is room."""
        own = self._own
        made = own.empties(forms) if own is not None and self._confirmed else None
        return [aligned_empty(*form) for form in forms] if made is None else made

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """One array to be filled and sent without a copy, or None if there is no room."""
        own = self._own
        if own is None or not self._confirmed:
            return None
        made = own.empties([(tuple(map(int, shape)), np.dtype(dtype))])
        return None if made is None else made[0]

    def trim(self) -> None:
        """Give memory back that was not used for a while."""
        own = self._own
        if own is not None:
            own.trim()

    def close(self) -> None:
        """Use it no more."""
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            _log.warning("Arrays go by the network instead of shared memory: %s", what)
