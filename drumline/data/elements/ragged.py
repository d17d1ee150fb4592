"""Rows of different lengths as one array of values and where each row ends, and their spec."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline._core import copy_runs
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, as_array, as_dtype

Values = Any
"""A numpy array (total, ...), or a `RaggedArray` where rows are ragged themselves."""


class RaggedArray:
    """Rows of different lengths, as ``tf.RaggedTensor``: ``values`` (total, ...) cut at ``splits``.

    Row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``. An integer index gives a row, a slice
    without a step a view, an array of integers or bools a copy. Two are equal (``==``) if their
    rows and dtypes are. It is not written to.
    """

    __slots__ = ("_splits", "_values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Any, row_splits: Any):
        """Cuts ``values``, which are not copied, into rows.

        Args:
            values: an array (total, ...), a list of numbers or strings, or a `RaggedArray`.
            row_splits: integers (n + 1,), not decreasing, from 0 to total.

        Raises:
            ValueError: the splits are not such.
        """
        held = values if isinstance(values, RaggedArray) else as_array(values)
        splits = np.ascontiguousarray(row_splits)
        if splits.ndim != 1 or splits.dtype.kind not in "iu" or len(splits) == 0:
            raise ValueError(f"row_splits must be integers (n + 1,), got {row_splits!r:.60}")
        if not isinstance(held, RaggedArray) and held.ndim == 0:
            raise ValueError(f"values must have a first dimension to cut, got {values!r:.60}")
        splits = splits.astype(np.int64)
        if splits[0] != 0 or splits[-1] != len(held) or (np.diff(splits) < 0).any():
            raise ValueError(
                f"row_splits must rise from 0 to {len(held)}, the number of values; they are "
                f"{row_splits!r:.80}"
            )
        self._set(held, splits)

    def _set(self, values: Values, splits: np.ndarray) -> None:
        if not isinstance(values, RaggedArray) and not values.flags.c_contiguous:
            values = np.ascontiguousarray(values)
        splits.flags.writeable = False
        self._values = values
        self._splits = splits

    @classmethod
    def _view(cls, values: Values, splits: np.ndarray) -> RaggedArray:
        """Rows of larger values: the first split may be past 0, the last before the end."""
        made = cls.__new__(cls)
        made._set(values, splits)
        return made

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any) -> RaggedArray:
        """Return rows of the given lengths (n,), in order."""
        lengths = np.asarray(row_lengths, np.int64)
        return cls(values, splits_of(lengths))

    @classmethod
    def from_rows(cls, rows: Sequence[Any], dtype: Any = None) -> RaggedArray:
        """Copies rows: arrays or lists, nested to any depth, which differ in length.

        Raises:
            ValueError: rows differ in more than their lengths.
        """
        rows = list(rows)
        if all(isinstance(row, list | tuple) for row in rows):
            return cls._from_lists(rows, dtype)
        arrays = [as_array(row) for row in rows]
        if len({array.shape[1:] for array in arrays}) > 1:
            return cls._nested(arrays, dtype)
        values = np.concatenate(arrays)
        values = values if dtype is None else values.astype(as_dtype(dtype))
        return cls.from_row_lengths(values, [len(array) for array in arrays])

    @classmethod
    def _from_lists(cls, rows: Sequence[Any], dtype: Any) -> RaggedArray:
        flat = list(itertools.chain.from_iterable(rows))
        if any(isinstance(item, list | tuple | np.ndarray) for item in flat):
            return cls._nested(rows, dtype)
        values = as_array(flat)
        values = values if dtype is None else values.astype(as_dtype(dtype))
        return cls.from_row_lengths(values, list(map(len, rows)))

    @classmethod
    def _nested(cls, rows: Sequence[Any], dtype: Any) -> RaggedArray:
        inner = cls.from_rows(list(itertools.chain.from_iterable(rows)), dtype)
        return cls.from_row_lengths(inner, list(map(len, rows)))

    @property
    def values(self) -> Values:
        """The rows joined."""
        return self._values[int(self._splits[0]) : int(self._splits[-1])]

    @property
    def flat_values(self) -> np.ndarray:
        """The innermost values."""
        inner: Any = self
        while isinstance(inner, RaggedArray):
            inner = inner.values
        return np.asarray(inner)

    @property
    def row_splits(self) -> np.ndarray:
        """Where rows begin and end in ``values``: int64 (n + 1,)."""
        return self._splits if self._splits[0] == 0 else self._splits - self._splits[0]

    def row_lengths(self) -> np.ndarray:
        """The length of each row: int64 (n,)."""
        return np.asarray(self._splits[1:] - self._splits[:-1])

    def nrows(self) -> int:
        """The number of rows, as ``len``."""
        return len(self)

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return np.dtype(self._values.dtype)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions after the first vary in length."""
        inner = self._values
        return 1 + (inner.ragged_rank if isinstance(inner, RaggedArray) else 0)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The dimensions; ``None`` for one that varies."""
        return (len(self), None, *self._values.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return 1 + int(self._values.ndim)

    @property
    def nbytes(self) -> int:
        """Bytes of values and splits."""
        return int(self.values.nbytes) + int(self._splits.nbytes)

    @property
    def flags(self) -> Any:
        """Those of the values."""
        return self._values.flags

    def bounding_shape(self) -> tuple[int, ...]:
        """The shape of the smallest dense array that holds all rows."""
        longest = int(self.row_lengths().max(initial=0))
        inner = self.values
        deeper = inner.bounding_shape()[1:] if isinstance(inner, RaggedArray) else inner.shape[1:]
        return (len(self), longest, *deeper)

    def to_list(self) -> list[Any]:
        """Nested Python lists."""
        inner = self.values
        flat = inner.to_list() if isinstance(inner, RaggedArray) else inner.tolist()
        edges = self.row_splits.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(edges)]

    def to_tensor(
        self, default_value: Any = None, shape: Sequence[int | None] | None = None
    ) -> np.ndarray:
        """A dense array (n, ...) with rows filled up at their ends.

        Args:
            default_value: what with: 0, false or ``b""`` unless given.
            shape: of the result; longer rows are cut. ``None``, also for single dimensions, is as
                long as needed.
        """
        bounds = self.bounding_shape()
        wanted = bounds if shape is None else tuple(shape)
        if len(wanted) != len(bounds):
            raise ValueError(f"shape {wanted} has {len(wanted)} dimensions, not {len(bounds)}")
        dims = [b if w is None else int(w) for w, b in zip(wanted, bounds, strict=True)]
        filler = fill_value(self.dtype) if default_value is None else default_value
        out = np.full(dims, filler, self.dtype)
        self.write_to(out)
        return out

    def write_to(self, out: np.ndarray) -> None:
        """Write rows to the starts of those of ``out`` (n, length, ...), up to its length."""
        inner: Any = self._values
        if isinstance(inner, RaggedArray):
            inner = inner.to_tensor(out.flat[0] if out.size else None, (None, *out.shape[2:]))
        rows = min(len(self), len(out))
        starts = self._splits[:rows]
        lengths = np.minimum(self.row_lengths()[:rows], out.shape[1])
        if inner.shape[1:] != out.shape[2:]:
            raise ValueError(f"rows of {inner.shape[1:]} do not fit an array of {out.shape}")
        places = np.arange(rows, dtype=np.int64) * out.shape[1]
        copy_rows(inner, out.reshape(-1, *out.shape[2:]), starts, places, lengths)

    def take(self, index: np.ndarray) -> RaggedArray:
        """The rows at ``index`` (k,), copied."""
        starts, lengths = self._splits[:-1][index], self.row_lengths()[index]
        splits = splits_of(lengths)
        if isinstance(self._values, RaggedArray):
            steps = np.arange(splits[-1], dtype=np.int64)
            return self._view(
                self._values.take(steps + np.repeat(starts - splits[:-1], lengths)), splits
            )
        out = np.empty((int(splits[-1]), *self._values.shape[1:]), self.dtype)
        copy_rows(self._values, out, starts, splits[:-1], lengths)
        return self._view(out, splits)

    def copy(self) -> RaggedArray:
        """The same rows in memory of their own."""
        return self._view(self.values.copy(), self.row_splits.copy())

    def __len__(self) -> int:
        return len(self._splits) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return self._view(self._values, self._splits[start : max(start, stop) + 1])
        if isinstance(key, np.ndarray | list):
            chosen = np.asarray(key)
            if chosen.dtype == np.bool_ and chosen.shape != (len(self),):
                raise IndexError(f"a mask of {len(self)} rows is needed, got {chosen.shape}")
            index = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            return self.take(index.astype(np.int64))
        if isinstance(key, tuple):
            raise IndexError("a RaggedArray takes one index, for rows: write ragged[i][j]")
        row = range(len(self))[key]
        return self._values[int(self._splits[row]) : int(self._splits[row + 1])]

    def __iter__(self) -> Iterator[Any]:
        values = self._values
        for start, stop in itertools.pairwise(self._splits.tolist()):
            yield values[start:stop]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedArray):
            return NotImplemented
        if self.dtype != other.dtype or not np.array_equal(self.row_splits, other.row_splits):
            return False
        mine, theirs = self.values, other.values
        if isinstance(mine, RaggedArray) or isinstance(theirs, RaggedArray):
            return bool(type(mine) is type(theirs) and mine == theirs)
        return bool(np.array_equal(mine, theirs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise ValueError(
            "rows of different lengths are no rectangular array: use to_tensor() to fill them up, "
            "or flat_values and row_splits"
        )

    def __repr__(self) -> str:
        few = self[:8].to_list()
        more = ", ..." if len(self) > len(few) else ""
        name = "bytes" if self.dtype == STRING else self.dtype.name
        return f"RaggedArray([{', '.join(f'{row!r:.80}' for row in few)}{more}], dtype={name})"


def splits_of(lengths: np.ndarray) -> np.ndarray:
    """Row splits of rows of these lengths: int64 (n + 1,)."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def fill_value(dtype: np.dtype) -> Any:
    """What arrays of a dtype are padded with unless one says: 0, false or ``b""``."""
    return b"" if dtype == STRING else np.zeros((), dtype)[()]


