"""Types of `drumline._core`: what XLA calls on CPUs, its allocator among it."""

from collections.abc import Sequence

import numpy as np

def keep_large_buffers(library: str) -> int:
    """Keep the large buffers that a loaded library frees, and give it those first.

    The library's imports of ``posix_memalign``, ``aligned_alloc``, ``malloc`` and ``free`` are
    redirected to functions that keep buffers of 4 MiB and more, up to half of the machine's
    memory, and ask for huge pages (``madvise(MADV_HUGEPAGE)``) for new ones. Everything kept is
    freed when memory runs out.

    Args:
        library: the end of its path, such as ``"/libjax_common.so"``.

    Returns:
        How many imports were redirected: 0 if no such library is loaded, or on other systems than
        64-bit Linux with glibc.
    """

def free_large_buffers() -> None:
    """Keep no large buffers any more, and free those that are kept.

    Imports stay redirected, to functions that hand every call on to the C library's.
    """

def xla_handlers() -> list[tuple[str, int]]:
    """Addresses of functions that follow XLA's foreign function interface, by name.

    They compute float32 convolutions, channels last, on the threads of XLA's CPU backend;
    ``drumline.cpu_kernels.kernels`` says with what operands. ``drumline_all_reduce`` sums arrays of
    one type over the ranks of `share_summing_memory`: its first operand is the rank, an int32; its
    attribute ``channel`` is the same on all ranks, and one sum at a time has it.
    """

def summing_limits() -> tuple[int, int, int, int]:
    """The most ranks; channels for large sums and for small ones, numbered on from these; the most
    bytes of a small one.
    """

def summing_memory_bytes(ranks: int) -> int:
    """How much memory so many ranks share."""

def count_sums(on: bool) -> None:
    """Count what sums in shared memory take from now on, or count no more."""

def sum_counters() -> tuple[int, int, float, float]:
    """What was counted since the process started, of all ranks of this process.

    Returns:
        How many sums; the bytes of their arrays; seconds in which at least one was under way; and
        seconds in which at least one waited for other ranks.
    """

def share_summing_memory(
    descriptor: int, peers: Sequence[tuple[str, int, int]], limit_seconds: float
) -> None:
    """Sum in the memory of a file descriptor from now on, until the process ends.

    Args:
        descriptor: of a memfd of `summing_memory_bytes`, zeros at first; it may be closed then.
        peers: for each rank the name of its task, its process's number, and when that started, in
            clock ticks since the machine did.
        limit_seconds: how long a rank may be waited for.

    Raises:
        OSError: if it cannot be mapped.
        RuntimeError: if this process does so already.
        ValueError: for no ranks or too many, or a negative limit.
    """

def vector_instructions() -> str:
    """What these use on this processor: ``"avx512"``, ``"avx2"`` or ``"portable"``."""

def want_results_at(places: list[np.ndarray]) -> None:
    """Have the calling thread's next results of these sizes lie in these arrays.

    The next allocations of just these sizes that a library behind ``keep_large_buffers`` makes in
    this thread are given the places, the first of a size first, instead of memory of their own.
    Look where each result lies: a place may have been used for something else, or not at all, as
    where it is no multiple of 64 bytes, is smaller than 16 KiB or no allocations are routed. It
    must not be used again before XLA is done. An empty list ends it.

    Args:
        places: uint8 (bytes,), contiguous and writable.

    Raises:
        TypeError: one is no such array.
        ValueError: one is read-only or not contiguous.
    """
