"""``tf.sparse``: functions of sparse tensors, and what functions of tensors do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.compat.composite.dispatch import handles
from drumline.compat.composite.ragged import RaggedTensor
from drumline.compat.composite.sparse import (
    IndexedSlices,
    ParsedVector,
    SparseTensor,
    invalid,
    known,
)
from drumline.compat.ops import arrays, elementwise
from drumline.compat.ops.linalg import matrices as linalg
from drumline.compat.ops.math import segments
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, static
from drumline.compat.values.tensor import Tensor

_KEEP_ZERO = (
    "abs absolute asin asinh atan atanh cast ceil expm1 floor log1p negative rint round sign "
    "sin sinh sqrt square tan tanh trunc conj conjugate real imag identity zeros_like "
    "stop_gradient lower upper strip"
)


def of_values(function: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of one tensor, element by element, of the values.

    Raises:
        TypeError: it makes something else than 0 of 0.
    """
    if function.__name__ not in _KEEP_ZERO.split():
        raise TypeError(
            f"{function.__name__} of a SparseTensor would not be sparse: use tf.sparse.map_values "
            "for its values, or tf.sparse.to_dense"
        )
    return x.with_values(function(x.values, *args, **kwargs))


def from_dense(tensor: Any, name: Any = None) -> SparseTensor:
    """The elements that are not 0, as ``tf.sparse.from_dense``."""
    dense = Tensor(convert(tensor))
    array = np.asarray(dense)
    places = np.argwhere(array != (b"" if array.dtype == object else 0))
    return SparseTensor(places, arrays.gather_nd(dense, places), array.shape)


def _flat_places(sparse: SparseTensor) -> np.ndarray:
    if not len(sparse.sizes):
        return np.zeros(len(sparse.places), np.int64)
    outside = (sparse.places < 0) | (sparse.places >= sparse.sizes)
    if outside.any():
        bad = sparse.places[outside.any(1)][0]
        raise invalid(f"indices {bad.tolist()} are out of bounds of {sparse.sizes.tolist()}")
    return np.ravel_multi_index(tuple(sparse.places.T), tuple(sparse.sizes))


def to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: Any = None
) -> Tensor:
    """A dense tensor, as ``tf.sparse.to_dense``.

    Args:
        sp_input: a `SparseTensor`; a ragged tensor, which a ``VarLenFeature`` of a batch is here.
        default_value: of the other elements; 0 by default.
        validate_indices: whether places that are not in order or twice there are refused.
        name: ignored.

    Raises:
        InvalidArgumentError: places are out of bounds, or not in order.
    """
    if isinstance(sp_input, ParsedVector):
        return sp_input.values
    if isinstance(sp_input, RaggedTensor):
        return sp_input.to_tensor(default_value)
    sparse = _checked(sp_input)
    flat = _flat_places(sparse)
    if validate_indices and (np.diff(flat) <= 0).any():
        at = int(np.flatnonzero(np.diff(flat) <= 0)[0]) + 1
        what = "is repeated" if flat[at] == flat[at - 1] else "is out of order"
        raise invalid(
            f"indices[{at}] = {sparse.places[at].tolist()} {what}. Many sparse ops require sorted "
            "indices. Use `tf.sparse.reorder` to create a correctly ordered copy."
        )
    if default_value is None:
        default_value = b"" if sparse.dtype == dtypes.string else 0
    total = int(np.prod(sparse.sizes))
    index = np.full(total, len(flat))
    index[flat] = np.arange(len(flat))
    filler = arrays.reshape(Tensor(convert(default_value, sparse.dtype)), [1])
    made = arrays.gather(arrays.concat([sparse.values, filler], 0), index)
    return arrays.reshape(made, sparse.sizes)


def _checked(value: Any) -> SparseTensor:
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


def _picked(sparse: SparseTensor, index: np.ndarray, places: Any = None, sizes: Any = None) -> Any:
    return SparseTensor(
        sparse.places[index] if places is None else places,
        arrays.gather(sparse.values, index),
        sparse.sizes if sizes is None else sizes,
    )


