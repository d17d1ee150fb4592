"""``tf.ragged``: making ragged tensors, and functions of them alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.compat.composite import ragged_ops
from drumline.compat.composite.ragged import RaggedTensor, as_splits, invalid
from drumline.compat.composite.ragged_index import take_rows
from drumline.compat.ops import arrays
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, static
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import splits_of


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: Any = None,
    inner_shape: Any = None,
    name: Any = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """A ragged tensor of nested lists, as ``tf.ragged.constant``.

    Args:
        pylist: nested lists, whose scalars are all at one depth.
        dtype: of the values.
        ragged_rank: how many dimensions are ragged; all but the first by default.
        inner_shape: of the values of each innermost row.
        name: ignored.
        row_splits_dtype: int32 or int64.

    Returns:
        A `RaggedTensor`; a tensor if the lists are not nested.

    Raises:
        ValueError: scalars are at different depths, or the ranks do not fit.
    """
    kind = dtypes.as_dtype(row_splits_dtype)
    if not isinstance(pylist, (list, tuple, np.ndarray)):
        if ragged_rank or inner_shape:
            raise ValueError("Invalid pylist: a scalar has no ragged_rank and no inner_shape")
        return Tensor(convert(pylist, dtype))
    depth, deepest = _scalar_depth(pylist), _deepest(pylist)
    if depth is not None and deepest > depth:
        raise ValueError("Invalid pylist: empty list nesting is greater than scalar value nesting")
    rank = deepest if depth is None else depth
    shape = () if inner_shape is None else tuple(static(list(inner_shape)))
    if inner_shape is not None and ragged_rank is None:
        ragged_rank = rank - 1 - len(shape)
    if ragged_rank is None:
        ragged_rank = rank - 1
    if ragged_rank >= rank and not (rank == 1 and ragged_rank == 0):
        raise ValueError(f"Invalid pylist: nested depth {rank} < ragged_rank {ragged_rank}")
    values, splits = list(pylist), []
    for _ in range(ragged_rank):
        rows = [list(row) for row in values]
        splits.append(splits_of(np.array([len(row) for row in rows], np.int64)))
        values = list(itertools.chain.from_iterable(rows))
    inner = rank - ragged_rank - 1
    flat = _flat(values, dtype, shape if inner_shape is not None else _inner_shape(values, inner))
    return RaggedTensor.from_nested_row_splits(flat, [each.astype(kind.dtype) for each in splits])


def _flat(values: list[Any], dtype: Any, shape: tuple[int, ...]) -> Tensor:
    if values:
        return Tensor(convert(values, dtype))
    made = np.empty((0, *shape), dtypes.as_dtype(dtype or dtypes.float32).dtype)
    return Tensor(made)


def _inner_shape(values: list[Any], depth: int) -> tuple[int, ...]:
    return tuple(np.shape(values)[1:]) if values else (0,) * depth


def _scalar_depth(value: Any) -> int | None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim
    if not isinstance(value, (list, tuple, np.ndarray)):
        return int(np.ndim(value))
    depths = {_scalar_depth(each) for each in value} - {None}
    if len(depths) > 1:
        raise ValueError("all scalar values must have the same nesting depth")
    return next((each + 1 for each in depths if each is not None), None)


def _deepest(value: Any) -> int:
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0
    return 1 + max(map(_deepest, value), default=0)


def range_(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: Any = None,
    row_splits_dtype: Any = dtypes.int64,
) -> RaggedTensor:
    """Rows of numbers from starts to limits, as ``tf.ragged.range``.

    Raises:
        InvalidArgumentError: a delta is 0.
    """
    if limits is None:
        starts, limits = 0, starts
    wanted = None if dtype is None else dtypes.as_dtype(dtype).dtype
    given = [np.asarray(convert(each)) for each in (starts, limits, deltas)]
    kind = wanted or np.result_type(*(each.dtype for each in given))
    begin, end, step = np.broadcast_arrays(*(np.atleast_1d(each) for each in given))
    if not step.all():
        raise invalid("Requires delta != 0")
    spans = (end.astype(np.float64) - begin) / step
    if kind.kind in "iu":
        spans = -((end.astype(np.int64) - begin) // -step.astype(np.int64))
    counts = np.maximum(np.ceil(spans), 0).astype(np.int64)
    splits = splits_of(counts)
    steps = np.arange(splits[-1]) - np.repeat(splits[:-1], counts)
    values = np.repeat(begin, counts) + steps * np.repeat(step, counts)
    return RaggedTensor(
        Tensor(values.astype(kind)), splits.astype(dtypes.as_dtype(row_splits_dtype).dtype)
    )


def boolean_mask(data: Any, mask: Any, name: Any = None) -> Any:
    """Elements where a mask is true, in the rows of the mask."""
    given = mask
    if isinstance(mask, (list, tuple)):
        given = constant(mask) if _ragged_list(mask) else mask
    if isinstance(data, (list, tuple)) and _ragged_list(data):
        data = constant(data)
    return ragged_ops.boolean_mask(data, given)


def _ragged_list(value: Any) -> bool:
    try:
        np.array(value)
    except ValueError:
        return True
    return False


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of the innermost values of ragged arguments, in the same rows.

    Raises:
        ValueError: the rows of ragged arguments differ, or values of another number come out.
    """
    ragged = [
        each
        for value in (*args, *kwargs.values())
        for each in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(each, RaggedTensor)
    ]
    if not ragged:
        return op(*args, **kwargs)
    splits = [[level.splits for level in each.levels] for each in ragged]
    for each in splits[1:]:
        same = len(each) == len(splits[0]) and all(map(np.array_equal, each, splits[0]))
        if not same:
            raise invalid("Inputs must have identical ragged splits")

    def flat(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(flat, value))
        return value.flat_values if isinstance(value, RaggedTensor) else value

    made = op(*map(flat, args), **{name: flat(value) for name, value in kwargs.items()})
    shape = tuple(getattr(made, "shape", ()))
    if not shape or shape[0] != rows(ragged[0]):
        raise ValueError(
            "tf.ragged.map_flat_values requires that the output of `op` have the "
            "same outer-dimension size as flat_values of any ragged inputs"
        )
    return ragged[0].with_flat_values(made)


