"""The receiving side of an `Arena`."""

from __future__ import annotations

import itertools
import mmap
import os
import weakref
from collections.abc import Sequence

import numpy as np

from drumline.distribute.parameter_server.wire.arena import (
    DATA_START,
    FLAG_BYTES,
    MOST_SLOTS,
    NONCE_BYTES,
)
from drumline.distribute.parameter_server.wire.buffers import ALIGNMENT
from drumline.distribute.parameter_server.wire.codec import Spec
from drumline.distribute.parameter_server.wire.errors import ProtocolError
from drumline.distribute.sealed_memory import open_sealed

_NOT_THERE = "an array lies outside of the shared memory, or upon another one"


class MappedArena:
    """Makes arrays of what the other process put into its arena.

    Args:
        process: the other's number, in the same namespace.
        descriptor: of the memory in that process.
        nbytes: its size.
        nonce: what it must begin with.

    Raises:
        OSError: if it cannot be opened: another machine, user or namespace, or no such memory.
    """

    def __init__(self, process: int, descriptor: int, nbytes: int, nonce: str) -> None:
        opened = open_sealed(process, descriptor, nbytes)
        try:
            self._memory = mmap.mmap(opened, nbytes)
        finally:
            os.close(opened)
        if self._memory[:NONCE_BYTES] != nonce.encode():
            raise OSError(f"process {process} has the arena of another connection there")
        self._nbytes = nbytes
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