def uniform(column: np.ndarray) -> RaggedArray:
    """A dense array (n, length, ...) as rows of equal lengths."""
    n, length = column.shape[:2]
    splits = np.arange(n + 1, dtype=np.int64) * length
    return RaggedArray._view(np.ascontiguousarray(column).reshape(-1, *column.shape[2:]), splits)


def joined(parts: Sequence[RaggedArray]) -> RaggedArray:
    """Return the rows of all, in order; they are not nested."""
    values = np.concatenate([part.values for part in parts])
    lengths = np.concatenate([part.row_lengths() for part in parts])
    return RaggedArray._view(values, splits_of(lengths))


def copy_rows(source: np.ndarray, out: np.ndarray, starts: Any, places: Any, lengths: Any) -> None:
    """Copies ``source[starts[k]:][:lengths[k]]`` to ``out[places[k]:]`` for each ``k``."""
    if source.dtype != STRING:
        if len(lengths) and out.size:
            arrays = (np.ascontiguousarray(a, np.int64) for a in (starts, places, lengths))
            copy_runs(_as_bytes(source), _as_bytes(out), *arrays)
        return
    for start, place, length in zip(
        starts.tolist(), places.tolist(), lengths.tolist(), strict=True
    ):
        out[place : place + length] = source[start : start + length]


