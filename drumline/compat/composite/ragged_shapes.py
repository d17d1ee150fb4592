"""The shapes of ragged tensors: ``tf.experimental.RowPartition`` and ``DynamicRaggedShape``.

They are known when they are made, as the row splits of ragged tensors are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from drumline.compat.composite.dispatch import handles
from drumline.compat.composite.ragged import RaggedTensor, as_splits, invalid, to_values
from drumline.compat.composite.ragged_ops import broadcast
from drumline.compat.ops import arrays
from drumline.compat.values import dtypes
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.convert import convert, static
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor


class RowPartition:
    """How values are cut into rows, as ``tf.experimental.RowPartition``; made by ``from_...``.

    Args:
        row_splits: numpy's int64 or int32 (n + 1,), from 0 to the number of values.
        uniform_row_length: the length of all rows, if they are of one.

    Example:
        >>> import drumline.compat.tf as tf
        >>> tf.experimental.RowPartition.from_row_lengths([5, 3, 2])
        tf.RowPartition(row_splits=[ 0  5  8 10])
    """

    def __init__(self, row_splits: np.ndarray, uniform_row_length: int | None = None):
        self.splits = row_splits
        self._uniform = uniform_row_length

    @classmethod
    def from_row_splits(
        cls, row_splits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Rows from where each begins and the last ends, (n + 1,)."""
        splits = _encoding(row_splits, dtype, dtype_hint)
        return _partition(RaggedTensor.from_row_splits, splits, _last(splits), validate)

    @classmethod
    def from_row_lengths(
        cls, row_lengths: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Rows of given lengths, (n,)."""
        lengths = _encoding(row_lengths, dtype, dtype_hint)
        count = max(int(lengths.sum()), 0)
        return _partition(RaggedTensor.from_row_lengths, lengths, count, validate)

    @classmethod
    def from_row_starts(
        cls,
        row_starts: Any,
        nvals: Any,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
    ) -> RowPartition:
        """Rows from where each begins, (n,), of so many values."""
        starts = _encoding(row_starts, dtype, dtype_hint)
        return _partition(RaggedTensor.from_row_starts, starts, int(static(nvals)), validate)

    @classmethod
    def from_row_limits(
        cls, row_limits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Rows up to where each ends, (n,)."""
        limits = _encoding(row_limits, dtype, dtype_hint)
        return _partition(RaggedTensor.from_row_limits, limits, _last(limits), validate)

    @classmethod
    def from_value_rowids(
        cls,
        value_rowids: Any,
        nrows: Any = None,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
    ) -> RowPartition:
        """Rows from the row of each value, (total,), ascending."""

        def make(values: Any, rowids: Any, **kwargs: Any) -> RaggedTensor:
            return RaggedTensor.from_value_rowids(values, rowids, nrows, **kwargs)

        rowids = _encoding(value_rowids, dtype, dtype_hint)
        return _partition(make, rowids, rowids.size, validate)

    @classmethod
    def from_uniform_row_length(
        cls,
        uniform_row_length: Any,
        nvals: Any = None,
        nrows: Any = None,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
    ) -> RowPartition:
        """Rows of one length.

        Args:
            uniform_row_length: the length.
            nvals: the number of values.
            nrows: the number of rows; needed where the length is 0.
            validate: accepted; they are always checked.
            dtype: int64 or int32, of the splits; `dtype_hint` by default, else int64.
            dtype_hint: the dtype where none is given.

        Raises:
            ValueError: neither number is given, or the numbers do not fit.
        """
        length = int(static(uniform_row_length))
        count = None if nrows is None else int(static(nrows))
        total = None if nvals is None else int(static(nvals))
        if length < 0:
            raise invalid(f"uniform_row_length must be at least 0, not {length}")
        if count is None and total is None:
            raise ValueError("Either (or both) of nvals and nrows must be specified")
        if count is None:
            assert total is not None
            if not length and total:
                raise ValueError(f"uniform_row_length=0 leaves no place for nvals={total}")
            count = total // length if length else 0
        if total is not None and length * count != total:
            raise ValueError(
                f"uniform_row_length={length} times nrows={count} must equal nvals={total}"
            )
        splits = np.arange(count + 1) * length
        return cls(
            splits.astype(dtypes.as_dtype(dtype or dtype_hint or dtypes.int64).dtype), length
        )

    @property
    def dtype(self) -> Any:
        """int64 or int32: of the splits."""
        return dtypes.of_array(self.splits.dtype)

    @property
    def static_nrows(self) -> int:
        """The number of rows, of Python."""
        return len(self.splits) - 1

    @property
    def static_nvals(self) -> int:
        """The number of values, of Python."""
        return int(self.splits[-1])

    @property
    def static_uniform_row_length(self) -> int | None:
        """The length of all rows, of Python; None where they may differ."""
        return self._uniform

    def nrows(self) -> Tensor:
        """The number of rows."""
        return self._number(self.static_nrows)

    def nvals(self) -> Tensor:
        """The number of values."""
        return self._number(self.static_nvals)

    def uniform_row_length(self) -> Tensor | None:
        """The length of all rows; None where they may differ."""
        return None if self._uniform is None else self._number(self._uniform)

    def row_splits(self) -> Tensor:
        """Where each row begins and the last ends, (n + 1,)."""
        return Tensor(self.splits)

    def row_lengths(self) -> Tensor:
        """The length of each row, (n,)."""
        return Tensor(np.diff(self.splits))

    def row_starts(self) -> Tensor:
        """Where each row begins, (n,)."""
        return Tensor(self.splits[:-1])

    def row_limits(self) -> Tensor:
        """Where each row ends, (n,)."""
        return Tensor(self.splits[1:])

    def value_rowids(self) -> Tensor:
        """The row of each value, (total,)."""
        rows = np.arange(self.static_nrows, dtype=self.splits.dtype)
        return Tensor(np.repeat(rows, np.diff(self.splits)))

    def offsets_in_rows(self) -> Tensor:
        """The place of each value in its row, (total,)."""
        starts = np.repeat(self.splits[:-1], np.diff(self.splits))
        return Tensor(np.arange(self.static_nvals, dtype=self.splits.dtype) - starts)

    def is_uniform(self) -> bool:
        """Whether it was made of one length for all rows."""
        return self._uniform is not None

    def with_dtype(self, dtype: Any) -> RowPartition:
        """The same with splits of another dtype."""
        return RowPartition(self.splits.astype(dtypes.as_dtype(dtype).dtype), self._uniform)

    def _number(self, value: int) -> Tensor:
        return Tensor(np.asarray(value, self.splits.dtype))

    def __repr__(self) -> str:
        if self._uniform is not None:
            return f"tf.RowPartition(nrows={self.static_nrows}, uniform_row_length={self._uniform})"
        return f"tf.RowPartition(row_splits={self.splits})"


def _partition(make: Any, encoding: np.ndarray, count: int, validate: bool) -> RowPartition:
    """The partition of a ragged tensor that is made of `count` values in this way."""
    values = Tensor(np.zeros(count, np.int8))
    return RowPartition(make(values, encoding, validate=validate).splits)


def _encoding(value: Any, dtype: Any, dtype_hint: Any) -> np.ndarray:
    """Integers of a dtype; of the hint's, if they are of Python's."""
    given = as_splits(value)
    kind = dtype_hint if dtype is None and not hasattr(value, "dtype") else dtype
    return given if kind is None else given.astype(dtypes.as_dtype(kind).dtype)


def _last(encoding: np.ndarray) -> int:
    return max(int(encoding[-1]), 0) if encoding.size else 0


class DynamicRaggedShape(CompositeTensor):
    """The sizes of the dimensions of a ragged tensor, as ``tf.shape`` gives them.

    Args:
        row_partitions: of the outer dimensions, outermost first; each has as many rows as the one
            before has values.
        inner_shape: integers, of the innermost values: as many in the first dimension as the last
            partition has.
        dtype: int64 or int32, of the numbers; that of the partitions by default, else int64.
        validate: accepted; they are always checked.
        static_inner_shape: accepted; the inner shape is known.

    Raises:
        ValueError: the numbers of rows and values do not fit.

    Example:
        >>> import drumline.compat.tf as tf
        >>> shape = tf.experimental.DynamicRaggedShape.from_lengths([2, (1, 3)])
        >>> tf.ones(shape)
        <tf.RaggedTensor [[1.0], [1.0, 1.0, 1.0]]>
    """

    handlers = __name__
    remedy = "it is a shape of ragged tensors: use its static_lengths()"
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        row_partitions: Iterable[RowPartition],
        inner_shape: Any,
        dtype: Any = None,
        validate: bool = False,
        static_inner_shape: Any = None,
    ):
        partitions = tuple(row_partitions)
        sizes = static(inner_shape)
        self._inner = tuple(int(each) for each in np.asarray(sizes).reshape(-1))
        if dtype is None:
            dtype = partitions[0].dtype if partitions else dtypes.int64
        self._dtype = dtypes.as_dtype(dtype)
        self._partitions = tuple(each.with_dtype(self._dtype) for each in partitions)
        if partitions and not self._inner:
            raise ValueError("inner_shape needs the number of the innermost values, and is ()")
        counts = [each.static_nrows for each in partitions[1:]] + list(self._inner[:1])
        for level, (each, count) in enumerate(zip(partitions, counts, strict=False)):
            if each.static_nvals != count:
                raise ValueError(
                    f"Shape not consistent: row_partitions[{level}] has {each.static_nvals} "
                    f"values, and {count} are in what is within"
                )

    @classmethod
    def from_lengths(
        cls, lengths: Any, num_row_partitions: int | None = None, dtype: Any = dtypes.int64
    ) -> DynamicRaggedShape:
        """The shape of the size of each dimension, and tuples of the lengths of ragged rows.

        Args:
            lengths: integers, and a tuple of a length for each row in place of those that differ.
            num_row_partitions: how many of the dimensions after the first are partitions; up to
                the last tuple by default.
            dtype: int64 or int32.

        Raises:
            ValueError: the first is no integer, or a tuple is not of a length for each row.
        """
        given = list(lengths)
        ragged = [at for at, each in enumerate(given) if isinstance(each, (tuple, list))]
        most = max(len(given) - 1, 0)
        if num_row_partitions is None:
            num_row_partitions = ragged[-1] if ragged else 0
        if not 0 <= num_row_partitions <= most or (ragged and ragged[-1] > num_row_partitions):
            raise ValueError(
                f"num_row_partitions={num_row_partitions} does not fit the lengths {given}: it is "
                f"at least {ragged[-1] if ragged else 0} and at most {most}"
            )
        if ragged and ragged[0] == 0:
            raise ValueError(f"The first of the lengths must be an integer, not {given[0]}")
        count = int(given[0]) if given else 0
        partitions = []
        for at in range(1, num_row_partitions + 1):
            each = given[at]
            if isinstance(each, (tuple, list)):
                if len(each) != count:
                    raise ValueError(
                        f"Shape not consistent: lengths[{at}] has {len(each)} rows, not {count}"
                    )
                made = RowPartition.from_row_lengths(np.asarray(each, np.int64), dtype=dtype)
            else:
                made = RowPartition.from_uniform_row_length(each, nrows=count, dtype=dtype)
            partitions.append(made)
            count = made.static_nvals
        return cls(partitions, [count, *given[num_row_partitions + 1 :]] if given else [], dtype)

    @classmethod
    def from_row_partitions(
        cls, row_partitions: Iterable[RowPartition], dtype: Any = None
    ) -> DynamicRaggedShape:
        """The shape of partitions of values that are scalars.

        Raises:
            ValueError: there are none, or they do not fit.
        """
        partitions = list(row_partitions)
        if not partitions:
            raise ValueError("row_partitions cannot be empty")
        return cls(partitions, [partitions[-1].static_nvals], dtype)

    @classmethod
    def from_tensor(cls, t: Any, dtype: Any = None) -> DynamicRaggedShape:
        """The shape of a ragged or another tensor."""
        value = to_values(t)
        if not isinstance(value, RaggedTensor):
            return cls([], tuple(convert(value).shape), dtype or dtypes.int32)
        partitions = []
        for level in value.levels:
            uniform = level.uniform_row_length
            partitions.append(RowPartition(level.splits, None if uniform is None else int(uniform)))
        return cls(partitions, tuple(value.flat_values.shape), dtype)

    @property
    def dtype(self) -> Any:
        """int64 or int32: of its numbers."""
        return self._dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._partitions) + len(self._inner)

    @property
    def inner_rank(self) -> int:
        """The number of dimensions of the innermost values."""
        return len(self._inner)

    @property
    def num_row_partitions(self) -> int:
        """The number of partitions."""
        return len(self._partitions)

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        """The partitions, outermost first."""
        return self._partitions

    @property
    def inner_shape(self) -> Tensor:
        """The shape of the innermost values."""
        return Tensor(np.asarray(self._inner, self._dtype.dtype))

    def is_uniform(self, axis: int) -> bool:
        """Whether all rows of a dimension are of one length.

        Raises:
            IndexError: there is no such dimension.
        """
        if not 0 <= axis < self.rank:
            raise IndexError(f"Expected 0 <= axis < {self.rank}, not {axis}")
        return not 0 < axis <= len(self._partitions) or self._partitions[axis - 1].is_uniform()

    def static_lengths(self, ragged_lengths: bool = True) -> list[Any]:
        """The size of each dimension; of ragged ones the lengths of their rows.

        Args:
            ragged_lengths: whether the lengths are given; None in their places otherwise.
        """
        if not self._partitions:
            return list(self._inner)
        found: list[Any] = [self._partitions[0].static_nrows]
        for each in self._partitions:
            lengths = tuple(np.diff(each.splits).tolist()) if ragged_lengths else None
            found.append(each.static_uniform_row_length if each.is_uniform() else lengths)
        return [*found, *self._inner[1:]]

    def with_dtype(self, dtype: Any) -> DynamicRaggedShape:
        """The same with numbers of another dtype."""
        return DynamicRaggedShape(self._partitions, self._inner, dtype)

    def static_shape(self) -> TensorShape:
        """The dimensions, None for ragged ones."""
        return TensorShape(self.static_lengths(ragged_lengths=False))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._slice(index)
        at = int(static(index))
        if not -self.rank <= at < self.rank:
            raise IndexError(f"Index {at} is out of range: there are {self.rank} dimensions")
        at %= self.rank
        if not self.is_uniform(at):
            raise ValueError(f"Index {at} is not uniform")
        return Tensor(np.asarray(self.static_lengths()[at], self._dtype.dtype))

    def _slice(self, index: slice) -> DynamicRaggedShape:
        """The shape of some dimensions; of ragged ones, if they begin with the outermost."""
        taken = range(self.rank)[index]
        sizes = self.static_lengths()
        if len(taken) < 2 or taken.start != 0 or taken.step != 1:
            if not all(map(self.is_uniform, taken)):
                raise ValueError("All relevant dimensions must be uniform")
            return DynamicRaggedShape([], [sizes[at] for at in taken], self._dtype)
        partitions = self._partitions[: len(taken) - 1]
        inner = list(self._inner[: max(len(taken) - len(self._partitions), 0)])
        if partitions and not inner:
            inner = [partitions[-1].static_nvals]
        return DynamicRaggedShape(partitions, inner, self._dtype)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, DynamicRaggedShape):
            return NotImplemented
        if (self.rank, self.num_row_partitions) != (other.rank, other.num_row_partitions):
            return False
        return Tensor(np.asarray(self.static_lengths() == other.static_lengths()))

    def __repr__(self) -> str:
        parts = [
            f"({', '.join(map(str, each))}{',' * (len(each) == 1)})"
            if isinstance(each, tuple)
            else str(each)
            for each in self.static_lengths()
        ]
        count = self.num_row_partitions
        return f"<DynamicRaggedShape lengths=[{', '.join(parts)}] num_row_partitions={count}>"

    __str__ = __repr__

    def rows_of(self, values: Any) -> Any:
        """The ragged tensor of innermost values; a tensor if no dimension is ragged."""
        made: Any = values
        for each in reversed(self._partitions):
            made = RaggedTensor(made, each.splits, each.static_uniform_row_length)
        return made

    def sizes(self) -> list[int]:
        """The sizes of the innermost values."""
        return list(self._inner)


