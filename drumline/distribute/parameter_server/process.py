"""Settings of processes that take part in a job with parameter servers.

How many of the machine's cores a process computes with.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os

THREADS_VARIABLE = "NPROC"


def share_cores(processes: int) -> None:
    """Have XLA use this process's share of the cores, if it has not started yet.

    Otherwise every process has a thread for each core, and they pay for waiting and stealing work
    from each other. (Processes that meet in collectives are better off with all threads: one that
    waits there keeps the others from nothing.) ``NPROC`` in the environment, which XLA goes by,
    prevails.

    Args:
        processes: how many compute on this machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if processes > 1:
        os.environ.setdefault(THREADS_VARIABLE, str(max(1, (cores or 1) // processes)))


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as in glibc's malloc.h
_KEPT_BYTES = 128 << 20
_LARGEST_BYTES = 32 << 20  # the largest that glibc takes
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next arrays; nothing with another C library.

    By default it returns most arrays to the kernel, and a step takes the same ones again: to fault
    in its gradients' pages costs more than to fill them. Settings in the environment prevail.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _OWN_SETTINGS):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


@functools.cache
def collect_only_what_is_new() -> None:
    """Have Python's collector of cycles pass over all that exists now; once in a process.

    Closures, futures and messages come and go by the thousand, and make it look often: at JAX's and
    Keras's modules each time, which took more than half of the time of short steps.
    """
    gc.collect()
    gc.freeze()
