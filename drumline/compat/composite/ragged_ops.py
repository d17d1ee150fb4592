"""What functions of tensors do with ragged ones: elementwise, reductions, rearranging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from drumline.compat.composite.dispatch import dispatching, handles
from drumline.compat.composite.ragged import RaggedTensor, invalid, rows_of, to_values
from drumline.compat.composite.ragged_index import indexed, take_rows
from drumline.compat.ops import arrays, elementwise
from drumline.compat.ops.math import reductions, segments
from drumline.compat.ops.nn import functions as nn
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, static
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import splits_of


def of_values(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of one tensor, element by element, of the innermost values."""
    if args:
        first, rest = args[0], args[1:]
    else:
        name = next(key for key, value in kwargs.items() if isinstance(value, RaggedTensor))
        first, rest = kwargs.pop(name), ()
    return first.with_flat_values(function(first.flat_values, *rest, **kwargs))


def of_two(function: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of two tensors, element by element, with broadcasting."""
    (a, b), rebuilt = broadcast(x, y)
    return rebuilt(function(a, b, *args, **kwargs))


def _same_rows(x: RaggedTensor, y: RaggedTensor) -> bool:
    if x.has_rows_of(y):
        return tuple(x.flat_values.shape)[1:] == tuple(y.flat_values.shape)[1:]
    a, b = x.levels, y.levels
    inner = tuple(x.flat_values.shape)[1:] == tuple(y.flat_values.shape)[1:]
    return (
        inner
        and len(a) == len(b)
        and all(np.array_equal(i.splits, j.splits) for i, j in zip(a, b, strict=True))
    )


def broadcast(*operands: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """Operands as tensors of one shape, and what makes ragged rows of a result of this shape.

    Raises:
        InvalidArgumentError: lengths of rows differ, and none is 1.
    """
    ragged = [each for each in operands if isinstance(each, RaggedTensor)]
    first = ragged[0]
    others = [each for each in operands if not isinstance(each, RaggedTensor)]
    scalars = all(np.ndim(convert(each)) == 0 for each in others)
    if scalars and all(_same_rows(first, each) for each in ragged):
        flat = [each.flat_values if isinstance(each, RaggedTensor) else each for each in operands]
        return flat, first.with_flat_values
    kind = first.flat_values.dtype
    held = [each if isinstance(each, RaggedTensor) else _operand(each, kind) for each in operands]
    depth = max(each.ndim for each in held)
    shaped = [_Rows(each, depth) for each in held]
    lengths = _broadcast_rows(shaped)
    partitioned = 0
    for each in held:
        if isinstance(each, RaggedTensor):
            partitioned = max(partitioned, depth - each.ndim + each.ragged_rank)

    def rebuilt(values: Any) -> Any:
        inner = [
            int(lengths[k][0]) if len(lengths[k]) else 0 for k in range(partitioned + 1, depth)
        ]
        made: Any = arrays.reshape(values, [-1 if all(inner) else 0, *inner])
        if inner and not all(inner):
            made = arrays.reshape(values, [int(np.sum(lengths[partitioned])), *inner])
        for level in range(partitioned, 0, -1):
            splits = splits_of(lengths[level]).astype(first.splits.dtype)
            made = RaggedTensor(made, splits)
        return made

    return [each.values() for each in shaped], rebuilt


def _operand(value: Any, kind: Any) -> Tensor:
    fixed = type(value) is Tensor or hasattr(value, "dtype")
    return value if type(value) is Tensor else Tensor(convert(value, None if fixed else kind))


class _Rows:
    """An operand with every dimension as rows of given lengths, and which scalar is where."""

    def __init__(self, value: Any, depth: int):
        levels = value.levels if isinstance(value, RaggedTensor) else []
        flat = value.flat_values if isinstance(value, RaggedTensor) else value
        shape = tuple(flat.shape)
        lead = depth - value.ndim
        rows = len(value) if levels else (shape[0] if shape else 1)
        self.lengths = [np.ones(1, np.int64) for _ in range(lead)]
        if value.ndim:
            self.lengths.append(np.array([rows]))
        self.lengths += [level.lengths for level in levels]
        count = shape[0] if shape else 1
        for size in shape[1:]:
            self.lengths.append(np.full(count, size))
            count *= size
        self.flat = flat
        self.index = np.zeros(1, np.int64)

    def values(self) -> Any:
        return arrays.gather(arrays.reshape(self.flat, [-1]), self.index)


def _broadcast_rows(operands: list[_Rows]) -> list[np.ndarray]:
    found = []
    for level in range(len(operands[0].lengths)):
        each = [operand.lengths[level][operand.index] for operand in operands]
        out = each[0]
        for lengths in each[1:]:
            if not np.all((out == lengths) | (out == 1) | (lengths == 1)):
                raise invalid(f"Unable to broadcast: dimension size mismatch in dimension {level}")
            out = np.where(out == 1, lengths, out)
        steps = np.arange(int(out.sum())) - np.repeat(splits_of(out)[:-1], out)
        for operand, lengths in zip(operands, each, strict=True):
            starts = splits_of(operand.lengths[level])[:-1][operand.index]
            inner = np.where(np.repeat(lengths, out) == 1, 0, steps)
            operand.index = np.repeat(starts, out) + inner
        found.append(out)
    return found


# Reductions.


class RaggedReduction(NamedTuple):
    """How to reduce dense tensors.

    Attributes:
        dense: of a tensor, the dimension and whether to keep it.
        segments: of a tensor, the number of the segment of each row, and how many there are.
    """

    dense: Callable[..., Any]
    segments: Callable[..., Any]


def _named(kind: str) -> RaggedReduction:
    return RaggedReduction(
        getattr(reductions, f"reduce_{kind}"), getattr(segments, f"unsorted_segment_{kind}")
    )


def _segments(kind: RaggedReduction, data: Any, ids: np.ndarray, count: int) -> Any:
    """A reduction of the rows of each segment; of ragged rows element by element."""
    if not isinstance(data, RaggedTensor):
        return kind.segments(data, ids, count)
    lengths = np.zeros(count, np.int64)
    np.maximum.at(lengths, ids, data.lengths)
    splits = splits_of(lengths)
    steps = np.arange(int(data.splits[-1])) - np.repeat(data.splits[:-1], data.lengths)
    inner = np.repeat(splits[:-1][ids], data.lengths) + steps
    made = _segments(kind, data.values, inner, int(splits[-1]))
    return RaggedTensor(made, splits.astype(data.splits.dtype))


def _reduced(kind: RaggedReduction, ragged: Any, axis: int, keepdims: bool) -> Any:
    if not isinstance(ragged, RaggedTensor):
        return kind.dense(ragged, axis, keepdims)
    if axis == 0:
        ids = np.arange(int(ragged.splits[-1])) - np.repeat(ragged.splits[:-1], ragged.lengths)
        made = _segments(kind, ragged.values, ids, int(ragged.lengths.max(initial=0)))
        return expand_dims(made, 0) if keepdims else made
    if axis == 1:
        ids = np.repeat(np.arange(len(ragged)), ragged.lengths)
        made = _segments(kind, ragged.values, ids, len(ragged))
        return expand_dims(made, 1) if keepdims else made
    return ragged.with_values(_reduced(kind, ragged.values, axis - 1, keepdims))


def _axes(axis: Any, rank: int) -> list[int]:
    found = static(axis)
    given = found if isinstance(found, list) else [found]
    if any(not -rank <= each < rank for each in given):
        raise ValueError(f"axis {found} is not one of {rank} dimensions")
    return sorted({each % rank for each in given}, reverse=True)


def _of_all(dense: Callable[..., Any], ragged: RaggedTensor, keepdims: bool) -> Any:
    """A reduction over all dimensions, which are kept as TensorFlow keeps them."""
    made = dense(ragged.flat_values, None, keepdims)
    for _ in range(ragged.ndim - 1 if keepdims else 0):
        made = arrays.expand_dims(made, 0)
    return made


def reducing(kind: RaggedReduction) -> Callable[..., Any]:
    """The function that reduces dimensions of a ragged tensor, inner ones first."""

    def reduce(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None, **_: Any
    ) -> Any:
        if axis is None:
            return _of_all(kind.dense, input_tensor, keepdims)
        made = input_tensor
        for each in _axes(axis, input_tensor.ndim):
            made = _reduced(kind, made, each, keepdims)
        return made

    return reduce


for _kind in ("sum", "prod", "max", "min"):
    handles(RaggedTensor, f"reduce_{_kind}")(reducing(_named(_kind)))
_sum, _max = reducing(_named("sum")), reducing(_named("max"))


@handles(RaggedTensor, "reduce_mean")
def reduce_mean(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    """The mean over dimensions; of rows without elements NaN."""
    ones = of_values(arrays.ones_like, input_tensor)
    total, count = _sum(input_tensor, axis, keepdims), _sum(ones, axis, keepdims)
    return dispatching(elementwise.truediv)(total, count)


@handles(RaggedTensor, "reduce_variance")
def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    """The variance over dimensions."""
    if axis is None:
        return _of_all(reductions.reduce_variance, input_tensor, keepdims)
    squares = of_values(elementwise.square, input_tensor)
    mean = reduce_mean(input_tensor, axis, keepdims)
    return reduce_mean(squares, axis, keepdims) - mean * mean


@handles(RaggedTensor, "reduce_std")
def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    """The standard deviation over dimensions."""
    return dispatching(elementwise.sqrt)(reduce_variance(input_tensor, axis, keepdims))


def _logical(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def call(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
        numbers = of_values(elementwise.cast, input_tensor, dtypes.int32)
        made = reduce(numbers, axis, keepdims)
        return dispatching(elementwise.cast)(made, dtypes.bool_)

    return call


def _all(numbers: Any, axis: Any, keepdims: bool) -> Any:
    return reducing(_named("prod"))(numbers, axis, keepdims)


handles(RaggedTensor, "reduce_all")(_logical(_all))
handles(RaggedTensor, "reduce_any")(_logical(_sum))


@handles(RaggedTensor, "argmax argmin")
def _arg(*_: Any, **__: Any) -> Any:
    raise ValueError("argmax and argmin take no RaggedTensor; use its to_tensor(default_value)")


# Rearranging.


@handles(RaggedTensor, "expand_dims")
def expand_dims(input: Any, axis: Any, name: Any = None) -> Any:
    """A dimension of one row, or of rows of one element, before a dimension."""
    if not isinstance(input, RaggedTensor):
        return arrays.expand_dims(input, axis)
    at = static(axis)
    at = at + input.ndim + 1 if at < 0 else at
    if at == 0:
        return indexed(input, [None])
    if at == 1:
        ones = np.arange(len(input) + 1, dtype=input.splits.dtype)
        return RaggedTensor(input, ones, 1)
    return input.with_values(expand_dims(input.values, at - 1))


@handles(RaggedTensor, "squeeze")
def squeeze(input: Any, axis: Any = None, name: Any = None) -> Any:
    """Without dimensions of size 1.

    Raises:
        ValueError: no dimension is named.
    """
    if axis is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    made = input
    for each in _axes(axis, input.ndim):
        made = _squeezed(made, each)
    return made


def _squeezed(value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return arrays.squeeze(value, [axis])
    if axis == 0:
        if len(value) != 1:
            raise invalid(f"squeeze: the first dimension is {len(value)}")
        return value.values
    if axis == 1:
        if (value.lengths != 1).any():
            raise invalid("squeeze: rows have other lengths than 1")
        return value.values
    return value.with_values(_squeezed(value.values, axis - 1))


def as_ragged(value: Any) -> RaggedTensor:
    """A tensor of two or more dimensions as a ragged one of uniform rows."""
    if isinstance(value, RaggedTensor):
        return value
    dense = to_values(value)
    return RaggedTensor.from_tensor(dense)


@handles(RaggedTensor, "concat")
def concat(values: Any, axis: Any, name: Any = "concat") -> Any:
    """Tensors joined along a dimension, which may be a ragged one."""
    given = [to_values(each) for each in values]
    if len({each.ndim for each in given}) > 1:
        raise ValueError("concat: tensors must have the same number of dimensions")
    at = static(axis)
    at = at + given[0].ndim if at < 0 else at
    return _joined(given, at)


def _joined(values: list[Any], axis: int) -> Any:
    if not any(isinstance(each, RaggedTensor) for each in values):
        return arrays.concat(values, axis)
    rows = [as_ragged(each) for each in values]
    kind = np.result_type(*(each.splits.dtype for each in rows))
    if axis == 0:
        splits = splits_of(np.concatenate([each.lengths for each in rows])).astype(kind)
        return RaggedTensor.from_row_splits(_joined([each.values for each in rows], 0), splits)
    if len({len(each) for each in rows}) > 1:
        raise invalid("concat: the numbers of rows differ")
    if axis == 1:
        count = len(rows[0])
        together = _joined(rows, 0)
        order = np.arange(count * len(rows)).reshape(len(rows), count).T.ravel()
        ordered = take_rows(together, order)
        lengths = np.sum([each.lengths for each in rows], 0)
        return RaggedTensor(ordered.values, splits_of(lengths).astype(kind))
    if any(not np.array_equal(each.splits, rows[0].splits) for each in rows):
        raise invalid("concat: inputs must have identical ragged splits")
    return rows[0].with_values(_joined([each.values for each in rows], axis - 1))


@handles(RaggedTensor, "stack")
def stack(values: Any, axis: Any = 0, name: Any = "stack") -> Any:
    """Tensors as the rows of a new dimension."""
    given = [to_values(each) for each in values]
    at = static(axis)
    at = at + given[0].ndim + 1 if at < 0 else at
    if at == 0:
        sizes = [rows_of(each) for each in given]
        kind = next(x.splits.dtype for x in given if isinstance(x, RaggedTensor))
        return RaggedTensor.from_row_lengths(concat(given, 0), np.asarray(sizes, kind))
    return concat([expand_dims(each, at) for each in given], at)


@handles(RaggedTensor, "tile")
def tile(input: Any, multiples: Any, name: Any = None) -> Any:
    """The rows repeated along each dimension."""
    counts = static(multiples)
    made: Any = input
    if not isinstance(made, RaggedTensor):
        return arrays.tile(made, counts)
    inner = tile(made.values, [1, *counts[2:]])
    made = made.with_values(inner) if any(each != 1 for each in counts[2:]) else made
    if counts[1] != 1:
        made = concat([made] * counts[1], 1) if counts[1] else made[:, :0]
    return take_rows(made, np.tile(np.arange(len(made)), counts[0]))


@handles(RaggedTensor, "reverse")
def reverse(tensor: Any, axis: Any, name: Any = None) -> Any:
    """Dimensions in reverse order."""
    made = tensor
    for each in _axes(axis, tensor.ndim):
        made = made[(*[slice(None)] * each, slice(None, None, -1))]
    return made


@handles(RaggedTensor, "gather")
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: Any = None,
) -> Any:
    """Rows by number; numbers in ragged rows give ragged rows."""
    batch, at = int(static(batch_dims)), static(axis)
    at = batch if at is None else at
    if batch:
        return _gathered_of_batch(params, indices, at, batch)
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(gather(params, indices.flat_values, axis=at))
    if not isinstance(params, RaggedTensor):
        return arrays.gather(params, indices, axis=at)
    at = at + params.ndim if at < 0 else at
    index = np.asarray(convert(indices))
    if at > 1:
        return params.with_values(gather(params.values, indices, axis=at - 1))
    if at == 1:
        rows = np.broadcast_to(index, (len(params), *index.shape))
        return _gathered_of_batch(params, Tensor(rows), 1, 1)
    if index.size and (index.min() < 0 or index.max() >= len(params)):
        raise invalid(f"indices are not in [0, {len(params)})")
    if index.ndim == 0:
        return params[int(index)]
    made = take_rows(params, index.ravel().astype(np.int64))
    for size in index.shape[:0:-1]:
        made = RaggedTensor.from_uniform_row_length(made, size)
    return made


def _gathered_of_batch(params: Any, indices: Any, axis: int, batch: int) -> Any:
    if batch > 1:
        rows, picked = as_ragged(params), as_ragged(indices)
        return rows.with_values(_gathered_of_batch(rows.values, picked.values, axis - 1, batch - 1))
    if axis != 1:
        raise ValueError("gather: with ragged tensors, axis must be batch_dims")
    rows = as_ragged(params)
    numbers = to_values(indices)
    if rows_of(numbers) != len(rows):
        raise invalid("gather: the batch dimensions differ")
    if isinstance(numbers, RaggedTensor):
        owners = np.arange(len(rows))
        for level in numbers.levels:
            owners = np.repeat(owners, level.lengths)
        flat = np.asarray(numbers.flat_values)
        _check_rows(flat, rows.lengths[owners])
        return numbers.with_flat_values(gather(rows.values, rows.splits[owners] + flat))
    array = np.asarray(numbers)
    shape = (-1, *(1,) * (array.ndim - 1))
    _check_rows(array, rows.lengths.reshape(shape))
    return gather(rows.values, Tensor(rows.splits[:-1].reshape(shape) + array))


def _check_rows(index: np.ndarray, lengths: np.ndarray) -> None:
    if ((index < 0) | (index >= lengths)).any():
        raise invalid("gather: an index is not in its row")


@handles(RaggedTensor, "gather_nd")
def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: Any = None) -> Any:
    """Elements and rows by the numbers of their dimensions."""
    index = np.asarray(convert(indices))
    rows = [params[tuple(each)] for each in index.reshape(-1, index.shape[-1]).tolist()]
    if batch_dims or not rows:
        raise ValueError("gather_nd of a RaggedTensor takes no batch_dims, and some indices")
    made = stack(rows) if isinstance(rows[0], RaggedTensor) else stack_rows(rows)
    for size in index.shape[:0:-1][1:]:
        made = RaggedTensor.from_uniform_row_length(made, size)
    return made


def stack_rows(rows: list[Any]) -> Any:
    """Dense rows, of differing lengths or not, as one tensor."""
    if not rows[0].ndim:
        return arrays.stack(rows)
    lengths = [int(tuple(row.shape)[0]) for row in rows]
    return RaggedTensor.from_row_lengths(arrays.concat(rows, 0), np.asarray(lengths, np.int64))


@handles(RaggedTensor, "boolean_mask")
def boolean_mask(
    tensor: Any = None, mask: Any = None, axis: Any = None, name: Any = None, **_: Any
) -> Any:
    """Elements or rows where a mask is true, in rows like those of the mask."""
    data = to_values(tensor)
    wanted = to_values(mask)
    if isinstance(wanted, RaggedTensor) or (isinstance(data, RaggedTensor) and wanted.ndim > 1):
        rows, kept = as_ragged(data), as_ragged(wanted)
        if not np.array_equal(rows.splits, kept.splits):
            raise invalid("boolean_mask: the rows of data and mask differ in length")
        inner = kept.values
        if isinstance(inner, RaggedTensor) or inner.ndim > 1:
            return rows.with_values(boolean_mask(rows.values, inner))
        picked = np.asarray(inner).astype(bool)
        before = splits_of(picked.astype(np.int64))
        splits = before[rows.splits].astype(rows.splits.dtype)
        return RaggedTensor(take_rows(rows.values, np.flatnonzero(picked)), splits)
    if not isinstance(data, RaggedTensor) and wanted.ndim > 1:
        counts = np.asarray(wanted).astype(bool)
        inner = as_ragged(data).values if wanted.ndim > 2 else None
        if inner is None:
            lengths = counts.sum(1)
            return RaggedTensor.from_row_lengths(arrays.boolean_mask(data, wanted), lengths)
        rows = as_ragged(data)
        return rows.with_values(boolean_mask(inner, as_ragged(wanted).values))
    return take_rows(data, np.flatnonzero(np.asarray(wanted)))


@handles(RaggedTensor, "where")
def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Elements of one of two where a condition is true; or where it is true."""
    if x is None and y is None:
        place = np.nonzero(np.asarray(condition.flat_values))[0]
        sparse = np.asarray(condition.to_sparse().indices)
        return Tensor(sparse[place])
    values, rebuilt = broadcast(condition, x, y)
    return rebuilt(arrays.where(*values))


@handles(RaggedTensor, "size")
def size(input: Any, out_type: Any = dtypes.int32, name: Any = None) -> Tensor:
    """The number of elements."""
    return arrays.size(input.flat_values, out_type or dtypes.int32)


@handles(RaggedTensor, "rank")
def rank(input: Any, name: Any = None) -> Tensor:
    """The number of dimensions."""
    return Tensor(np.asarray(input.ndim, np.int32))


@handles(RaggedTensor, "is_tensor")
def is_tensor(x: Any) -> bool:
    """True."""
    return True


@handles(RaggedTensor, "get_static_value")
def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """None: only dense tensors have one."""
    return None


@handles(RaggedTensor, "convert_to_tensor")
def convert_to_tensor(value: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused, as in TensorFlow.

    Raises:
        TypeError: always.
    """
    raise TypeError("A RaggedTensor is no dense tensor: use its to_tensor()")


@handles(RaggedTensor, "ensure_shape")
def ensure_shape(x: Any, shape: Any, name: Any = None) -> Any:
    """The tensor, whose shape is checked."""
    TensorShape(shape).assert_is_compatible_with(x.shape)
    return x


@handles(RaggedTensor, "reshape")
def reshape(tensor: Any, shape: Any, name: Any = None) -> Any:
    """Other rows of the same values.

    Raises:
        ValueError: rows of the shape would be ragged.
    """
    sizes = static(shape)
    if any(size is None for size in sizes):
        raise ValueError("reshape: give the sizes of dimensions, of which one may be -1")
    return arrays.reshape(tensor.flat_values, sizes)


@handles(RaggedTensor, "add_n")
def add_n(inputs: Any, name: Any = None) -> Any:
    """The sum of several."""
    total, *others = inputs
    for each in others:
        total = total + each
    return total


@handles(RaggedTensor, "one_hot")
def one_hot(indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Vectors with one 1, of the innermost values."""
    return indices.with_flat_values(arrays.one_hot(indices.flat_values, *args, **kwargs))


@handles(RaggedTensor, "embedding_lookup")
def embedding_lookup(params: Any, ids: Any, *args: Any, **kwargs: Any) -> Any:
    """Rows of a table, for the innermost values."""
    return ids.with_flat_values(nn.embedding_lookup(params, ids.flat_values, *args, **kwargs))


@handles(RaggedTensor, "softmax")
def softmax(logits: Any, axis: Any = -1, name: Any = None) -> Any:
    """The softmax over the last dimension, a ragged one or not."""
    at = _axes(-1 if axis is None else axis, logits.ndim)[0]
    if at != logits.ndim - 1:
        raise ValueError("softmax of a RaggedTensor: axis must be the last")
    powers = dispatching(elementwise.exp)(logits - _max(logits, at, True))
    return powers / _sum(powers, at, True)


@handles(RaggedTensor, "map_structure")
def _map_structure(func: Any, *structure: Any, expand_composites: bool = False, **_: Any) -> Any:
    return func(*structure)


@handles(RaggedTensor, "matmul")
def matmul(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """The products of the matrices of each row."""
    from drumline.compat.ops.linalg import matrices as linalg

    if not isinstance(b, RaggedTensor) and a.ragged_rank < a.ndim - 1 + 0:
        return a.with_flat_values(linalg.matmul(a.flat_values, b, *args, **kwargs))
    left, right = as_ragged(a), as_ragged(b)
    rows = [
        linalg.matmul(_dense(x), _dense(y), *args, **kwargs)
        for x, y in zip(left, right, strict=True)
    ]
    made = [RaggedTensor.from_tensor(row) for row in rows]
    return stack(made)


def _dense(value: Any) -> Any:
    return value.to_tensor() if isinstance(value, RaggedTensor) else value