def reorder(sp_input: Any, name: Any = None) -> SparseTensor:
    """With the places in row-major order."""
    sparse = _checked(sp_input)
    return _picked(sparse, np.argsort(_flat_places(sparse), kind="stable"))


def reshape(sp_input: Any, shape: Any, name: Any = None) -> SparseTensor:
    """In another shape."""
    sparse, sizes = _checked(sp_input), known(shape)
    total = int(np.prod(sparse.sizes))
    if (sizes == -1).any():
        sizes = np.where(sizes == -1, total // max(1, -int(np.prod(sizes))), sizes)
    if int(np.prod(sizes)) != total:
        raise invalid(f"Cannot reshape {sparse.sizes.tolist()} to {sizes.tolist()}")
    places = np.stack(np.unravel_index(_flat_places(sparse), tuple(sizes)), -1)
    return SparseTensor(places.reshape(-1, len(sizes)), sparse.values, sizes)


def slice_(sp_input: Any, start: Any, size: Any, name: Any = None) -> SparseTensor:
    """The part that begins at a place and has a size."""
    sparse, first, extent = _checked(sp_input), known(start), known(size)
    end = np.minimum(first + extent, sparse.sizes)
    inside = ((sparse.places >= first) & (sparse.places < end)).all(1)
    index = np.flatnonzero(inside)
    sizes = np.maximum(end - first, 0)
    return _picked(sparse, index, sparse.places[index] - first, sizes)


def split(sp_input: Any = None, num_split: Any = None, axis: Any = None, name: Any = None) -> Any:
    """Parts along a dimension; the first ones are longer if it does not divide."""
    sparse, count, at = _checked(sp_input), int(static(num_split)), int(static(axis))
    at = at % len(sparse.sizes)
    length = int(sparse.sizes[at])
    small, more = divmod(length, count)
    sizes = [small + (number < more) for number in range(count)]
    made, begin = [], 0
    for each in sizes:
        first, extent = np.zeros_like(sparse.sizes), sparse.sizes.copy()
        first[at], extent[at] = begin, each
        made.append(slice_(sparse, first, extent))
        begin += each
    return made


def concat(
    axis: Any, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: Any = None
) -> SparseTensor:
    """Several joined along a dimension.

    Raises:
        InvalidArgumentError: other dimensions differ, unless ``expand_nonconcat_dims``.
    """
    held = [_checked(each) for each in sp_inputs]
    at = int(static(axis)) % len(held[0].sizes)
    shapes = np.stack([each.sizes for each in held])
    others = np.delete(shapes, at, 1)
    if not expand_nonconcat_dims and (others != others[0]).any():
        raise invalid(f"concat: shapes differ beside dimension {at}: {shapes.tolist()}")
    sizes = shapes.max(0)
    sizes[at] = shapes[:, at].sum()
    places, begin = [], 0
    for each in held:
        moved = each.places.copy()
        moved[:, at] += begin
        begin += int(each.sizes[at])
        places.append(moved)
    joined = SparseTensor(
        np.concatenate(places), arrays.concat([each.values for each in held], 0), sizes
    )
    return reorder(joined)


def expand_dims(sp_input: Any, axis: Any = None, name: Any = None) -> SparseTensor:
    """With a dimension of size 1 before another."""
    sparse = _checked(sp_input)
    at = -1 if axis is None else int(static(axis))
    at = at + len(sparse.sizes) + 1 if at < 0 else at
    return SparseTensor(
        np.insert(sparse.places, at, 0, 1), sparse.values, np.insert(sparse.sizes, at, 1)
    )


def transpose(sp_input: Any, perm: Any = None, name: Any = None) -> SparseTensor:
    """With its dimensions in another order."""
    sparse = _checked(sp_input)
    order = list(range(len(sparse.sizes)))[::-1] if perm is None else static(perm)
    return reorder(SparseTensor(sparse.places[:, order], sparse.values, sparse.sizes[order]))


def retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The values where a vector of bools is true."""
    sparse, chosen = _checked(sp_input), np.asarray(convert(to_retain)).astype(bool)
    if chosen.shape != (len(sparse.places),):
        raise ValueError(f"to_retain must have {len(sparse.places)} elements")
    return _picked(sparse, np.flatnonzero(chosen))


def fill_empty_rows(sp_input: Any, default_value: Any, name: Any = None) -> Any:
    """With a value in the first column of each row that has none, and which rows these are."""
    sparse = _checked(sp_input)
    counts = np.bincount(sparse.places[:, 0], minlength=int(sparse.sizes[0]))
    empty = np.flatnonzero(counts == 0)
    places = np.zeros((len(empty), len(sparse.sizes)), np.int64)
    places[:, 0] = empty
    filler = arrays.fill([len(empty)], Tensor(convert(default_value, sparse.dtype)))
    joined = SparseTensor(
        np.concatenate([sparse.places, places]),
        arrays.concat([sparse.values, filler], 0),
        sparse.sizes,
    )
    return reorder(joined), Tensor(counts == 0)


def reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """In a larger shape, or the smallest one that holds the values."""
    sparse = _checked(sp_input)
    if new_shape is None:
        least = sparse.places.max(0, initial=-1) + 1
        return SparseTensor(sparse.places, sparse.values, least)
    sizes = known(new_shape)
    if len(sizes) != len(sparse.sizes) or (sizes < sparse.sizes).any():
        raise ValueError(f"New shape {sizes.tolist()} must hold {sparse.sizes.tolist()}")
    return SparseTensor(sparse.places, sparse.values, sizes)


def mask(a: Any, mask_indices: Any, name: Any = None) -> Any:
    """The slices whose numbers are not masked."""
    kept = ~np.isin(np.asarray(a.indices), np.asarray(convert(mask_indices)))
    index = np.flatnonzero(kept)
    return IndexedSlices(
        arrays.gather(a.values, index), arrays.gather(a.indices, index), a.dense_shape
    )


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of the values of sparse arguments, at the same places.

    Raises:
        ValueError: no argument is sparse, places differ, or the shape of the values changes.
    """
    held = [each for each in (*args, *kwargs.values()) if isinstance(each, SparseTensor)]
    if not held:
        raise ValueError("No SparseTensor in argument list of map_values")
    first = held[0]
    for each in held[1:]:
        if not np.array_equal(each.places, first.places):
            raise invalid("tf.sparse.map_values: the places of the arguments differ")

    def flat(value: Any) -> Any:
        return value.values if isinstance(value, SparseTensor) else value

    return first.with_values(
        op(*map(flat, args), **{name: flat(value) for name, value in kwargs.items()})
    )


def add(a: Any, b: Any, threshold: Any = 0, name: Any = None) -> Any:
    """The sum: sparse if both are; values not above the threshold are left out."""
    if not isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if not isinstance(a, SparseTensor) or not isinstance(b, SparseTensor):
        sparse, dense = (a, b) if isinstance(a, SparseTensor) else (b, a)
        return arrays.tensor_scatter_nd_add(Tensor(convert(dense)), sparse.places, sparse.values)
    if not np.array_equal(a.sizes, b.sizes):
        raise invalid("Operands' shapes do not match")
    flat, inverse = np.unique(
        np.concatenate([_flat_places(a), _flat_places(b)]), return_inverse=True
    )
    both = arrays.concat([a.values, b.values], 0)
    values = segments.unsorted_segment_sum(both, inverse.ravel(), len(flat))
    places = np.stack(np.unravel_index(flat, tuple(a.sizes)), -1)
    total = SparseTensor(places, values, a.sizes)
    limit = np.asarray(convert(threshold))
    if limit == 0 and not values.is_concrete:
        return total
    return retain(total, np.abs(np.asarray(values)) > limit) if limit else total


def _combined(kind: str) -> Callable[..., SparseTensor]:
    def call(sp_a: Any, sp_b: Any, name: Any = None) -> SparseTensor:
        a, b = _checked(sp_a), _checked(sp_b)
        places = np.unique(np.concatenate([_flat_places(a), _flat_places(b)]))
        index = np.stack(np.unravel_index(places, tuple(a.sizes)), -1)
        dense = getattr(elementwise, kind)(
            to_dense(a, validate_indices=False), to_dense(b, validate_indices=False)
        )
        return SparseTensor(index, arrays.gather_nd(dense, index), a.sizes)

    call.__name__ = kind
    call.__doc__ = f"The ``{kind}`` of two sparse tensors, where one has a value."
    return call


maximum = _combined("maximum")
minimum = _combined("minimum")


def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: Any = None
) -> Tensor:
    """The product of two matrices, of which one is sparse."""
    if isinstance(b, SparseTensor):
        left = convert(sp_a)
        a_t = linalg.matrix_transpose(left, conjugate=True) if not adjoint_a else Tensor(left)
        made = sparse_dense_matmul(b, a_t, adjoint_a=not adjoint_b)
        return linalg.matrix_transpose(made, conjugate=True)
    sparse, dense = _checked(sp_a), Tensor(convert(b))
    if sparse.dtype != dense.dtype:
        raise invalid(f"sparse_dense_matmul: {sparse.dtype} and {dense.dtype} differ")
    dense = linalg.matrix_transpose(dense, conjugate=True) if adjoint_b else dense
    rows, columns = sparse.places[:, 0], sparse.places[:, 1]
    values, height, width = sparse.values, int(sparse.sizes[0]), int(sparse.sizes[1])
    if adjoint_a:
        rows, columns, height, width = columns, rows, width, height
        values = elementwise.conj(values)
    if width != tuple(dense.shape)[0]:
        raise invalid(
            f"Cannot multiply A and B because inner dimension does not match: {width} vs. "
            f"{tuple(dense.shape)[0]}. Did you forget a transpose?"
        )
    terms = elementwise.multiply(arrays.expand_dims(values, 1), arrays.gather(dense, columns))
    return segments.unsorted_segment_sum(terms, rows, height)


