"""`SparseTensor`: the places and values of what is not 0, as ``tf.SparseTensor``.

Its indices and its shape are numpy's, its values a tensor; compiled functions trace the values. In
drumline's datasets it is three columns, `SparseColumns`; a batch of such has the rows of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO

from drumline.compat.ops import arrays, elementwise
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import register
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.convert import convert, is_traced
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.specs import ArraySpec, TypeSpec
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.spec import TensorSpec
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython


def known(value: Any, kind: Any = np.int64) -> np.ndarray:
    """Places or sizes as numpy's.

    Raises:
        ValueNeedsPython: they belong to a function that is being traced.
    """
    given = convert(value, None)
    if is_traced(given) or isinstance(given, Symbol):
        raise ValueNeedsPython("the function makes a SparseTensor whose places are tensors")
    return np.asarray(given).astype(kind)


class SparseTensor(CompositeTensor):
    """The values at some places of a tensor, 0 at all others, as ``tf.SparseTensor``.

    Args:
        indices: integers (n, rank), the place of each value.
        values: (n,).
        dense_shape: integers (rank,).

    Raises:
        ValueError: their shapes do not fit.
    """

    handlers: ClassVar[str] = "drumline.compat.composite.sparse_ops"
    remedy: ClassVar[str] = "use tf.sparse.to_dense, or a function of tf.sparse"
    __array_priority__ = 2000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        places, sizes = known(indices), known(dense_shape)
        held = values if type(values) is Tensor else Tensor(convert(values))
        if not places.size and places.ndim < 2:
            places = places.reshape(0, len(sizes))
        if places.ndim != 2 or sizes.ndim != 1 or held.ndim != 1:
            raise ValueError(
                f"A SparseTensor needs indices (n, rank), values (n,) and dense_shape (rank,), not "
                f"{places.shape}, {tuple(held.shape)} and {sizes.shape}"
            )
        if places.shape != (int(tuple(held.shape)[0] or 0), len(sizes)):
            raise ValueError(
                f"{places.shape} indices do not fit {held.shape} values of rank {len(sizes)}"
            )
        self.places, self.sizes, self._values = places, sizes, held

    from_value: ClassVar[Any]

    @property
    def indices(self) -> Tensor:
        """The places, int64 (n, rank)."""
        return Tensor(self.places)

    @property
    def values(self) -> Tensor:
        """The values, (n,)."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """The sizes of the dimensions, int64 (rank,)."""
        return Tensor(self.sizes)

    @property
    def shape(self) -> TensorShape:
        """The dimensions."""
        return TensorShape(self.sizes.tolist())

    def get_shape(self) -> TensorShape:
        """As `shape`."""
        return self.shape

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    def with_values(self, new_values: Any) -> SparseTensor:
        """Other values at the same places."""
        return SparseTensor(self.places, new_values, self.sizes)

    def consumers(self) -> list[Any]:
        """Nothing: there is no graph."""
        return []

    @property
    def _type_spec(self) -> SparseSpec:
        return SparseSpec(self.shape, self.dtype)

    def elementwise(self, arity: int) -> Callable[..., Any] | None:
        """What applies functions that keep 0 to the values."""
        from drumline.compat.composite.sparse_ops import of_values

        return of_values if arity == 1 else None

    def __iter__(self) -> Any:
        raise TypeError("'SparseTensor' object is not iterable; use tf.sparse.split")

    def __getitem__(self, key: Any) -> Any:
        raise TypeError("'SparseTensor' object is not subscriptable; use tf.sparse.slice")

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with(elementwise.truediv, other)

    def __mul__(self, other: Any) -> SparseTensor:
        return self._with(elementwise.multiply, other)

    __rmul__ = __mul__

    def __neg__(self) -> SparseTensor:
        return self.with_values(elementwise.negative(self._values))

    def _with(self, function: Callable[..., Any], other: Any) -> SparseTensor:
        dense = convert(other, None if hasattr(other, "dtype") else self.dtype)
        wide = arrays.broadcast_to(Tensor(dense), self.sizes)
        return self.with_values(function(self._values, arrays.gather_nd(wide, self.places)))

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self.indices}, values={self.values}, "
            f"dense_shape={self.dense_shape})"
        )


class ParsedVector(SparseTensor):
    """The values of a ``VarLenFeature`` of one record: a sparse vector without gaps.

    A map's function need not run as Python for it, as its places follow from the number of values.
    Where a function returns it to drumline, as a map does, it is the dense vector of its values.

    Args:
        values: (n,); n may be unknown.
    """

    def __init__(self, values: Tensor):
        self._values = values

    @property
    def places(self) -> np.ndarray:  # type: ignore[override]
        return np.arange(self._known_size(), dtype=np.int64)[:, None]

    @property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        return np.array([self._known_size()], np.int64)

    @property
    def shape(self) -> TensorShape:
        """The dimension."""
        return self._values.shape

    @property
    def ndim(self) -> int:
        """1."""
        return 1

    def with_values(self, new_values: Any) -> SparseTensor:
        """Other values at the same places."""
        return ParsedVector(new_values)

    def _known_size(self) -> int:
        size = tuple(self._values.shape)[0]
        if size is None:
            raise ValueNeedsPython("the function needs the places of a VarLenFeature")
        return int(size)


ParsedVector.__name__ = ParsedVector.__qualname__ = "SparseTensor"


class IndexedSlices(CompositeTensor):
    """Rows of a larger tensor, and which they are, as ``tf.IndexedSlices``.

    Args:
        values: the rows (n, ...).
        indices: the numbers of the rows, (n,).
        dense_shape: of the larger tensor.
    """

    remedy = "use tf.convert_to_tensor"
    handlers = "drumline.compat.composite.sparse_ops"

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None):
        self.values = Tensor(convert(values))
        self.indices = Tensor(convert(indices))
        self.dense_shape = None if dense_shape is None else Tensor(convert(dense_shape))

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """Of the larger tensor."""
        if self.dense_shape is None:
            return TensorShape([None, *tuple(self.values.shape)[1:]])
        return TensorShape(np.asarray(self.dense_shape).tolist())

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices}, values={self.values})"


class SparseSpec(TypeSpec):
    """What a sparse tensor is to be, as ``tf.SparseTensorSpec``.

    Args:
        shape: the dimensions, None for unknown ones.
        dtype: of the values.
    """

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32):
        self.shape = TensorShape(shape)
        self.dtype = dtypes.as_dtype(dtype)

    @property
    def value_type(self) -> type:
        """`SparseTensor`."""
        return SparseTensor

    @classmethod
    def from_value(cls, value: Any) -> SparseSpec:
        """The spec of a sparse tensor."""
        return cls(value.shape, value.dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a sparse tensor, or those of another spec, have this dtype and shape."""
        other = spec_or_value
        if not isinstance(other, (SparseSpec, SparseTensor)):
            return False
        return bool(self.dtype == other.dtype) and self.shape.is_compatible_with(other.shape)

    def most_specific_compatible_type(self, other: Any) -> SparseSpec:
        """A spec that both are instances of.

        Raises:
            ValueError: there is none.
        """
        if not isinstance(other, SparseSpec) or self.dtype != other.dtype:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        shape = ArraySpec(self.shape).most_specific_compatible_type(ArraySpec(other.shape)).shape
        return SparseSpec(shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self.shape!r}, {self.dtype!r})"


