"""Whole-batch operations in Rust, with the GIL released."""

import numpy as np
import numpy.typing as npt

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

def xla_handlers() -> list[tuple[str, int]]:
    """Addresses of functions that follow XLA's foreign function interface, by name.

    They compute float32 convolutions, channels last, on the threads of XLA's CPU backend;
    ``drumline.lowerings.kernels`` says with what operands.
    """

def vector_instructions() -> str:
    """What these use on this processor: ``"avx512"``, ``"avx2"`` or ``"portable"``."""

def gather_rows(
    src: npt.NDArray[np.uint8], idx: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
) -> None:
    """Copy ``src[idx]`` to `out`: rows of bytes, by position. Large copies run on all cores.

    The caller must not write `src`, `idx` or `out` from another thread meanwhile.

    Args:
        src: shape ``(n, w)``, C-contiguous; it may be read-only.
        idx: shape ``(k,)``, C-contiguous; each index lies in ``[0, n)``.
        out: shape ``(k, w)``, C-contiguous and writable, in memory of its own.

    Raises:
        IndexError: if an index names no row; it tells the first, and `out` is untouched.
        TypeError: if an argument is no array of the dtype and number of dimensions above.
        ValueError: if an array is not contiguous, or `out` has another shape, is read-only or
            shares memory with another argument.
    """

def mix64(a: int, b: int) -> int:
    """Hash two integers of ``[0, 2**64)`` into one, to derive random keys from others.

    This is splitmix64's finalizer, applied twice; the order of the arguments matters.
    """

class ShuffleIndices:
    """The order in which tf.data's shuffle buffer emits the rows of an input.

    Emission ``t`` (from 0) draws a slot uniformly from the ``min(buffer_size, length - t)`` live
    ones and emits the row index it holds. The slot then takes row ``t + buffer_size``, or, if
    the input has no such row, the last live slot moves into it. Slots start as 0, 1, 2 and so on.
    With ``buffer_size >= length`` the order is a uniform permutation. The order depends on the
    arguments alone, not on how many indices are asked for at a time. Draws come from
    xoshiro256++, bounded by Lemire's method. Memory: 8 bytes a slot.

    Methods may be called from any thread.
    """

    def __new__(cls, key: int, buffer_size: int, length: int | None = None) -> ShuffleIndices:
        """Start at emission 0.

        Args:
            key: the seed, in ``[0, 2**64)``.
            buffer_size: how many slots, at least 1.
            length: how many rows the input has; None for a stream whose end is found later.

        Raises:
            OverflowError: if `key` is not an unsigned, or another argument not a signed 64-bit
                integer.
            ValueError: if `buffer_size` or `length` is too small.
        """

    @property
    def emitted(self) -> int:
        """How many indices were emitted or skipped so far."""

    def next(self, k: int) -> npt.NDArray[np.int64]:
        """Emit the next `k` indices; fewer, or none, at the end.

        While the length is unknown the caller vouches that ``needed(k)`` rows exist.

        Raises:
            MemoryError: if the slots or the result do not fit in memory.
            ValueError: if `k` is negative.
        """

    def skip(self, k: int) -> int:
        """Go on as ``next(k)`` does, without the indices; return how many were skipped."""

    def needed(self, k: int) -> int:
        """How many rows of the input must exist for ``next(k)``, counted from its start.

        With a known length this is at most the length.
        """

    def set_length(self, n: int) -> None:
        """Say that the input has `n` rows.

        Raises:
            ValueError: if fewer rows than were relied upon, or another length was set before.
        """