def _as_bytes(array: np.ndarray) -> np.ndarray:
    width = array.dtype.itemsize * math.prod(array.shape[1:])
    return array.reshape(-1).view(np.uint8).reshape(len(array), width)


def objects(rows: Sequence[Any] | RaggedArray) -> np.ndarray:
    """An array (n,) of dtype object that holds ``rows``."""
    column = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        column[i] = row
    return column


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class RaggedTensorSpec(TensorSpec):
    """Shape and dtype of a leaf that is a `RaggedArray`, as ``tf.RaggedTensorSpec``.

    Attributes:
        ragged_rank: how many dimensions after the first vary in length.
    """

    ragged_rank: int = 1

    def __init__(
        self, shape: Sequence[int | None], dtype: Any = np.float32, ragged_rank: int | None = None
    ):
        """Takes the shape with ``None`` for dimensions that vary; by default all but the first do.

        Raises:
            ValueError: ``ragged_rank`` is not between 1 and the number of dimensions less one.
        """
        rank = len(shape) - 1 if ragged_rank is None else int(ragged_rank)
        if not 1 <= rank < len(shape):
            raise ValueError(f"ragged_rank {rank} does not go with {len(shape)} dimensions")
        super().__init__(shape, dtype)
        object.__setattr__(self, "ragged_rank", rank)

    @property
    def is_static(self) -> bool:
        return False

    @property
    def is_string(self) -> bool:
        """A column of it holds arrays, not ``bytes``."""
        return False

    @property
    def nbytes(self) -> int | None:
        return None

    def batched(self, size: int | None) -> TensorSpec:
        raise TypeError(
            f"batches of different row lengths cannot be stacked: a leaf is {self!r}; fill them up "
            "first, with map(lambda ragged: ragged.to_tensor())"
        )

    def merged(self, other: TensorSpec) -> TensorSpec | None:
        same = isinstance(other, RaggedTensorSpec) and other.ragged_rank == self.ragged_rank
        if not same or self.dtype != other.dtype or len(self.shape) != len(other.shape):
            return None
        shape = [x if x == y else None for x, y in zip(self.shape, other.shape, strict=True)]
        return RaggedTensorSpec(shape, self.dtype, self.ragged_rank)

    def row(self) -> TensorSpec:
        """The spec of a row."""
        if self.ragged_rank == 1:
            return TensorSpec(self.shape[1:], self.dtype)
        return RaggedTensorSpec(self.shape[1:], self.dtype, self.ragged_rank - 1)

    def __repr__(self) -> str:
        dtype = TensorSpec((), self.dtype)
        name = "string" if dtype.is_string else self.dtype.name
        return f"RaggedTensorSpec(shape={self.shape}, dtype={name}, ragged_rank={self.ragged_rank})"


def spec_of(value: RaggedArray, static: bool = True) -> RaggedTensorSpec:
    """The spec of a ragged array; with an unknown number of rows unless ``static``."""
    rows = len(value) if static else None
    return RaggedTensorSpec((rows, *value.shape[1:]), value.dtype, value.ragged_rank)


def has_ragged(spec: ElementSpec) -> bool:
    """Whether some leaf is a ragged array."""
    return any(isinstance(leaf, RaggedTensorSpec) for leaf in spec.leaves)


def empty(spec: RaggedTensorSpec) -> RaggedArray:
    """A ragged array of the spec with no rows."""
    depth = spec.ragged_rank
    inner: Any = np.empty((0, *(dim or 0 for dim in spec.shape[depth + 1 :])), spec.dtype)
    for _ in range(depth):
        inner = RaggedArray(inner, [0])
    return RaggedArray(inner.values, [0])


def row_spec(leaf: TensorSpec) -> TensorSpec:
    """The spec of a row of a leaf."""
    if isinstance(leaf, RaggedTensorSpec):
        return leaf.row()
    return TensorSpec(leaf.shape[1:], leaf.dtype)
