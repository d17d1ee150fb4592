"""What functions of rows do with ragged tensors: of strings, ``tf.shape`` and ``tf.map_fn``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.compat.composite.dispatch import handles
from drumline.compat.composite.ragged import RaggedTensor, rows_of, to_values
from drumline.compat.composite.ragged_ops import (
    RaggedReduction,
    broadcast,
    reducing,
    stack,
    stack_rows,
)
from drumline.compat.composite.ragged_shapes import DynamicRaggedShape
from drumline.compat.io import text
from drumline.compat.ops import arrays, control_flow, nest
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert
from drumline.compat.values.specs import ArraySpec, RaggedSpec
from drumline.compat.values.tensor import Tensor

# Strings.


def _splitting(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes rows, or several times rows, of each string."""

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        made = function(input.flat_values, *args, **kwargs)
        if isinstance(made, tuple):
            return tuple(input.with_flat_values(each) for each in made)
        return input.with_flat_values(made)

    return call


for _function in (
    text.bytes_split,
    text.split,
    text.unicode_decode,
    text.unicode_decode_with_offsets,
    text.unicode_split,
    text.unicode_split_with_offsets,
):
    handles(RaggedTensor, _function.__name__)(_splitting(_function))


@handles(RaggedTensor, "join")
def join(inputs: Any, separator: str = "", name: Any = None) -> Any:
    """Strings joined element by element, with broadcasting."""
    values, rebuilt = broadcast(*inputs)
    return rebuilt(text.join(values, separator))


@handles(RaggedTensor, "reduce_join")
def reduce_join(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: Any = None
) -> Any:
    """Strings joined over dimensions."""
    kind = RaggedReduction(
        functools.partial(text.reduce_join, separator=separator),
        functools.partial(text.unsorted_segment_join, separator=separator),
    )
    return reducing(kind)(inputs, axis, bool(keepdims))


@handles(RaggedTensor, "ngrams")
def ngrams(data: Any, ngram_width: Any, *args: Any, **kwargs: Any) -> Any:
    """The n-grams of the innermost rows."""
    if isinstance(data.values, RaggedTensor):
        return data.with_values(ngrams(data.values, ngram_width, *args, **kwargs))
    if data.values.ndim > 1:
        inner = text.ngrams(data.values, ngram_width, *args, **kwargs)
        return data.with_values(inner)
    return text.ngrams(data, ngram_width, *args, **kwargs)


@handles(RaggedTensor, "unicode_encode")
def unicode_encode(input: Any, *args: Any, **kwargs: Any) -> Any:
    """A string of the code points of each innermost row."""
    if isinstance(input.values, RaggedTensor):
        return input.with_values(unicode_encode(input.values, *args, **kwargs))
    if input.values.ndim > 1:
        return input.with_values(text.unicode_encode(input.values, *args, **kwargs))
    return text.unicode_encode(input, *args, **kwargs)


# Shapes.


@handles(RaggedTensor, "shape")
def shape(input: Any, out_type: Any = None, name: Any = None) -> DynamicRaggedShape:
    """The row partitions, as ``tf.shape`` of a ragged tensor."""
    return DynamicRaggedShape.from_tensor(input, out_type or dtypes.int32)


# map_fn.


handles(RaggedTensor, "map_fn")(control_flow.map_fn)


def mapped_rows(function: Callable[[Any], Any], elems: Any, signature: Any) -> Any:
    """What a function gives for each row of nested tensors, of which some may be ragged.

    Args:
        function: takes one row, in the structure of `elems`.
        elems: nested tensors and ragged tensors of as many rows.
        signature: nested dtypes and specs of a row of the result; None for those of `elems`.

    Raises:
        ValueError: the numbers of rows differ, or a result is not as its spec says.
        TypeError: a result has another structure.
    """
    given = nest.nest_map_structure(to_values, elems)
    leaves = nest.nest_flatten(given)
    counts = sorted({rows_of(leaf) for leaf in leaves})
    if len(counts) != 1:
        raise ValueError(f"map_fn: elems have different numbers of rows: {counts}")
    if signature is None:
        signature = nest.nest_map_structure(_row_of, given)
    specs = nest.nest_flatten(signature)
    results = []
    for row in range(counts[0]):
        item = nest.nest_map_structure(lambda leaf, row=row: leaf[row], given)
        result = function(item)
        nest.assert_same_structure(signature, result, check_types=False)
        results.append(
            [
                _fitting(part, spec)
                for part, spec in zip(nest.nest_flatten(result), specs, strict=True)
            ]
        )
    columns = zip(*results, strict=True) if results else [()] * len(specs)
    made = [_together(list(column), spec) for column, spec in zip(columns, specs, strict=True)]
    return nest.pack_sequence_as(signature, made)


def _row_of(leaf: Any) -> Any:
    """The spec of a row."""
    if not isinstance(leaf, RaggedTensor):
        return ArraySpec(tuple(leaf.shape)[1:], leaf.dtype)
    kind = dtypes.of_array(leaf.splits.dtype)
    sizes = [None] * leaf.ragged_rank + list(leaf.shape)[leaf.ragged_rank + 1 :]
    return RaggedSpec(sizes, leaf.dtype, leaf.ragged_rank - 1, kind)


def _fitting(part: Any, spec: Any) -> Any:
    """A part of a result, which is of the spec's dtype and rows."""
    kind = dtypes.as_dtype(getattr(spec, "dtype", spec))
    value = part if isinstance(part, RaggedTensor) else Tensor(convert(part))
    wanted = getattr(spec, "ragged_rank", 0)
    found = value.ragged_rank if isinstance(value, RaggedTensor) else 0
    if value.dtype != kind or found != wanted:
        raise ValueError(
            f"map_fn: expected fn to return a {spec!r}, but it returned {value.dtype!r} of the "
            f"shape {value.shape} with {found} ragged dimensions; give fn_output_signature the "
            "dtypes and specs of the results"
        )
    if isinstance(spec, RaggedSpec) and not value.ndim:
        raise ValueError(
            "map_fn: fn returned a scalar where rows are expected; give fn_output_signature the "
            f"dtype of the results, as {value.dtype!r}"
        )
    return value


def _together(column: list[Any], spec: Any) -> Any:
    """The parts of all results as one tensor."""
    if not isinstance(spec, RaggedSpec):
        kind = dtypes.as_dtype(getattr(spec, "dtype", spec))
        if column:
            shapes = sorted({tuple(part.shape) for part in column})
            if len(shapes) > 1:
                raise ValueError(
                    f"map_fn: the results have the shapes {shapes}; for rows of differing lengths "
                    "give fn_output_signature a tf.RaggedTensorSpec"
                )
            return arrays.stack(column)
        sizes = [size or 0 for size in tuple(getattr(spec, "shape", None) or ())]
        return Tensor(np.zeros((0, *sizes), kind.dtype))
    splits = spec.row_splits_dtype
    if not column:
        inner = [size or 0 for size in list(spec.shape)[spec.ragged_rank + 1 :]]
        flat = Tensor(np.zeros((0, *inner), spec.dtype.dtype))
        empty = np.zeros(1, np.int64)
        made = RaggedTensor.from_nested_row_splits(flat, [empty] * (spec.ragged_rank + 1))
        return made.with_row_splits_dtype(splits)
    joined = stack(column) if isinstance(column[0], RaggedTensor) else stack_rows(column)
    return joined.with_row_splits_dtype(splits)
