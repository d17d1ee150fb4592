"""The receiving side of an `Arena`."""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import weakref

import numpy as np

from drumline.distribute.parameter_server.transport.arena import (
    DATA_START,
    FLAG_BYTES,
    MOST_SLOTS,
    NONCE_BYTES,
    SEALS,
)
from drumline.distribute.parameter_server.transport.codec import Spec
from drumline.distribute.parameter_server.transport.errors import ProtocolError


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
        path = f"/proc/{process}/fd/{descriptor}"
        if not os.readlink(path).startswith("/memfd:drumline"):
            raise OSError(f"{path} is not an arena")
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(opened)
            sealed = fcntl.fcntl(opened, fcntl.F_GET_SEALS) & SEALS == SEALS
            if not stat.S_ISREG(found.st_mode) or found.st_size != nbytes or not sealed:
                raise OSError(f"{path} is not the arena that was announced")
            self._memory = mmap.mmap(opened, nbytes)
        finally:
            os.close(opened)
        if self._memory[:NONCE_BYTES] != nonce.encode():
            raise OSError(f"{path} is the arena of another connection")
        self._nbytes = nbytes
        self._process = os.getpid()
        self._arrays: dict[int, weakref.ref[np.ndarray]] = {}

    def array(self, spec: Spec) -> np.ndarray:
        """The array that lies at a place. Its slot is free again when it and its views are gone.

        Raises:
            ProtocolError: if there is no such place, or an array there is still in use.
        """
        number, start = spec.where or (-1, 0)
        inside = start >= DATA_START and start + spec.nbytes <= self._nbytes and spec.nbytes > 0
        if not 0 <= number < MOST_SLOTS or not inside or start % 64 or number in self._arrays:
            raise ProtocolError("an array lies outside of the shared memory, or upon another one")
        base = np.frombuffer(self._memory, np.uint8, spec.nbytes, start)
        array = base.view(spec.dtype).reshape(spec.shape)
        if array.base is not base:  # then its views would not keep `base` alive, and the slot
            array = array.copy()
        self._arrays[number] = weakref.ref(base, lambda _: self._release(number))
        return array

    def _release(self, number: int) -> None:
        if os.getpid() == self._process:  # a forked child's copies say nothing of this process's
            del self._arrays[number]
            self._memory[FLAG_BYTES * (number + 1)] = 0
