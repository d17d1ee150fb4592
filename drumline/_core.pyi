"""Whole-batch operations in Rust, with the GIL released."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from drumline._core_bytes import joined_bytes as joined_bytes
from drumline._core_bytes import padded_bytes as padded_bytes
from drumline._core_bytes import parse_tensors as parse_tensors
from drumline._core_bytes import read_files as read_files
from drumline._core_bytes import serialize_numbers as serialize_numbers
from drumline._core_bytes import serialize_strings as serialize_strings
from drumline._core_bytes import tensor_dims as tensor_dims
from drumline._core_examples import ExampleParser as ExampleParser
from drumline._core_examples import example_messages as example_messages
from drumline._core_examples import list_message as list_message
from drumline._core_examples import list_values as list_values
from drumline._core_examples import message_field as message_field
from drumline._core_examples import message_fields as message_fields
from drumline._core_files import ByteReader as ByteReader
from drumline._core_files import PackedBytes as PackedBytes
from drumline._core_files import RecordEncoder as RecordEncoder
from drumline._core_files import RecordReader as RecordReader
from drumline._core_files import TarReader as TarReader
from drumline._core_files import crc32c as crc32c
from drumline._core_files import decode_wavs as decode_wavs
from drumline._core_files import masked_checksum as masked_checksum
from drumline._core_files import tar_extensions as tar_extensions
from drumline._core_images import arrange_images as arrange_images
from drumline._core_images import decode_bmps as decode_bmps
from drumline._core_images import decode_gifs as decode_gifs
from drumline._core_images import decode_jpegs as decode_jpegs
from drumline._core_images import decode_placed as decode_placed
from drumline._core_images import decode_pngs as decode_pngs
from drumline._core_images import decode_resized as decode_resized
from drumline._core_images import encode_jpegs as encode_jpegs
from drumline._core_images import encode_pngs as encode_pngs
from drumline._core_images import jpeg_shapes as jpeg_shapes
from drumline._core_images import resize_images as resize_images
from drumline._core_images import resize_nearest as resize_nearest
from drumline._core_images import resize_spans as resize_spans
from drumline._core_rows import Items as Items
from drumline._core_rows import RowArithmetic as RowArithmetic
from drumline._core_rows import RowSlots as RowSlots
from drumline._core_rows import ScalarRows as ScalarRows
from drumline._core_rows import scatter_rows as scatter_rows
from drumline._core_strings import CsvLayout as CsvLayout
from drumline._core_strings import CsvReader as CsvReader
from drumline._core_strings import StringChain as StringChain
from drumline._core_strings import StringPattern as StringPattern
from drumline._core_strings import StringTable as StringTable
from drumline._core_strings import TextTokenizer as TextTokenizer
from drumline._core_strings import TokenCounts as TokenCounts
from drumline._core_strings import change_strings as change_strings
from drumline._core_strings import hash_strings as hash_strings
from drumline._core_strings import join_rows as join_rows
from drumline._core_strings import join_strings as join_strings
from drumline._core_strings import numbers_of_strings as numbers_of_strings
from drumline._core_strings import print_floats as print_floats
from drumline._core_strings import print_integers as print_integers
from drumline._core_strings import split_strings as split_strings
from drumline._core_strings import string_lengths as string_lengths
from drumline._core_strings import string_ngrams as string_ngrams
from drumline._core_strings import substrings as substrings
from drumline._core_strings import unicode_decode as unicode_decode
from drumline._core_strings import unicode_encode as unicode_encode
from drumline._core_strings import unicode_split as unicode_split
from drumline._core_strings import unicode_transcode as unicode_transcode
from drumline._core_xla import count_sums as count_sums
from drumline._core_xla import free_large_buffers as free_large_buffers
from drumline._core_xla import keep_large_buffers as keep_large_buffers
from drumline._core_xla import share_summing_memory as share_summing_memory
from drumline._core_xla import sum_counters as sum_counters
from drumline._core_xla import summing_limits as summing_limits
from drumline._core_xla import summing_memory_bytes as summing_memory_bytes
from drumline._core_xla import vector_instructions as vector_instructions
from drumline._core_xla import want_results_at as want_results_at
from drumline._core_xla import xla_handlers as xla_handlers

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

def run_delay_seconds() -> float:
    """Seconds that this thread was ready to run but had no processor; 0 if the system counts none.

    Linux counts them (``/proc/thread-self/schedstat``). The GIL is not released.
    """

def unique_ids(
    ids: npt.NDArray[np.int32] | npt.NDArray[np.int64], bounds: Sequence[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], list[int]]:
    """Find the different ids of a batch, grouped by the parts of a table that they lie in.

    Args:
        ids: one-dimensional and C-contiguous.
        bounds: the first row of each part, ascending, and the end of the last.

    Returns:
        unique: the different ids, each counted from the start of its part, one part after the
            other, within a part in the order in which they first appear.
        inverse: for each of `ids`, where `unique` holds it.
        counts: how many of `unique` lie in each part.

    Raises:
        IndexError: if an id lies in no part.
        TypeError: if `ids` has another dtype or number of dimensions.
        ValueError: if `bounds` is not ascending, or `ids` is not contiguous.
    """

def spread_rows(
    blocks: Sequence[npt.NDArray[np.uint8]],
    places: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    """Copy ``np.concatenate(blocks)[places]`` to `out`, without making the former.

    The caller must not write any of them from another thread meanwhile.

    Args:
        blocks: rows of bytes, each block of shape ``(n, w)``; they may be read-only.
        places: shape ``(k,)``.
        out: shape ``(k, w)``, in memory of its own.

    Raises:
        IndexError: if a place names no row; `out` is untouched.
        TypeError: if an argument is no array of the dtype and number of dimensions above.
        ValueError: if one is not C-contiguous, or `out` has another shape, is read-only or shares
            memory with a block.
    """

_Float = TypeVar("_Float", np.float32, np.float64)

def sum_rows(
    values: npt.NDArray[_Float],
    places: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    out: Sequence[npt.NDArray[_Float]],
) -> None:
    """Set row ``p`` of ``np.concatenate(out)`` to the sum of the values whose place is ``p``.

    They are added in their order; where there is none, the row becomes 0. The caller must not write
    any of the arrays from another thread meanwhile.

    Args:
        values: shape ``(k, w)``; it may be read-only.
        places: shape ``(k,)``.
        out: blocks of shape ``(n, w)``, each in memory of its own.

    Raises:
        IndexError: if a place names no row; `out` is untouched.
        TypeError: if an argument is no array of the dtype and number of dimensions above.
        ValueError: if one is not C-contiguous or of another width, or if a block is read-only or
            shares memory with another array.
    """

def copy_runs(
    src: npt.NDArray[np.uint8],
    out: npt.NDArray[np.uint8],
    from_rows: npt.NDArray[np.int64],
    to_rows: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    """Copy, for each run ``k``, `lengths[k]` rows of `src` from `from_rows[k]` on to `out`.

    They get to the rows of `out` from `to_rows[k]` on. The other rows of `out` stay as they are.

    Args:
        src: shape ``(n, w)``, C-contiguous; it may be read-only.
        out: shape ``(m, w)``, C-contiguous and writable, in memory of its own.
        from_rows: shape ``(k,)``, as are `to_rows` and `lengths`.

    Raises:
        IndexError: if an array does not hold a run; it tells the first, and `out` is untouched.
        TypeError: if an argument is no array of the dtype and number of dimensions above.
        ValueError: if an array is not contiguous, or shapes do not agree, or `out` is read-only or
            shares memory with `src`.
    """

def first_fit(
    lengths: npt.NDArray[np.int64], capacity: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Place each length, in order, into the first bin that has room, opening bins as needed.

    Returns:
        bins: the bin of each, shape ``(k,)``.
        starts: where in its bin each starts, shape ``(k,)``.
        count: how many bins there are.

    Raises:
        ValueError: if a length does not lie in ``[0, capacity]``.
    """

