"""Applying a rule to some rows of a table and of its slots."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline._core import DistinctRows
from drumline.distribute.parameter_server.server import memory

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.server.rule import Rule

_PIECE_BYTES = 4 << 20
_SMALLEST = 16
_SMALL = 1024


class RowUpdate:
    """A rule's updates of rows, in memory that all its tables share. Several threads may run some.

    A program is compiled for each number of rows, so rows are updated in pieces whose sizes are
    powers of two, the last padded with rows whose results nobody looks at.

    Args:
        rule: it is sparse.
        row_shape: the shape of a row.
        dtype: of the table and its gradients.
    """

    def __init__(self, rule: Rule, row_shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._rule = rule
        self._follow = [slot.shape is None for slot in rule.slots]
        self._row_shape = row_shape
        self._dtypes = [dtype, *(slot.dtype for slot in rule.slots if slot.shape is None)]
        row_bytes = math.prod(row_shape) * max(each.itemsize for each in self._dtypes)
        self._largest = _power_of_two_above(max(_PIECE_BYTES // max(row_bytes, 1), _SMALLEST))
        donated = [0] + [i + 1 for i, follows in enumerate(self._follow) if follows]
        self._update = rule.compiled(tuple(donated))
        self._free: dict[int, collections.deque[_Piece]] = collections.defaultdict(
            collections.deque
        )

    def run(
        self,
        rows: DistinctRows,
        gradient: np.ndarray,
        tables: Sequence[np.ndarray],
        shared: Sequence[np.ndarray],
        iteration: int,
    ) -> list[np.ndarray]:
        """Update rows in place.

        Args:
            rows: which.
            gradient: a row for each, C-contiguous.
            tables: the value and the slots that follow its rows, as rows of bytes.
            shared: the other slots, which all rows share.
            iteration: how many updates there were.

        Returns:
            The new values of `shared`.
        """
        learning_rate = self._rule.learning_rate
        new_shared: list[Any] = list(shared)
        for start, stop, size in pieces(len(rows), self._largest):
            piece = self._take(size)
            try:
                for table, view in zip(tables, piece.views, strict=True):
                    rows.gather(table, view[: stop - start], start)
                operands = self._merge(piece.arrays, list(shared))
                gradients = piece.padded(gradient[start:stop])
                results = self._update(*operands, gradients, np.int32(iteration), learning_rate)
                arrays, new_shared = self._split(results)
                piece.hold(arrays)
                for table, view in zip(tables, piece.views, strict=True):
                    rows.scatter(view[: stop - start], table, start)
            except BaseException:
                # Its arrays may be gone.
                piece = _Piece(size, self._row_shape, self._dtypes)
                raise
            finally:
                self._free[size].append(piece)
        return [np.array(each) for each in new_shared]

    def _take(self, size: int) -> _Piece:
        try:
            return self._free[size].pop()
        except IndexError:
            return _Piece(size, self._row_shape, self._dtypes)

    def _merge(self, rows: list[jax.Array], shared: list[np.ndarray]) -> list[Any]:
        following: Iterator[Any] = iter(rows)
        others: Iterator[Any] = iter(shared)
        value = next(following)
        return [value, *(next(following if each else others) for each in self._follow)]

    def _split(self, results: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        following = results[:1]
        others: list[jax.Array] = []
        for follows, result in zip(self._follow, results[1:], strict=True):
            (following if follows else others).append(result)
        return following, others


class _Piece:
    """Memory for `size` rows of the value, of the slots and of the gradient.

    Attributes:
        arrays: the rows of the value and of the slots.
        views: their bytes, writable.
    """

    def __init__(self, size: int, row_shape: tuple[int, ...], dtypes: Sequence[np.dtype]) -> None:
        shape = (size, *row_shape)
        row_elements = math.prod(row_shape)
        self._widths = [row_elements * each.itemsize for each in dtypes]
        self._gradient = memory.zeros(shape, dtypes[0])
        self._addresses: list[int] = []
        self.hold([memory.on_cpu(np.zeros(shape, each)) for each in dtypes])

    def hold(self, arrays: list[jax.Array]) -> None:
        """Have these arrays, once they are computed; mostly they are where the former ones were."""
        for array in arrays:
            array.block_until_ready()
        self.arrays = arrays
        addresses = [array.unsafe_buffer_pointer() for array in arrays]
        if addresses != self._addresses:
            size = len(self._gradient)
            self._addresses = addresses
            self.views = [
                memory.writable_bytes(array, size, width)
                for array, width in zip(arrays, self._widths, strict=True)
            ]

    def padded(self, gradient: np.ndarray) -> np.ndarray:
        if len(gradient) == len(self._gradient):
            return gradient
        self._gradient[: len(gradient)] = gradient
        return self._gradient


def pieces(count: int, largest: int) -> Iterator[tuple[int, int, int]]:
    """Where pieces of `count` rows start and stop, and the powers of two they are padded to.

    At most a quarter of a large one is padding; small ones cost less than a further call.
    """
    start = 0
    while start < count:
        left = count - start
        size = min(largest, max(_SMALLEST, _power_of_two_above(left)))
        if left < size * 3 // 4 and size > _SMALL:
            size //= 2
        stop = min(start + size, count)
        yield start, stop, size
        start = stop


def _power_of_two_above(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