def _reduction(kind: str) -> Callable[..., Any]:
    def reduce(
        sp_input: Any,
        axis: Any = None,
        keepdims: bool = False,
        output_is_sparse: bool = False,
        name: Any = None,
    ) -> Any:
        sparse = _checked(sp_input)
        rank = len(sparse.sizes)
        found = static(axis)
        axes = range(rank) if found is None else np.atleast_1d(found) % rank
        left = [number for number in range(rank) if number not in set(axes)]
        shape = tuple(sparse.sizes[left]) or (1,)
        if left:
            groups = np.ravel_multi_index(tuple(sparse.places[:, left].T), shape)
        else:
            groups = np.zeros(len(sparse.places), np.int64)
        present, inverse = np.unique(groups, return_inverse=True)
        values = getattr(segments, f"unsorted_segment_{kind}")(
            sparse.values, inverse.ravel(), len(present)
        )
        places = np.stack(np.unravel_index(present, shape), -1)
        made: Any = SparseTensor(places, values, shape)
        sizes = [1 if number not in left else int(n) for number, n in enumerate(sparse.sizes)]
        final = sizes if keepdims else list(sparse.sizes[left])
        if output_is_sparse:
            return reshape(made, final)
        return arrays.reshape(to_dense(made), [int(n) for n in final])

    reduce.__name__ = f"reduce_{kind}"
    reduce.__doc__ = f"The ``{kind}`` of the values over dimensions; of all by default."
    return reduce


