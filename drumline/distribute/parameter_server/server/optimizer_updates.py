"""Optimizers' updates as they were sent to a server, and applying them to rows of tables.

An `OptimizerUpdate` is a compiled program with its slots and learning rate, and perhaps the same
update in Rust (`native`). `OptimizerUpdates` knows them by name; a name stands for one program
for good. A sparse update takes rows in pieces of a few sizes (`RowUpdate`), in memory that is used
again, so that few programs are compiled and no table is copied.

Shards call updates with their lock held; updates of different shards run at the same time.
"""

from __future__ import annotations

import collections
import functools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np

from drumline._core import DistinctRows, UpdateRule
from drumline.distribute.parameter_server.compiler.exporting import (
    digest_of,
    load_program,
    unpack_checked,
)
from drumline.distribute.parameter_server.errors import (
    RequestError,
    ShardMismatchError,
    UnknownUpdateError,
    UpdateMismatchError,
)
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.wire.messages import NativeUpdate, SlotSpec

_PIECE_BYTES = 4 << 20
_SMALLEST = 16
_SMALL = 1024


class RowUpdate:
    """Updates of rows by one sparse update, in memory that all its tables share.

    Several threads may run some.

    A program is compiled for each number of rows, so rows are updated in pieces whose sizes are
    powers of two, the last padded with rows whose results are not used.

    Args:
        update: it is sparse.
        row_shape: the shape of a row.
        dtype: of the table and its gradients.
    """

    def __init__(
        self, update: OptimizerUpdate, row_shape: tuple[int, ...], dtype: np.dtype
    ) -> None:
        self._optimizer_update = update
        self._follow = [slot.shape is None for slot in update.slots]
        self._row_shape = row_shape
        self._dtypes = [dtype, *(slot.dtype for slot in update.slots if slot.shape is None)]
        row_bytes = math.prod(row_shape) * max(each.itemsize for each in self._dtypes)
        self._largest = _power_of_two_above(max(_PIECE_BYTES // max(row_bytes, 1), _SMALLEST))
        donated = [0] + [i + 1 for i, follows in enumerate(self._follow) if follows]
        self._compiled = update.compiled(tuple(donated))
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
        learning_rate = self._optimizer_update.learning_rate
        new_shared: list[Any] = list(shared)
        for start, stop, size in pieces(len(rows), self._largest):
            piece = self._take(size)
            try:
                for table, view in zip(tables, piece.views, strict=True):
                    rows.gather(table, view[: stop - start], start)
                operands = self._merge(piece.arrays, list(shared))
                gradients = piece.padded(gradient[start:stop])
                results = self._compiled(*operands, gradients, np.int32(iteration), learning_rate)
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


LEARNING_RATE = "learning_rate"


def dtype_of(name: str) -> np.dtype:
    """The dtype of a name as Keras writes it, such as ``"bfloat16"``.

    Raises:
        RequestError: if there is no such dtype.
    """
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError as error:
        raise RequestError(f"A request names the dtype {name!r}, which there is not.") from error


def native_update(described: NativeUpdate) -> UpdateRule:
    """The update in Rust that a request describes.

    Raises:
        RequestError: if there is none.
    """
    try:
        return UpdateRule(described.name, described.constants)
    except (TypeError, ValueError) as error:
        raise RequestError(f"A request's field 'native' is unknown: {error}.") from error


@dataclass(frozen=True)
class Slot:
    """What an optimizer keeps beside a variable.

    Attributes:
        name: as the optimizer calls it.
        shape: None if it has the variable's.
        dtype: of its elements.
        initial: the value of all of its elements at first.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: np.dtype
    initial: float

    @classmethod
    def from_spec(cls, spec: SlotSpec) -> Slot:
        """The slot that a request describes.

        Raises:
            RequestError: if its shape or dtype is none.
        """
        shape = spec.shape
        if isinstance(shape, str) and shape != "rows":
            raise RequestError(f"A slot's shape is {shape!r}; pass 'rows' or a list of sizes.")
        own = None if isinstance(shape, str) else tuple(shape)
        return cls(spec.name, own, dtype_of(spec.dtype), spec.initial)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Slot:
        """What `to_json` described, in a checkpoint."""
        return cls.from_spec(SlotSpec(**entry))

    def to_json(self) -> dict[str, Any]:
        """As `from_json` takes it."""
        return {
            "name": self.name,
            "shape": "rows" if self.shape is None else list(self.shape),
            "dtype": self.dtype.name,
            "initial": self.initial,
        }


class OptimizerUpdate:
    """A compiled update ``(value, slots, gradient, iteration, learning rate) -> (value, slots)``.

    A sparse update is for any number of rows of a table, and treats each by itself: it is called
    with rows in pieces, and with further rows whose results are not used.

    Args:
        name: what shards call it.
        sparse: whether it is for rows of a table.
        slots: what it keeps beside a variable.
        program: what `programs.export_function` made of the update.
        native: the same update of float32 arrays in place, if there is one.

    Raises:
        RequestError: if the native needs other slots.
    """

    def __init__(
        self,
        name: str,
        sparse: bool,
        slots: Sequence[Slot],
        program: bytes,
        native: UpdateRule | None = None,
    ) -> None:
        self.name = name
        self.sparse = sparse
        self.slots = tuple(slots)
        self.native = native
        self._program = program
        load_program(program)  # which says what is wrong with one that cannot run here
        exported = jax.export.deserialize(bytearray(unpack_checked(program)))
        self._value = exported.in_avals[0]
        if native is not None:
            self._check_native(native)
        self._digest = digest_of(exported)
        self._reads_rate = len(exported.in_avals) - 1 in exported.module_kept_var_idx
        self._learning_rate: np.float32 | None = None
        self._lock = threading.Lock()
        self._compiled: dict[tuple[int, ...], Callable[..., Any]] = {}

    def _check_native(self, native: UpdateRule) -> None:
        kinds = [(None, self._value.dtype), *((slot.shape, slot.dtype) for slot in self.slots)]
        if kinds != [(None, np.float32)] * (1 + native.slots):
            raise RequestError(
                f"The update {self.name!r} came with a native of {native.slots} slots, for float32 "
                f"alone; it has the slots {self.slots} of {self._value.dtype}. Send it without."
            )

    def is_same(self, other: OptimizerUpdate) -> bool:
        """Whether both are the same program with the same slots."""
        return (self.sparse, self.slots, self._digest) == (
            other.sparse,
            other.slots,
            other._digest,
        )

    @property
    def learning_rate(self) -> np.float32:
        """The learning rate of the next updates.

        Raises:
            UnknownUpdateError: if none was set, and the program is not one with a schedule.
        """
        if self._learning_rate is None and not self._reads_rate:
            return np.float32(0)
        if self._learning_rate is None:
            raise UnknownUpdateError(
                f"The update {self.name!r} has no learning rate yet; send one, with "
                "'set_hyperparameters'."
            )
        return self._learning_rate

    def require_learning_rate(self) -> None:
        """Raise as `learning_rate` does."""
        self.learning_rate  # noqa: B018

    def set_values(self, values: dict[str, Any]) -> None:
        """Set the learning rate of the updates from now on.

        Raises:
            RequestError: if there is anything else to set.
        """
        unknown = sorted(set(values) - {LEARNING_RATE})
        if unknown:
            raise RequestError(
                f"An update has no values {unknown}; there is {LEARNING_RATE!r} alone."
            )
        if LEARNING_RATE in values:
            self._learning_rate = np.float32(values[LEARNING_RATE])

    def check(self, shard: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Make sure that the update can update a shard.

        Raises:
            ShardMismatchError: if its program is for another shape or dtype.
        """
        value = self._value
        skipped = 1 if self.sparse else 0
        if value.shape[skipped:] == shape[skipped:] and len(value.shape) == len(shape):
            if value.dtype == dtype:
                return
        raise ShardMismatchError(
            f"The update {self.name!r} updates values of shape {value.shape} and dtype "
            f"{value.dtype}; the shard {shard!r} has {shape} and {dtype}. Send it an update of its "
            "own."
        )

    @functools.cached_property
    def row_update(self) -> RowUpdate:
        """How a sparse update updates tables."""
        return RowUpdate(self, tuple(self._value.shape[1:]), np.dtype(self._value.dtype))

    def compiled(self, donated: tuple[int, ...]) -> Callable[..., Any]:
        """The update as a function of value, slots, gradient, iteration and learning rate.

        Args:
            donated: which of its arguments may be overwritten.

        Returns:
            A function of arrays that gives the list of the new value and slots.
        """
        function = self._compiled.get(donated)
        if function is None:
            with self._lock:
                function = self._compiled.setdefault(donated, load_program(self._program, donated))
        return function


class OptimizerUpdates:
    """Rules by name."""

    def __init__(self) -> None:
        self._updates: dict[str, OptimizerUpdate] = {}
        self._lock = threading.Lock()

    def add(self, update: OptimizerUpdate) -> OptimizerUpdate:
        """Know an update; the one that is known already, if it is the same.

        Raises:
            UpdateMismatchError: if another one is known by the name.
        """
        with self._lock:
            known = self._updates.setdefault(update.name, update)
        if not known.is_same(update):
            raise UpdateMismatchError(
                f"There is another update {update.name!r}; send this one under another name."
            )
        return known

    def forget(self, names: Iterable[str]) -> None:
        """Know these updates no more, except where they are attached."""
        with self._lock:
            for name in names:
                self._updates.pop(name, None)

    def get(self, name: str) -> OptimizerUpdate:
        """The update of a name.

        Raises:
            UnknownUpdateError: if there is none.
        """
        update = self._updates.get(name)
        if update is None:
            raise UnknownUpdateError(
                f"There is no update {name!r}, only {sorted(self._updates)}; send it with "
                "'define_update'."
            )
        return update