def rows(ragged: RaggedTensor) -> int:
    """The number of innermost values."""
    shape: Any = tuple(ragged.flat_values.shape)
    return int(shape[0])


def stack(values: Any, axis: Any = 0, name: Any = None) -> Any:
    """Tensors of differing lengths as the rows of a ragged one."""
    given = [each if isinstance(each, RaggedTensor) else Tensor(convert(each)) for each in values]
    if any(isinstance(each, RaggedTensor) for each in given) or static(axis) != 0:
        made = given
        if not any(isinstance(each, RaggedTensor) for each in given):
            made = [ragged_ops.as_ragged(each) if each.ndim > 1 else each for each in given]
        return ragged_ops.stack(made, axis)
    if not given[0].ndim:
        return arrays.stack(given)
    if given[0].ndim > 1:
        return ragged_ops.stack([ragged_ops.as_ragged(each) for each in given])
    return ragged_ops.stack_rows(given).with_row_splits_dtype(dtypes.int32)


def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: Any, name: Any = None
) -> Any:
    """The rows of data by the number of their partition."""
    numbers = np.asarray(convert(partitions)).ravel()
    count = int(static(num_partitions))
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise invalid(f"partitions must be from 0 to {count}")
    held = data if isinstance(data, RaggedTensor) else Tensor(convert(data))
    order = np.argsort(numbers, kind="stable")
    return RaggedTensor.from_row_lengths(
        take_rows(held, order), np.bincount(numbers, minlength=count).astype(numbers.dtype)
    )


def row_splits_to_segment_ids(splits: Any, name: Any = None, out_type: Any = None) -> Tensor:
    """The number of the row of each value, from where rows begin and end."""
    edges = as_splits(splits)
    kind = edges.dtype if out_type is None else dtypes.as_dtype(out_type).dtype
    return Tensor(np.repeat(np.arange(len(edges) - 1), np.diff(edges)).astype(kind))


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: Any = None
) -> Tensor:
    """Where rows begin and end, from the number of the row of each value."""
    ids = as_splits(segment_ids)
    count = static(num_segments) or 0
    made = splits_of(np.bincount(ids, minlength=int(count)))
    if num_segments is not None:
        made = made[: int(count) + 1]
    kind = ids.dtype if out_type is None else dtypes.as_dtype(out_type).dtype
    return Tensor(made.astype(kind))


def cross(inputs: Any, name: Any = None) -> RaggedTensor:
    """Every combination of the strings of rows, joined by ``_X_``, as ``tf.ragged.cross``."""
    held = [ragged_ops.as_ragged(each) for each in inputs]
    made = [
        [b"_X_".join(map(_bytes, each)) for each in itertools.product(*rows)]
        for rows in zip(*(each.to_list() for each in held), strict=True)
    ]
    flat = np.empty(sum(map(len, made)), object)
    flat[:] = [each for row in made for each in row]
    return RaggedTensor.from_row_lengths(flat, [len(row) for row in made])


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