reduce_sum = _reduction("sum")
reduce_max = _reduction("max")


def softmax(sp_input: Any, name: Any = None) -> SparseTensor:
    """The softmax of the values of each row of the last dimension."""
    sparse = _checked(sp_input)
    rows = _flat_places(sparse) // max(1, int(sparse.sizes[-1]))
    _, inverse = np.unique(rows, return_inverse=True)
    count = int(inverse.max(initial=-1)) + 1
    inverse = inverse.ravel()
    greatest = arrays.gather(segments.unsorted_segment_max(sparse.values, inverse, count), inverse)
    powers = elementwise.exp(elementwise.subtract(sparse.values, greatest))
    total = arrays.gather(segments.unsorted_segment_sum(powers, inverse, count), inverse)
    return sparse.with_values(elementwise.truediv(powers, total))


def eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: Any = None
) -> SparseTensor:
    """The identity matrix."""
    rows = int(static(num_rows))
    columns = rows if num_columns is None else int(static(num_columns))
    steps = np.arange(min(rows, columns))
    return SparseTensor(
        np.stack([steps, steps], 1), arrays.ones([len(steps)], dtype), [rows, columns]
    )


def to_indicator(sp_input: Any, vocab_size: Any, name: Any = None) -> Tensor:
    """Whether each number is among the values of a row of the last dimension."""
    sparse, size = _checked(sp_input), int(static(vocab_size))
    numbers = np.asarray(sparse.values).astype(np.int64)
    if ((numbers < 0) | (numbers >= size)).any():
        raise invalid(f"to_indicator: values must be from 0 to {size}")
    made = np.zeros((*sparse.sizes[:-1], size), bool)
    made[(*sparse.places[:, :-1].T, numbers)] = True
    return Tensor(made)


