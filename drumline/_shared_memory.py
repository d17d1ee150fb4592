"""Memory that processes of one machine share: a memfd, which has no name.

Whatever process is killed, the kernel frees the memory with the last one that has it open or
mapped, so there is nothing to unlink. It reaches another process in one of two ways: a child
inherits the descriptor, or a peer of the same user that was sent a `MemoryOffer` opens it through
``/proc``. Memory that a peer opens must have a sealed size: one that could be cut short would end
its readers by SIGBUS.
"""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import mmap
import os
import secrets
import stat
from pathlib import Path
from typing import Any

SWITCH = "DRUMLINE_SHARED_MEMORY"
NONCE_BYTES = 32

_NAME = "drumline"


def is_enabled() -> bool:
    """Return whether the environment allows shared memory between peers.

    Raises:
        ValueError: if ``DRUMLINE_SHARED_MEMORY`` is neither 0 nor 1.
    """
    switch = os.environ.get(SWITCH, "1")
    if switch not in ("0", "1"):
        raise ValueError(f"{SWITCH} must be 1, which is the default, or 0; got {switch!r}")
    return switch == "1"


@functools.cache
def process_namespace() -> str:
    """Return what is equal for processes of one boot of a machine that share process numbers.

    Raises:
        OSError: if the system has no ``/proc``.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"


def machine() -> str:
    """Return what is equal for processes that can open each other's files under ``/proc``.

    Raises:
        OSError: as `process_namespace`.
    """
    return f"{process_namespace()} {os.getuid()}"


def create_memory(nbytes: int, *, reserved: int = 0, can_grow: bool = False) -> int:
    """Create shared memory, all zeros.

    Args:
        nbytes: its size.
        reserved: how many of the first bytes are backed by memory at once. To write to others may
            end the process if memory is short, unless they are reserved by ``posix_fallocate``.
        can_grow: whether its size may be raised later, by ``ftruncate``; it can never shrink.

    Returns:
        A descriptor of it, which child processes do not inherit by themselves.

    Raises:
        OSError: if the system has none, or not enough.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memfd_create")
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, nbytes)
        seals = fcntl.F_SEAL_SHRINK if can_grow else _size_seals()
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        if reserved:
            os.posix_fallocate(descriptor, 0, reserved)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def map_memory(descriptor: int) -> mmap.mmap:
    """Map all of the memory; the mapping outlives the descriptor.

    Raises:
        OSError: if there are no addresses left.
    """
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size)


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryOffer:
    """What a peer needs to know to open memory of this process, to be sent as JSON.

    Attributes:
        machine: `machine` of the process that has the memory.
        process: its number.
        descriptor: of the memory there.
        nbytes: the memory's size, which is sealed.
        nonce: what the memory holds at a place that both agree on. A process and a descriptor with
            the same numbers may be others by now, or in another namespace.
    """

    machine: str
    process: int
    descriptor: int
    nbytes: int
    nonce: str

    @classmethod
    def of(cls, descriptor: int, nonce_at: int = 0) -> MemoryOffer:
        """Offer memory of this process; `NONCE_BYTES` at `nonce_at` are overwritten.

        Raises:
            OSError: if they cannot be written.
        """
        nonce = secrets.token_hex(NONCE_BYTES // 2)
        os.pwrite(descriptor, nonce.encode(), nonce_at)
        nbytes = os.fstat(descriptor).st_size
        return cls(machine(), os.getpid(), descriptor, nbytes, nonce)

    @classmethod
    def parse(cls, value: object) -> MemoryOffer | None:
        """Return the offer that `to_json` described, or None if `value` is none."""
        match value:
            case {
                "machine": str(there),
                "process": int(process),
                "descriptor": int(descriptor),
                "nbytes": int(nbytes),
                "nonce": str(nonce),
            }:
                return cls(there, process, descriptor, nbytes, nonce)
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the offer as a dict for JSON."""
        return dataclasses.asdict(self)

    def open(self, nonce_at: int = 0) -> int:
        """Open the memory.

        Returns:
            A descriptor of it.

        Raises:
            OSError: if it cannot be opened: another machine, user or namespace, memory of another
                size, or of another offer.
        """
        path = f"/proc/{self.process}/fd/{self.descriptor}"
        if not os.readlink(path).startswith(f"/memfd:{_NAME}"):
            raise OSError(f"{path} is no memory of drumline's")
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(opened)
            sealed = fcntl.fcntl(opened, fcntl.F_GET_SEALS) & _size_seals() == _size_seals()
            if not stat.S_ISREG(found.st_mode) or found.st_size != self.nbytes or not sealed:
                raise OSError(f"{path} is not the memory that was announced")
            if os.pread(opened, NONCE_BYTES, nonce_at) != self.nonce.encode():
                raise OSError(f"{path} is the memory of another connection or job")
        except BaseException:
            os.close(opened)
            raise
        return opened


def _size_seals() -> int:
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