@handles(DynamicRaggedShape, "reshape")
def reshape(tensor: Any, shape: Any, name: Any = None) -> Any:
    """The same elements in rows of another shape."""
    values = to_values(tensor)
    flat = values.flat_values if isinstance(values, RaggedTensor) else values
    return shape.rows_of(arrays.reshape(flat, shape.sizes()))


@handles(DynamicRaggedShape, "zeros")
def zeros(shape: Any, dtype: Any = dtypes.float32, name: Any = None, layout: Any = None) -> Any:
    """Rows of zeros."""
    return shape.rows_of(arrays.zeros(shape.sizes(), dtype))


@handles(DynamicRaggedShape, "ones")
def ones(shape: Any, dtype: Any = dtypes.float32, name: Any = None, layout: Any = None) -> Any:
    """Rows of ones."""
    return shape.rows_of(arrays.ones(shape.sizes(), dtype))


@handles(DynamicRaggedShape, "fill")
def fill(dims: Any, value: Any, name: Any = None, layout: Any = None) -> Any:
    """Rows of one value."""
    return dims.rows_of(arrays.fill(dims.sizes(), value))


@handles(DynamicRaggedShape, "broadcast_to")
def broadcast_to(input: Any, shape: Any, name: Any = None) -> Any:
    """The tensor in the larger shape.

    Raises:
        InvalidArgumentError: its dimensions are neither 1 nor those of the shape.
    """
    value = to_values(input)
    rows = shape.rows_of(arrays.zeros(shape.sizes()))
    if not isinstance(rows, RaggedTensor) and not isinstance(value, RaggedTensor):
        return arrays.broadcast_to(value, shape.sizes())
    (spread, _), rebuilt = broadcast(value, rows)
    made = rebuilt(spread if np.ndim(spread) else arrays.broadcast_to(spread, shape.sizes()))
    found = DynamicRaggedShape.from_tensor(made)
    if found.static_lengths() != DynamicRaggedShape.from_tensor(rows).static_lengths():
        raise invalid(f"Unable to broadcast {DynamicRaggedShape.from_tensor(value)} to {shape}")
    return made


@handles(DynamicRaggedShape, "broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> DynamicRaggedShape:
    """The shape of the result of an operation of tensors of two shapes."""
    rows = []
    for each in (shape_x, shape_y):
        known = each if isinstance(each, DynamicRaggedShape) else DynamicRaggedShape([], each)
        rows.append(known.rows_of(arrays.zeros(known.sizes())))
    if not any(isinstance(each, RaggedTensor) for each in rows):
        return DynamicRaggedShape([], np.broadcast_shapes(*(np.shape(each) for each in rows)))
    (first, second), rebuilt = broadcast(*rows)
    both = np.broadcast_shapes(np.shape(first), np.shape(second))
    return DynamicRaggedShape.from_tensor(rebuilt(arrays.zeros(both)))