SparseSpec.__name__ = SparseSpec.__qualname__ = "SparseTensorSpec"


class SparseColumns(NamedTuple):
    """A sparse tensor in a dataset: arrays, specs, or in batches the rows of each."""

    indices: Any
    values: Any
    dense_shape: Any


setattr(SparseColumns, "is_tensor_leaf", True)  # noqa: B010 (a NamedTuple has no class attributes)


def rows_of(sparse: SparseTensor) -> SparseColumns:
    """The columns of the rows of a sparse tensor, as datasets slice them."""
    if len(sparse.sizes) < 2:
        raise ValueError("from_tensor_slices: a SparseTensor needs at least two dimensions")
    order = np.argsort(sparse.places[:, 0], kind="stable")
    count = int(sparse.sizes[0])
    lengths = np.bincount(sparse.places[:, 0], minlength=count)
    return SparseColumns(
        RaggedArray.from_row_lengths(sparse.places[order, 1:], lengths),
        RaggedArray.from_row_lengths(np.asarray(sparse.values)[order], lengths),
        np.broadcast_to(sparse.sizes[1:], (count, len(sparse.sizes) - 1)).copy(),
    )


def _to_columns(sparse: SparseTensor) -> SparseColumns:
    values: Any = sparse.values._value
    return SparseColumns(sparse.places, values, sparse.sizes)


