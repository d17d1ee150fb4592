"""Memory of one process that others of its machine may open, by its number and a descriptor's.

It is a memfd, which has no name: whatever process is killed, the kernel frees it with the last one
that has it open. Its size is sealed, so that no access to it can come to lie outside.
"""

from __future__ import annotations

import fcntl
import functools
import os
import stat
from pathlib import Path

SWITCH = "DRUMLINE_SHARED_MEMORY"

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_NAME = "drumline"


def is_wanted() -> bool:
    """Whether the environment allows shared memory."""
    switch = os.environ.get(SWITCH, "1")
    if switch not in ("0", "1"):
        raise ValueError(f"{SWITCH} must be 1, which is the default, or 0; got {switch!r}")
    return switch == "1"


@functools.cache
def machine() -> str:
    """Equal for processes that can open each other's files under /proc by their numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.getuid()}"


def sealed_memory(nbytes: int, reserved: int) -> int:
    """A descriptor of new memory, zeros, of which the first `reserved` bytes are taken at once.

    Raises:
        OSError: if the system has none, or not enough.
    """
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, nbytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        os.posix_fallocate(descriptor, 0, reserved)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_sealed(process: int, descriptor: int, nbytes: int) -> int:
    """A descriptor of the memory of that size that is open in another process as `descriptor`.

    Raises:
        OSError: if it cannot be opened: another machine, user or namespace, or no such memory.
    """
    path = f"/proc/{process}/fd/{descriptor}"
    if not os.readlink(path).startswith(f"/memfd:{_NAME}"):
        raise OSError(f"{path} is no memory of drumline's")
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(opened)
        sealed = fcntl.fcntl(opened, fcntl.F_GET_SEALS) & _SEALS == _SEALS
        if not stat.S_ISREG(found.st_mode) or found.st_size != nbytes or not sealed:
            raise OSError(f"{path} is not the memory that was announced")
    except BaseException:
        os.close(opened)
        raise
    return opened
