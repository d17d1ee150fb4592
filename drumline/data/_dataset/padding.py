"""Shapes and padding values: the arguments of methods that pad or pack elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedTensorSpec, fill_value
from drumline.data.elements.spec import (
    LEAF,
    STRING,
    DatasetSpec,
    ElementSpec,
    Structure,
    TensorSpec,
    as_array,
)

Shape = tuple[int | None, ...]


def check_arrays(leaves: Sequence[TensorSpec], operation: str) -> None:
    """Rejects leaves that are no arrays of one shape.

    Raises:
        TypeError: one is a dataset or a ragged array.
    """
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, DatasetSpec | RaggedTensorSpec):
            raise TypeError(f"{operation} takes arrays; leaf {i} is {leaf!r}")


def fillers(spec: ElementSpec, padding_values: Any, operation: str) -> list[Any]:
    """What each leaf is filled up with.

    Args:
        spec: of the elements.
        padding_values: one for all leaves, or one for each in their structure, or ``None``.
        operation: for messages.

    Raises:
        TypeError: one is not of its leaf's type.
        ValueError: they have another structure.
    """
    given = [padding_values] * len(spec.leaves)
    if padding_values is not None and not _is_scalar(padding_values):
        given = per_leaf(spec.structure, padding_values, lambda value: value, "padding_values")
    pairs = enumerate(zip(spec.leaves, given, strict=True))
    return [_filler(leaf, value, i, operation) for i, (leaf, value) in pairs]


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | tuple | list)


def per_leaf(structure: Structure, value: Any, leaf: Callable[[Any], Any], what: str) -> list[Any]:
    """A value for each leaf of ``structure``, out of the same structure of values."""
    if value is None and what == "padding_values":
        return [None] * structure.num_leaves
    if structure.kind == LEAF:
        return [leaf(value)]
    keyed = structure.kind == "dict"
    keys: Any = structure.keys if keyed else range(len(structure.children))
    fits = (
        isinstance(value, dict) and set(value) == set(keys)
        if keyed
        else (isinstance(value, tuple | list) and len(value) == len(keys))
    )
    if not fits:
        raise ValueError(f"padded_batch: {what} {value!r:.80} has not the structure {structure}")
    pairs = zip(keys, structure.children, strict=True)
    return [item for key, child in pairs for item in per_leaf(child, value[key], leaf, what)]


def shapes_of(spec: ElementSpec, padded_shapes: Any) -> tuple[Shape, ...]:
    """Return the shape that each leaf is padded to; by default that of the spec.

    Raises:
        ValueError: if the shapes have another structure than the elements, or a leaf does not fit.
    """
    shapes = [leaf.shape for leaf in spec.leaves]
    if padded_shapes is not None:
        shapes = per_leaf(spec.structure, padded_shapes, shape_of, "padded_shapes")
    for i, (leaf, shape) in enumerate(zip(spec.leaves, shapes, strict=True)):
        _check_shape(leaf, shape, i)
    return tuple(shapes)


def shape_of(value: Any) -> Shape:
    """A shape that a user wrote, -1 as ``None``.

    Raises:
        ValueError: it is no tuple or list.
    """
    if not isinstance(value, tuple | list | np.ndarray):
        raise ValueError(f"padded_batch: a shape is a tuple or a list, not {value!r:.60}")
    try:
        dims = [None if dim is None else operator.index(dim) for dim in value]
    except TypeError:
        raise ValueError(
            f"padded_batch: a shape has an integer or None for each dimension, not {value!r:.60}"
        ) from None
    return tuple(None if dim == -1 else dim for dim in dims)


def _check_shape(leaf: TensorSpec, shape: Shape, i: int) -> None:
    if len(shape) != len(leaf.shape):
        raise ValueError(f"padded_batch: leaf {i} is {leaf}; {shape} has not as many dimensions")
    for mine, wanted in zip(leaf.shape, shape, strict=True):
        if wanted is not None and (wanted < 0 or (mine is not None and mine > wanted)):
            raise ValueError(f"padded_batch: leaf {i} is {leaf}, which does not fit into {shape}")


def _filler(leaf: TensorSpec, value: Any, i: int, operation: str) -> Any:
    if value is None:
        return fill_value(leaf.dtype)
    given = as_array(value)
    same = (
        leaf.dtype == given.dtype
        if STRING in (leaf.dtype, given.dtype)
        else (isinstance(value, bool) == (leaf.dtype == np.bool_) or isinstance(value, np.generic))
    )
    if (
        not same
        or given.ndim
        or not (given.dtype == leaf.dtype or np.can_cast(given.dtype, leaf.dtype, "same_kind"))
    ):
        raise TypeError(f"{operation}: {value!r} cannot fill up leaf {i}, which is {leaf}")
    if leaf.dtype == STRING:
        return given[()]
    filler = given.astype(leaf.dtype)
    if leaf.dtype.kind in "iu" and filler != given:
        raise TypeError(f"{operation}: {value!r} does not fit {leaf.dtype} of leaf {i}")
    return filler[()]