def permuted(key: int, length: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where a permutation of ``range(length)``, chosen by `key`, takes `positions`.

    It is computed and takes no memory: a Feistel network of six rounds, walked until the result is
    in range. Every length gives a bijection.

    Raises:
        IndexError: if a position does not lie in ``[0, length)``.
        OverflowError: if `key` is not an unsigned 64-bit integer.
    """

class DistinctRows:
    """Rows of a table that an update reads and writes: different ones, checked once.

    The caller must not write the table, or the arrays that are copied to or from it, from another
    thread during a method. Large copies run on all cores.
    """

    def __new__(cls, ids: npt.NDArray[np.int32] | npt.NDArray[np.int64], rows: int) -> DistinctRows:
        """Choose rows of tables that have `rows` of them; `ids` is copied.

        Raises:
            IndexError: if an id does not lie in ``[0, rows)``.
            TypeError: if `ids` has another dtype or number of dimensions.
            ValueError: if an id is a duplicate, or `ids` is not contiguous.
        """

    def __len__(self) -> int: ...
    def gather(
        self, table: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8], start: int = 0
    ) -> None:
        """Copy ``table[ids[start : start + len(out)]]`` to `out`.

        Args:
            table: shape ``(rows, w)``, C-contiguous.
            out: shape ``(k, w)``, C-contiguous, in memory of its own.
            start: the first of the ids.

        Raises:
            TypeError: if an array is no 2-dimensional one of bytes.
            ValueError: if one is not contiguous, of another shape, read-only or shares memory.
        """

    def scatter(
        self, src: npt.NDArray[np.uint8], table: npt.NDArray[np.uint8], start: int = 0
    ) -> None:
        """Copy `src` to ``table[ids[start : start + len(src)]]``; otherwise as `gather`."""

class TableRows:
    """Rows of a table that are read, checked once; duplicates are allowed."""

    def __new__(cls, ids: npt.NDArray[np.int32] | npt.NDArray[np.int64], rows: int) -> TableRows:
        """Choose rows of tables that have `rows` of them; `ids` is copied.

        Raises:
            IndexError: if an id does not lie in ``[0, rows)``.
            TypeError: if `ids` has another dtype or number of dimensions.
            ValueError: if `ids` is not contiguous.
        """

    def __len__(self) -> int: ...

def read_rows(
    readings: Sequence[tuple[npt.NDArray[np.uint8], TableRows, npt.NDArray[np.uint8]]],
) -> None:
    """Copy rows of tables, given as bytes: for each table which rows, and where to.

    The caller must not write a table from another thread meanwhile. Large copies run on all cores.

    Raises:
        TypeError: if an array is no 2-dimensional one of bytes.
        ValueError: if one is not contiguous, of another shape, read-only or shares memory.
    """

_Floats = npt.NDArray[np.float32]

class UpdateRule:
    """A Keras optimizer's update of float32 arrays in place, rounded as IEEE 754 says.

    Rules and constants: ``sgd``: none; ``momentum``: the momentum, and 1 for Nesterov's;
    ``adagrad``: epsilon; ``adam``: beta 1, beta 2, epsilon, 1 for AMSGrad; ``rmsprop``: rho, the
    momentum, epsilon, 1 if centered; ``ftrl``: the learning rate's power, l1, l2, l2 shrinkage,
    beta. Slots have Keras's order.

    The caller must not use the arrays from another thread during a method. Large updates run on
    all cores.
    """

    def __new__(cls, name: str, constants: Sequence[float]) -> UpdateRule:
        """Raises ValueError if there is no such rule with as many constants."""

    @property
    def slots(self) -> int:
        """How many arrays there are beside the value."""

    def update_rows(
        self,
        updates: Sequence[tuple[Sequence[_Floats], DistinctRows, _Floats, int]],
        learning_rate: float,
    ) -> None:
        """Update rows of tables. Nothing is changed if an argument is refused.

        Args:
            updates: for each table its value and slots of shape ``(rows, width)``, the rows, their
                gradient of shape ``(number, width)``, and how many updates there were before.
            learning_rate: of all of them.

        Raises:
            TypeError: if an array is no 2-dimensional one of float32.
            ValueError: if one is not contiguous, of another shape, read-only or shares memory.
        """

    def update_whole(
        self, updates: Sequence[tuple[Sequence[_Floats], _Floats, int]], learning_rate: float
    ) -> None:
        """Update 1-dimensional arrays whole; otherwise as `update_rows`."""

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
        """Advance as ``next(k)`` does, without the indices; return how many were skipped."""

    def needed(self, k: int) -> int:
        """How many rows of the input must exist for ``next(k)``, counted from its start.

        With a known length this is at most the length.
        """

    def set_length(self, n: int) -> None:
        """Say that the input has `n` rows.

        Raises:
            ValueError: if fewer rows than were relied upon, or another length was set before.
        """
