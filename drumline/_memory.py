"""Memory for arrays: aligned, whole pages where large, reused once nothing refers to it.

Memory that was never touched costs 0.2 to 1.4 GB/s to write on common machines, memory that was
used before 10 to 60: a pipeline that allocates every batch afresh pays more for page faults than
for the copy. ``malloc`` has memory for each thread; what one thread takes and another one frees
leaves holes in it, which `Trimmer` returns to the system between epochs.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import mmap
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from drumline._forks import ForkSafeLock

ALIGNMENT = 64
"""Bytes; XLA's CPU client reads numpy arrays in place only from addresses aligned so."""

SMALLEST_REUSED = 16 * 1024
"""Bytes; smaller arrays are quicker to allocate than to look for in a `BufferPool`."""

_MAPPED = 128 * 1024
_HUGE = 4 << 20
_SIZES = 16
_STATM = Path("/proc/self/statm")
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


def _references_when_free() -> int:
    held = [np.empty(1, np.uint8)]
    return sys.getrefcount(held[0])


_FREE = _references_when_free()


def address_of(array: np.ndarray) -> int:
    """Return where an array's data begin. Quicker than ``array.ctypes``."""
    address: int = array.__array_interface__["data"][0]
    return address


def padded(nbytes: int) -> int:
    """Return `nbytes`, rounded up so that what follows is aligned."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def size_class(nbytes: int, granule: int = 1) -> int:
    """Return `nbytes`, rounded up by at most an eighth, or to a multiple of `granule` if larger.

    There are eight classes between powers of two, so that buffers of similar sizes are exchanged.
    """
    step = max(granule, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def aligned_part(base: np.ndarray, nbytes: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """Return `nbytes` of `base`, which holds bytes, from the first aligned address on."""
    start = -address_of(base) % alignment
    return base[start : start + nbytes]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array, aligned and of no pool.

    Raises:
        MemoryError: if there is not as much memory.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    base = np.empty(nbytes + ALIGNMENT, np.uint8)
    return aligned_part(base, nbytes).view(dtype).reshape(shape)


def fresh(nbytes: int) -> np.ndarray:
    """At least so many uninitialised bytes, as an array that every view of it refers to.

    Large ones are mapped, and go back to the system when they are freed. Left to ``malloc``, blocks
    of changing sizes that other threads free than have taken them would tear its memory to pieces:
    processes grow for many epochs.
    """
    if nbytes >= _MAPPED and _PRIVATE:
        # There may be too many mappings already.
        with contextlib.suppress(OSError):
            return mapped_zeros(nbytes)
    return np.empty(nbytes + ALIGNMENT, np.uint8)


def mapped_zeros(nbytes: int) -> np.ndarray:
    """Return zero bytes in pages of their own, huge ones if they fill some.

    They take memory as they are first written, and give it back when the last view is gone.

    Raises:
        OSError: if there are no addresses left, or too many mappings.
    """
    memory = mmap.mmap(-1, nbytes, flags=_PRIVATE)
    if nbytes >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def resident_bytes() -> int:
    """Return how much memory of this process is in RAM.

    Raises:
        OSError: if the system does not say, by ``/proc``.
    """
    return int(_STATM.read_text().split()[1]) * mmap.PAGESIZE


def available_bytes() -> int:
    """Return how much memory this machine, or the control group of this process, has left."""
    return min(_machine(Path("/proc/meminfo")), _group(Path("/sys/fs/cgroup")))


def _machine(meminfo: Path) -> int:
    if not meminfo.exists():
        return 1 << 62
    lines = (line.split() for line in meminfo.read_text().splitlines())
    return next(int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:")


def _group(folder: Path) -> int:
    """Return how many bytes a version 2 control group leaves; without a limit very many.

    Cached pages of files that were read a while ago count as used there, but can be reclaimed.
    """
    limit, used = folder / "memory.max", folder / "memory.current"
    if not limit.exists() or (text := limit.read_text().strip()) == "max":
        return 1 << 62
    return max(0, int(text) - int(used.read_text()) + _reclaimable(folder / "memory.stat"))


def _reclaimable(stat: Path) -> int:
    if not stat.exists():
        return 0
    lines = (line.split() for line in stat.read_text().splitlines())
    return next((int(line[1]) for line in lines if line[0] == "inactive_file"), 0)


class BufferPool:
    """Hands out aligned arrays, and takes back those that nothing refers to any more.

    A buffer is free when the pool's own reference is the only one left: views that a user holds,
    and arrays that JAX aliases (it keeps the numpy object alive until it has read it), are
    references too. Nothing is ever handed back explicitly, so nothing can be handed back early.

    Args:
        max_buffers: of each size; sizes that were not asked for lately are forgotten.
        threads: how many may write one buffer at once; ``None`` for all cores.
    """

    def __init__(self, max_buffers: int = 16, threads: int | None = None):
        self.threads = threads
        self._max_buffers = max_buffers
        self._buffers: dict[int, list[np.ndarray]] = {}
        self._lock = ForkSafeLock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array, aligned to 64 bytes if it has `SMALLEST_REUSED` bytes or more.

        Smaller ones and those of objects are not used again.
        """
        return self.several(1, shape, dtype)[0]

    def several(self, count: int, shape: tuple[int, ...], dtype: np.dtype) -> list[np.ndarray]:
        """As many such arrays, for which the pool is looked through once."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < SMALLEST_REUSED or dtype.hasobject:
            return [np.empty(shape, dtype) for _ in range(count)]
        bases = self._take(count, size_class(nbytes))
        return [aligned_part(base, nbytes).view(dtype).reshape(shape) for base in bases]

    def _take(self, count: int, nbytes: int) -> list[np.ndarray]:
        with self._lock:
            buffers = self._buffers.pop(nbytes, [])
            self._buffers[nbytes] = buffers
            if len(self._buffers) > _SIZES:
                self._buffers.pop(next(iter(self._buffers)))
            free = (i for i in range(len(buffers)) if sys.getrefcount(buffers[i]) == _FREE)
            taken = [buffers[i] for i in list(itertools.islice(free, count))]
            for _ in range(count - len(taken)):
                if len(buffers) >= self._max_buffers:
                    # All are held by the user: let go of the oldest, which frees itself.
                    buffers.pop(0)
                buffers.append(fresh(nbytes))
                taken.append(buffers[-1])
            return taken


_GROWTH = 1.01
_SHARE = 500
"""Looking and trimming may take one part in so many of the time."""


class Trimmer:
    """Trims once the process is larger than it was at the end of an earlier epoch.

    Args:
        resident: gives the size of the process, in bytes.
        trim: gives free memory back to the system.
        clock: seconds.
    """

    def __init__(
        self,
        resident: Callable[[], int],
        trim: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._resident = resident
        self._trim = trim
        self._clock = clock
        self._usual: int | None = None
        self._not_before = 0.0
        self._lock = threading.Lock()

    def epoch_ended(self) -> None:
        """Note that an epoch of some dataset has ended."""
        started = self._clock()
        if started < self._not_before or not self._lock.acquire(blocking=False):
            return
        try:
            self._look()
        finally:
            self._not_before = started + _SHARE * (self._clock() - started)
            self._lock.release()

    def _look(self) -> None:
        size = self._resident()
        if self._usual is None:
            self._usual = size
        elif size > _GROWTH * self._usual:
            self._trim()
            # What is left is in use.
            self._usual = max(self._usual, self._resident())


def _nothing() -> None:
    """Where memory cannot be given back, nothing is looked at either."""


def _at_epochs_end() -> Callable[[], None]:
    if not sys.platform.startswith("linux"):
        return _nothing
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return _nothing
    if not _STATM.exists():
        return _nothing
    return Trimmer(resident_bytes, lambda: trim(0)).epoch_ended


epoch_ended = _at_epochs_end()
"""Note that an epoch of some dataset has ended."""