def _to_user(columns: SparseColumns) -> Any:
    indices, values, sizes = columns
    if isinstance(values, TensorSpec):
        rank = sizes.shape[-1]
        batched = isinstance(values, RaggedTensorSpec)
        return SparseSpec([None] * (rank + batched), values.dtype)
    if any(isinstance(each, (Symbol, jax.core.Tracer)) for each in (indices, sizes)):
        raise ValueNeedsPython("the function takes a SparseTensor")
    if not isinstance(values, RaggedArray):
        return SparseTensor(indices, Tensor(values), sizes)
    shape = np.asarray(sizes).max(0) if len(sizes) else np.zeros(np.shape(sizes)[1], np.int64)
    places = np.repeat(np.arange(len(values)), values.row_lengths())
    joined = np.concatenate([places[:, None], np.asarray(indices.flat_values)], 1)
    return SparseTensor(joined, Tensor(values.flat_values), [len(values), *shape.tolist()])


def _spec_to_core(spec: SparseSpec) -> SparseColumns:
    rank = spec.shape.rank
    if rank is None:
        raise TypeError(f"{spec} has an unknown number of dimensions; give the shape with None")
    return SparseColumns(
        TensorSpec((None, rank), np.int64),
        TensorSpec((None,), spec.dtype.dtype),
        TensorSpec((rank,), np.int64),
    )


SparseTensor.from_value = staticmethod(lambda sparse_tensor_value: sparse_tensor_value)


def _flattened(sparse: SparseTensor) -> tuple[tuple[Any], Any]:
    return (sparse.values,), (sparse.places.tobytes(), sparse.places.shape, tuple(sparse.sizes))


def _unflattened(about: Any, values: tuple[Any]) -> Any:
    data, shape, sizes = about
    made = SparseTensor.__new__(SparseTensor)
    made.places = np.frombuffer(data, np.int64).reshape(shape)
    made.sizes, made._values = np.asarray(sizes, np.int64), values[0]
    return made


def to_bcoo(sparse: SparseTensor) -> BCOO:
    """A sparse array of JAX's, which Keras's layers compute with."""
    places = sparse.places
    order = np.lexsort(places.T[::-1]) if places.shape[1] else np.arange(len(places))
    return BCOO(
        (jnp.asarray(sparse.values._value), jnp.asarray(places, jnp.int32)),
        shape=tuple(sparse.sizes.tolist()),
        indices_sorted=bool((order == np.arange(len(places))).all()),
        unique_indices=len(np.unique(places, axis=0)) == len(places),
    )


def _of_bcoo(array: BCOO) -> Any:
    """A sparse tensor of JAX's sparse array; that of a traced function stays what it is."""
    if array.n_batch or array.n_dense or isinstance(array.indices, jax.core.Tracer):
        return array
    if not (array.indices_sorted and array.unique_indices):
        array = array.sum_duplicates()  # which sorts them, too, as tf.sparse asks for
    places = np.asarray(array.indices, np.int64)
    # Where there are fewer values than room for them, JAX fills it with places behind the end.
    inside = (places < np.asarray(array.shape, np.int64)).all(1)
    values = array.data if inside.all() else array.data[np.flatnonzero(inside)]
    return SparseTensor(places[inside], Tensor(values), np.asarray(array.shape, np.int64))


jax.tree_util.register_pytree_node(SparseTensor, _flattened, _unflattened)
jax.tree_util.register_pytree_node(
    ParsedVector, lambda vector: ((vector.values,), None), lambda _, held: ParsedVector(*held)
)
register(BCOO, _of_bcoo, None, None)
register(None, None, ParsedVector, lambda vector: vector.values._value)
register(SparseColumns, _to_user, SparseTensor, _to_columns)
register(None, None, SparseSpec, _spec_to_core)


def invalid(message: str) -> InvalidArgumentError:
    """An error about an argument."""
    return InvalidArgumentError(None, None, message)
