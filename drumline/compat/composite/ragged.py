"""`RaggedTensor`: rows of differing lengths, as ``tf.RaggedTensor``.

Its values are a tensor, or a ragged tensor again; its row splits are numpy's. Compiled functions
have the splits in their program, as they have shapes, and trace the values: rows of other lengths
are another program. drumline's datasets hold it as a `RaggedArray`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from drumline.compat.ops import arrays, elementwise
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import register
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.convert import convert, is_traced, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.specs import RaggedSpec
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedArray, splits_of
from drumline.data.elements.ragged import RaggedTensorSpec as RaggedArraySpec
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython


def invalid(message: str) -> InvalidArgumentError:
    """An error about an argument."""
    return InvalidArgumentError(None, None, message)


def as_splits(value: Any) -> np.ndarray:
    """Row partitions of any kind as numpy's int64 or int32.

    Raises:
        ValueNeedsPython: they belong to a function that is being traced.
    """
    given = convert(value)
    if is_traced(given) or isinstance(given, Symbol):
        raise ValueNeedsPython("the function makes rows whose lengths are tensors")
    array = np.asarray(given)
    if array.dtype not in (np.int32, np.int64):
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(f"Row partitions must be int32 or int64, not {array.dtype}")
        array = array.astype(np.int64)
    kept = isinstance(value, (list, tuple))
    return array.astype(np.int64) if kept else array


class RaggedTensor(CompositeTensor):
    """Rows of differing lengths, as ``tf.RaggedTensor``; made by its ``from_...`` methods.

    Args:
        values: a `Tensor` (total, ...) or a `RaggedTensor`.
        row_splits: numpy's int64 or int32 (n + 1,), from 0 to total.
        uniform_row_length: the length of all rows, if the dimension is a uniform one.
    """

    handlers = "drumline.compat.composite.ragged_rows"
    remedy = "use its to_tensor(), or tf.ragged.map_flat_values"
    __array_priority__ = 2000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Any, row_splits: np.ndarray, uniform_row_length: int | None = None):
        self._held = values
        self._splits = row_splits
        self._uniform = uniform_row_length

    @classmethod
    def _from(cls, values: Any, splits: np.ndarray, validate: bool) -> RaggedTensor:
        values = to_values(values)
        if splits.ndim != 1:
            raise ValueError(f"Row partitions must be vectors, got the shape {splits.shape}")
        if isinstance(values, RaggedTensor) and values._splits.dtype != splits.dtype:
            values, splits = values.with_row_splits_dtype("int64"), splits.astype(np.int64)
        if not isinstance(values, RaggedTensor) and not values.shape.rank:
            raise ValueError("The values of a RaggedTensor need a first dimension to cut into rows")
        if not len(splits) or splits[0] != 0:
            raise invalid("Arguments to from_row_splits do not form a valid RaggedTensor:zero")
        if (np.diff(splits) < 0).any():
            raise invalid("Arguments do not form a valid RaggedTensor:monotonic: splits decrease")
        if validate and splits[-1] != rows_of(values):
            raise invalid(
                f"Arguments do not form a valid RaggedTensor: the rows end at {splits[-1]}, "
                f"there are {rows_of(values)} values"
            )
        return cls(values, splits)

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows from where each begins and the last ends, (n + 1,)."""
        return cls._from(values, as_splits(row_splits), validate)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows of given lengths, (n,)."""
        lengths = as_splits(row_lengths)
        if lengths.ndim == 1 and (lengths < 0).any():
            raise invalid("Arguments to from_row_lengths do not form a valid RaggedTensor")
        return cls._from(values, splits_of(lengths).astype(lengths.dtype), validate)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows from where each begins, (n,)."""
        held = to_values(values)
        starts = as_splits(row_starts)
        return cls._from(held, np.append(starts, starts.dtype.type(rows_of(held))), validate)

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Rows from where each ends, (n,)."""
        limits = as_splits(row_limits)
        return cls._from(values, np.insert(limits, 0, 0), validate)

    @classmethod
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: Any,
        nrows: Any = None,
        name: Any = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Rows from the number of the row of each value, which do not decrease."""
        ids = as_splits(value_rowids)
        count = int(ids[-1]) + 1 if len(ids) else 0
        rows = count if nrows is None else int(static(nrows))
        if (np.diff(ids) < 0).any() or rows < count or (ids < 0).any():
            raise invalid("Arguments to from_value_rowids do not form a valid RaggedTensor")
        lengths = np.bincount(ids, minlength=rows)
        return cls._from(values, splits_of(lengths).astype(ids.dtype), validate)

    @classmethod
    def from_uniform_row_length(
        cls,
        values: Any,
        uniform_row_length: Any,
        nrows: Any = None,
        validate: bool = True,
        name: Any = None,
    ) -> RaggedTensor:
        """Rows of one length."""
        held, length = to_values(values), int(static(uniform_row_length))
        count = rows_of(held)
        rows = (count // length if length else 0) if nrows is None else int(static(nrows))
        if length < 0 or rows * length != count:
            raise invalid(f"{count} values do not divide into rows of {length}")
        kind = held._splits.dtype if isinstance(held, RaggedTensor) else np.int64
        return cls(held, np.arange(rows + 1, dtype=kind) * kind_of(kind, length), length)

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Any, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Nested rows from the splits of each dimension, outermost first."""
        return _nested(cls.from_row_splits, flat_values, nested_row_splits, validate)

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Any, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Nested rows from the lengths of each dimension, outermost first."""
        return _nested(cls.from_row_lengths, flat_values, nested_row_lengths, validate)

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Any,
        nested_nrows: Any = None,
        name: Any = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Nested rows from the numbers of rows of each dimension, outermost first."""
        made = flat_values
        counts = nested_nrows or [None] * len(nested_value_rowids)
        for ids, count in reversed(list(zip(nested_value_rowids, counts, strict=True))):
            made = cls.from_value_rowids(made, ids, count, validate=validate)
        return made

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        name: Any = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> RaggedTensor:
        """The rows of a dense tensor, cut to lengths or without their padding.

        Args:
            tensor: of at least two dimensions.
            lengths: of rows (n,), or a list of those of several dimensions.
            padding: a value that is left out at the ends of rows.
            ragged_rank: how many dimensions become ragged.
            name: ignored.
            row_splits_dtype: int32 or int64.
        """
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        dense = Tensor(convert(tensor))
        kind = dtypes.as_dtype(row_splits_dtype)
        if isinstance(lengths, (list, tuple)) and lengths and not np.isscalar(lengths[0]):
            return _of_lengths(dense, lengths).with_row_splits_dtype(kind)
        shape: Any = tuple(dense.shape)
        if len(shape) <= ragged_rank:
            raise ValueError(f"ragged_rank {ragged_rank} does not go with the shape {shape}")
        if ragged_rank > 1:
            inner = arrays.reshape(dense, (-1, *shape[2:]))
            made = cls.from_tensor(inner, None, padding, ragged_rank - 1)
            rows = np.full(shape[0], shape[1])
            return cls.from_row_lengths(made, rows).with_row_splits_dtype(kind)
        if padding is not None:
            same = np.asarray(dense) == np.asarray(convert(padding, dense.dtype))
            kept = ~same.reshape(*shape[:2], -1).all(-1)
            lengths = np.where(kept.any(1), shape[1] - kept[:, ::-1].argmax(1), 0)
        elif lengths is None:
            lengths = np.full(shape[0], shape[1])
        counts = np.clip(np.asarray(static(convert(lengths))), 0, shape[1]).astype(np.int64)
        inside = np.arange(shape[1]) < counts[:, None]
        flat = arrays.reshape(dense, (shape[0] * shape[1], *shape[2:]))
        values = arrays.gather(flat, np.flatnonzero(inside))
        return cls.from_row_lengths(values, counts).with_row_splits_dtype(kind)

    @classmethod
    def from_sparse(
        cls, st_input: Any, name: Any = None, row_splits_dtype: Any = dtypes.int64
    ) -> RaggedTensor:
        """The rows of a sparse matrix without gaps."""
        shape, indices = np.asarray(st_input.dense_shape), np.asarray(st_input.indices)
        if len(shape) != 2:
            raise ValueError("from_sparse: the SparseTensor must have 2 dimensions")
        lengths = np.bincount(indices[:, 0], minlength=int(shape[0]))
        steps = np.arange(len(indices)) - np.repeat(splits_of(lengths)[:-1], lengths)
        if (np.diff(indices[:, 0]) < 0).any() or (steps != indices[:, 1]).any():
            raise invalid("SparseTensor is not right-ragged: its rows have gaps")
        kind = dtypes.as_dtype(row_splits_dtype)
        return cls.from_row_lengths(st_input.values, lengths).with_row_splits_dtype(kind)

    # What it is.

    @property
    def values(self) -> Any:
        """The rows joined: a tensor, or a ragged one."""
        return self._held

    @property
    def flat_values(self) -> Tensor:
        """The innermost values."""
        inner: Any = self
        while isinstance(inner, RaggedTensor):
            inner = inner.values
        made: Tensor = inner
        return made

    @property
    def row_splits(self) -> Tensor:
        """Where rows begin and end in `values`: (n + 1,)."""
        return Tensor(self.splits)

    @property
    def splits(self) -> np.ndarray:
        """As `row_splits`, numpy's."""
        return self._splits

    @property
    def lengths(self) -> np.ndarray:
        """The length of each row, numpy's."""
        return np.diff(self.splits)

    @property
    def levels(self) -> list[RaggedTensor]:
        """Itself, its values if they are ragged, and so on."""
        found, inner = [], self
        while isinstance(inner, RaggedTensor):
            found.append(inner)
            inner = inner.values
        return found

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The row splits of each ragged dimension, outermost first."""
        return tuple(level.row_splits for level in self.levels)

    def nested_row_lengths(self, name: Any = None) -> tuple[Tensor, ...]:
        """The row lengths of each ragged dimension, outermost first."""
        return tuple(Tensor(level.lengths) for level in self.levels)

    def nested_value_rowids(self, name: Any = None) -> tuple[Tensor, ...]:
        """The numbers of rows of the values of each ragged dimension, outermost first."""
        return tuple(level.value_rowids() for level in self.levels)

    @property
    def uniform_row_length(self) -> Tensor | None:
        """The length of all rows, if the dimension is a uniform one."""
        length = self._uniform
        return None if length is None else Tensor(self._splits.dtype.type(length))

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self.flat_values.dtype

    @property
    def shape(self) -> TensorShape:
        """The dimensions; None for ragged ones."""
        inner = self.values.shape
        return TensorShape([len(self.splits) - 1, self._uniform, *tuple(inner)[1:]])

    def get_shape(self) -> TensorShape:
        """As `shape`."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are partitioned."""
        return len(self.levels)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def nrows(self, out_type: Any = None, name: Any = None) -> Tensor:
        """The number of rows."""
        kind = self.splits.dtype if out_type is None else dtypes.as_dtype(out_type).dtype
        return Tensor(np.asarray(len(self.splits) - 1, kind))

    def row_lengths(self, axis: int = 1, name: Any = None) -> Any:
        """The lengths of rows in a dimension; those of an inner one are ragged themselves."""
        axis = static(axis)
        axis = axis + self.ndim if axis < 0 else axis
        if axis == 0:
            return self.nrows()
        if axis == 1:
            return Tensor(self.lengths)
        if isinstance(self.values, RaggedTensor):
            return self.with_values(self.values.row_lengths(axis - 1))
        shape = tuple(self.values.shape)
        filled = np.full(shape[: axis - 1], shape[axis - 1], self.splits.dtype)
        return self.with_values(Tensor(filled))

    def row_starts(self, name: Any = None) -> Tensor:
        """Where rows begin in `values`."""
        return Tensor(self.splits[:-1])

    def row_limits(self, name: Any = None) -> Tensor:
        """Where rows end in `values`."""
        return Tensor(self.splits[1:])

    def value_rowids(self, name: Any = None) -> Tensor:
        """The number of the row of each value."""
        ids = np.repeat(np.arange(len(self.splits) - 1, dtype=self.splits.dtype), self.lengths)
        return Tensor(ids)

    def bounding_shape(self, axis: Any = None, name: Any = None, out_type: Any = None) -> Tensor:
        """The shape of the smallest dense tensor that holds all rows, or of some dimensions."""
        levels = self.levels
        sizes: list[Any] = [
            len(self.splits) - 1,
            *(int(level.lengths.max(initial=0)) for level in levels),
        ]
        sizes += tuple(self.flat_values.shape)[1:]
        kind = self.splits.dtype if out_type is None else dtypes.as_dtype(out_type).dtype
        found = np.asarray(sizes, kind)
        return Tensor(found if axis is None else found[static(axis)])

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Other values in these rows."""
        values = to_values(new_values)
        if rows_of(values) != int(self.splits[-1]):
            raise invalid(f"{rows_of(values)} values do not fit rows of {self.splits[-1]}")
        splits = self.splits
        if isinstance(values, RaggedTensor) and values.splits.dtype != splits.dtype:
            values, splits = values.with_row_splits_dtype("int64"), splits.astype(np.int64)
        return RaggedTensor(values, splits, self._uniform)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Other innermost values in these rows."""
        values = self.values
        if isinstance(values, RaggedTensor):
            return self.with_values(values.with_flat_values(new_values))
        return self.with_values(new_values)

    def has_rows_of(self, other: RaggedTensor) -> bool:
        """Whether the rows are those of another one, without a look at them."""
        return self is other

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same rows with splits of another dtype."""
        kind, values = dtypes.as_dtype(dtype).dtype, self.values
        if kind not in (np.int32, np.int64):
            raise ValueError(f"Argument row_splits dtype must be int32 or int64, not {kind}")
        if isinstance(values, RaggedTensor):
            values = values.with_row_splits_dtype(dtype)
        return RaggedTensor(values, self.splits.astype(kind), self._uniform)

    # What it becomes.

    def to_array(self) -> RaggedArray:
        """As drumline's datasets hold it."""
        values: Any = self.values
        inner = values.to_array() if isinstance(values, RaggedTensor) else np.asarray(values)
        return RaggedArray(inner, self.splits.astype(np.int64))

    def to_list(self) -> list[Any]:
        """Nested Python lists."""
        return self.to_array().to_list()

    def numpy(self) -> np.ndarray:
        """A numpy array of the rows; of dtype object if they differ in length."""
        rows = [row.numpy() for row in self]
        if len({row.shape for row in rows}) <= 1 and all(row.dtype != object for row in rows):
            return np.array(rows, None if rows else self.dtype.as_numpy_dtype)
        made = np.empty(len(rows), object)
        for number, row in enumerate(rows):
            made[number] = row
        return made

    def to_tensor(self, default_value: Any = None, name: Any = None, shape: Any = None) -> Tensor:
        """A dense tensor with rows filled up at their ends.

        Args:
            default_value: what with; 0, False or ``b""`` unless given.
            name: ignored.
            shape: of the result; longer rows are cut, None is as long as needed.
        """
        bounds = np.asarray(self.bounding_shape()).tolist()
        wanted = list(TensorShape(shape)) if shape is not None else [None] * len(bounds)
        if len(wanted) != len(bounds):
            raise ValueError(f"shape {shape} has not the {len(bounds)} dimensions of {self.shape}")
        sizes = [b if w is None else int(w) for w, b in zip(wanted, bounds, strict=True)]
        flat, depth = self.flat_values, self.ragged_rank + 1
        place, inside = self._places(sizes[:depth])
        inner = tuple(flat.shape)[1:]
        if tuple(sizes[depth:]) != inner:
            raise ValueError(f"to_tensor: inner dimensions are {inner}, not {sizes[depth:]}")
        if default_value is None:
            default_value = b"" if flat.dtype == dtypes.string else 0
        filler = convert(default_value, flat.dtype)
        total = int(np.prod(sizes[:depth]))
        index = np.full(total, len(inside), np.int64)
        index[place[inside]] = np.flatnonzero(inside)
        row = arrays.broadcast_to(Tensor(filler), inner)
        values = arrays.concat([flat, arrays.expand_dims(row, 0)], 0)
        return arrays.reshape(arrays.gather(values, index), sizes)

    def _places(self, sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Where each flat value is in a dense array of these sizes, and whether it is inside."""
        rows = len(self.splits) - 1
        place, inside = np.arange(rows), np.arange(rows) < sizes[0]
        for level, size in zip(self.levels, sizes[1:], strict=True):
            lengths = level.lengths
            steps = np.arange(int(level.splits[-1])) - np.repeat(level.splits[:-1], lengths)
            place = np.repeat(place, lengths) * size + steps
            inside = np.repeat(inside, lengths) & (steps < size)
        return place, inside

    def to_sparse(self, name: Any = None) -> Any:
        """A `SparseTensor` of the values."""
        from drumline.compat.composite.sparse import SparseTensor

        flat = self.flat_values
        bounds = np.asarray(self.bounding_shape()).tolist()
        place, _ = self._places(bounds[: self.ragged_rank + 1])
        inner = int(np.prod(flat.shape[1:]))
        place = (place[:, None] * inner + np.arange(inner)).ravel()
        indices = np.stack(np.unravel_index(place, bounds), -1).reshape(-1, len(bounds))
        return SparseTensor(indices, arrays.reshape(flat, [-1]), bounds)

    def consumers(self) -> list[Any]:
        """Nothing: there is no graph."""
        return []

    @property
    def _type_spec(self) -> RaggedSpec:
        return RaggedSpec.from_value(self)

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        from drumline.compat.composite.ragged_index import indexed

        return indexed(self, list(key) if isinstance(key, tuple) else [key])

    def __bool__(self) -> bool:
        raise TypeError("RaggedTensor may not be used as a boolean.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.to_tensor().__array__(dtype) if len(self) == 0 else np.asarray(self.numpy())

    def __repr__(self) -> str:
        return f"<tf.RaggedTensor {_text(self.to_list())}>" if self._is_concrete else self._about()

    def __str__(self) -> str:
        return f"<tf.RaggedTensor {_text(self.to_list())}>" if self._is_concrete else self._about()

    def _about(self) -> str:
        return f"tf.RaggedTensor(shape={self.shape}, dtype={self.dtype.name})"

    @property
    def _is_concrete(self) -> bool:
        return self.flat_values.is_concrete

    def elementwise(self, arity: int) -> Callable[..., Any] | None:
        """What applies functions to the innermost values."""
        from drumline.compat.composite.ragged_ops import of_two, of_values

        return {1: of_values, 2: of_two}.get(arity)


class VaryingRows(RaggedTensor):
    """A ragged tensor of a map that is traced: what needs its rows has the map run as Python.

    Args:
        symbol: drumline's, which native operations take.
    """

    def __init__(self, symbol: Symbol):
        self.symbol = symbol

    @property
    def dtype(self) -> Any:
        return dtypes.of_array(self.symbol.dtype)

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.symbol.shape)

    def _refuse(self) -> Any:
        raise ValueNeedsPython("the function needs the rows of a ragged tensor")

    values = splits = levels = property(_refuse)
    __repr__ = __str__ = __getitem__ = __iter__ = __len__ = _refuse  # type: ignore[assignment]


RaggedTensor.__name__ = RaggedTensor.__qualname__ = "RaggedTensor"


def kind_of(kind: Any, number: int) -> Any:
    """A number of a dtype."""
    return np.dtype(kind).type(number)


def to_values(value: Any) -> Any:
    """A tensor or a ragged one of what may be values of rows."""
    if isinstance(value, RaggedTensor):
        return value
    return value if type(value) is Tensor else Tensor(convert(value))


def rows_of(values: Any) -> int:
    """The size of the first dimension."""
    if isinstance(values, RaggedTensor):
        return len(values.splits) - 1
    return int(tuple(values.shape)[0])


def from_array(array: RaggedArray) -> RaggedTensor:
    """What users see of drumline's."""
    inner = array.values
    values = from_array(inner) if isinstance(inner, RaggedArray) else Tensor(inner)
    return RaggedTensor(values, array.row_splits)


def _nested(make: Callable[..., Any], values: Any, partitions: Any, validate: bool) -> Any:
    for partition in reversed(list(partitions)):
        values = make(values, partition, validate=validate)
    return values


def _of_lengths(dense: Tensor, nested: Any) -> RaggedTensor:
    """The dense tensor cut to the lengths of several dimensions."""
    shape: Any = tuple(dense.shape)
    counts = [np.asarray(static(convert(each)), np.int64) for each in nested]
    kept = np.arange(shape[0])
    for depth, lengths in enumerate(counts):
        steps = np.arange(int(lengths.sum())) - np.repeat(splits_of(lengths)[:-1], lengths)
        kept = np.repeat(kept, lengths) * shape[depth + 1] + steps
    inner = shape[len(counts) + 1 :]
    values = arrays.gather(arrays.reshape(dense, (-1, *inner)), kept)
    return RaggedTensor.from_nested_row_lengths(values, counts)


def _text(rows: Any) -> str:
    """Nested lists as text, floats with the digits of numpy's."""
    if isinstance(rows, list):
        return f"[{', '.join(map(_text, rows))}]"
    return repr(float(str(np.float32(rows)))) if isinstance(rows, float) else repr(rows)


def _unwrapped(value: RaggedTensor) -> Any:
    if isinstance(value, VaryingRows):
        return value.symbol
    return value.to_array()


def _of_symbol(symbol: Symbol) -> Any:
    return VaryingRows(symbol) if isinstance(symbol.spec, RaggedArraySpec) else Tensor(symbol)


def _operators() -> None:
    from drumline.compat.composite.dispatch import dispatching
    from drumline.compat.ops.linalg import matrices as linalg

    pairs: dict[str, Callable[..., Any]] = {
        "add": elementwise.add,
        "sub": elementwise.subtract,
        "mul": elementwise.multiply,
        "truediv": elementwise.truediv,
        "floordiv": elementwise.floordiv,
        "mod": elementwise.floormod,
        "pow": elementwise.power,
        "and": elementwise.bitwise_and,
        "or": elementwise.bitwise_or,
        "xor": elementwise.bitwise_xor,
        "matmul": linalg.matmul,
    }
    compared: dict[str, Callable[..., Any]] = {
        "lt": elementwise.less,
        "le": elementwise.less_equal,
        "gt": elementwise.greater,
        "ge": elementwise.greater_equal,
        "eq": elementwise.equal,
        "ne": elementwise.not_equal,
    }
    cls: Any = RaggedTensor

    def method(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
        def operate(self: Any, other: Any) -> Any:
            if other is None or isinstance(other, dict):
                return NotImplemented
            logical = function in of_bools and operator.eq(self.dtype, dtypes.bool_)
            chosen = dispatching(of_bools[function] if logical else function)
            return chosen(other, self) if swapped else chosen(self, other)

        return operate

    of_bools: dict[Any, Callable[..., Any]] = {
        elementwise.bitwise_and: elementwise.logical_and,
        elementwise.bitwise_or: elementwise.logical_or,
        elementwise.bitwise_xor: elementwise.logical_xor,
    }
    for name, function in {**pairs, **compared}.items():
        setattr(cls, f"__{name}__", method(function))
    for name, function in pairs.items():
        setattr(cls, f"__r{name}__", method(function, swapped=True))
    cls.__neg__ = lambda self: dispatching(elementwise.negative)(self)
    cls.__abs__ = lambda self: dispatching(elementwise.abs)(self)
    cls.__invert__ = lambda self: dispatching(elementwise.logical_not)(self)


_operators()


def _flattened(ragged: RaggedTensor) -> tuple[tuple[Any], Any]:
    levels = ragged.levels
    rows = tuple((x.splits.tobytes(), x.splits.dtype.name, x._uniform) for x in levels)
    return (ragged.flat_values,), rows


def _unflattened(rows: Any, values: tuple[Any]) -> Any:
    made = values[0]
    for data, kind, length in reversed(rows):
        made = RaggedTensor(made, np.frombuffer(data, kind), length)
    return made


jax.tree_util.register_pytree_node(RaggedTensor, _flattened, _unflattened)
register(RaggedArray, from_array, RaggedTensor, _unwrapped)
register(Symbol, _of_symbol, None, None)