def segment_(kind: str) -> Callable[..., Any]:
    """A reduction of rows that are picked by number, of each segment."""

    def call(
        data: Any,
        indices: Any,
        segment_ids: Any,
        num_segments: Any = None,
        name: Any = None,
        **_: Any,
    ) -> Any:
        rows, ids = arrays.gather(Tensor(convert(data)), indices), known(segment_ids)
        count = int(ids[-1]) + 1 if len(ids) else 0
        count = count if num_segments is None else int(static(num_segments))
        if kind != "sqrt_n":
            return getattr(segments, f"unsorted_segment_{kind}")(rows, ids, count)
        sizes = np.maximum(np.bincount(ids, minlength=count), 1)
        total = segments.unsorted_segment_sum(rows, ids, count)
        roots = np.sqrt(sizes).reshape(-1, *(1,) * (total.ndim - 1))
        return elementwise.truediv(total, Tensor(roots.astype(total.dtype.dtype)))

    call.__name__ = f"segment_{kind}"
    call.__doc__ = f"The ``{kind}`` of picked rows of each segment."
    return call


segment_sum, segment_mean, segment_sqrt_n = map(segment_, ("sum", "mean", "sqrt_n"))


@handles(SparseTensor, "shape")
def _shape(input: Any, out_type: Any = None, name: Any = None) -> Tensor:
    kind = np.int32 if out_type is None else dtypes.as_dtype(out_type).dtype
    return Tensor(input.sizes.astype(kind))


@handles(SparseTensor, "size")
def _size(input: Any, out_type: Any = dtypes.int32, name: Any = None) -> Tensor:
    return Tensor(np.asarray(np.prod(input.sizes), dtypes.as_dtype(out_type or "int32").dtype))


@handles(SparseTensor, "rank")
def _rank(input: Any, name: Any = None) -> Tensor:
    return Tensor(np.asarray(len(input.sizes), np.int32))


@handles(SparseTensor, "is_tensor")
def _is_tensor(x: Any) -> bool:
    return True


handles(SparseTensor, "expand_dims")(lambda input, axis, name=None: expand_dims(input, axis))
handles(SparseTensor, "reshape")(lambda tensor, shape, name=None: reshape(tensor, shape))
handles(SparseTensor, "transpose")(lambda a, perm=None, **_: transpose(a, perm))


@handles(SparseTensor, "concat")
def _concat(values: Any, axis: Any, name: Any = None) -> Any:
    return concat(axis, values)


@handles(SparseTensor, "reduce_sum")
def _reduce_sum(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    return reduce_sum(input_tensor, axis, keepdims)


@handles(SparseTensor, "reduce_max")
def _reduce_max(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    return reduce_max(input_tensor, axis, keepdims)


@handles(SparseTensor, "matmul")
def _matmul(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        b = to_dense(b)
    return sparse_dense_matmul(a, b, *args, **kwargs)


@handles(SparseTensor, "embedding_lookup")
def _embedding_lookup(*_: Any, **__: Any) -> Any:
    raise TypeError("embedding_lookup takes no SparseTensor; use tf.nn.embedding_lookup_sparse")


@handles(IndexedSlices, "convert_to_tensor identity")
def _dense(value: Any, *_: Any, **__: Any) -> Any:
    if value.dense_shape is None:
        raise ValueError("Tensor conversion of IndexedSlices needs a dense_shape")
    return segments.unsorted_segment_sum(
        value.values, value.indices, int(np.asarray(value.dense_shape)[0])
    )
