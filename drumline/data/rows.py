"""Single elements made by Python code: checked against a spec, and stacked to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.dataset_spec import DatasetSpec, merged_element
from drumline.data.leaves import as_array
from drumline.data.methods.planned import Planned
from drumline.data.ragged import RaggedArray
from drumline.data.ragged_spec import RaggedTensorSpec, spec_of
from drumline.data.spec import STRING, ElementSpec, TensorSpec


class ShapeMismatch(ValueError):
    """A leaf has another shape than was promised."""


def conform(leaves: Sequence[Any], spec: ElementSpec, promise: str) -> list[np.ndarray]:
    """The leaves of one element as arrays of the promised dtypes and shapes.

    Numbers are converted within their kind (float64 to float32, int to float) as long as integers
    keep their value.

    Raises:
        TypeError: a leaf is of another kind than ``promise`` (who says so) has it.
        ValueError: its shape differs, or an integer does not fit.
    """
    pairs = enumerate(zip(leaves, spec.leaves, strict=True))
    return [_conformed(value, leaf, i, promise) for i, (value, leaf) in pairs]


def _conformed(value: Any, spec: TensorSpec, leaf: int, promise: str) -> np.ndarray:
    if isinstance(spec, DatasetSpec):
        return _dataset(value, spec, leaf, promise)
    if isinstance(spec, RaggedTensorSpec) or isinstance(value, RaggedArray):
        return _ragged(value, spec, leaf, promise)
    array = as_array(value)
    if array.dtype != spec.dtype:
        array = _cast(array, spec, leaf, promise)
    if not spec.accepts(array.shape, array.dtype):
        raise ShapeMismatch(f"leaf {leaf} has shape {array.shape}, {promise} says {spec}")
    return array


def _cast(array: np.ndarray, spec: TensorSpec, leaf: int, promise: str) -> np.ndarray:
    if not array.size:  # An empty list says nothing of its type.
        return array.astype(spec.dtype)
    if STRING in (array.dtype, spec.dtype) or not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        found = "string" if array.dtype == STRING else array.dtype.name
        raise TypeError(f"leaf {leaf} has dtype {found}, {promise} says {spec}")
    result = array.astype(spec.dtype)
    if spec.dtype.kind in "iu" and not np.array_equal(result, array):
        raise ValueError(f"leaf {leaf} has a value that does not fit {spec.dtype}: {array!r:.80}")
    return result


def _dataset(value: Any, spec: DatasetSpec, leaf: int, promise: str) -> np.ndarray:
    if not isinstance(value, Planned):
        raise TypeError(f"leaf {leaf} is a {type(value).__name__}, {promise} says {spec}")
    if merged_element(spec.element, value._plan.spec) != spec.element:
        raise TypeError(f"leaf {leaf} is a dataset of {value.element_spec}, {promise} says {spec}")
    return single(value)


def _ragged(value: Any, spec: TensorSpec, leaf: int, promise: str) -> np.ndarray:
    if not isinstance(value, RaggedArray) or spec_of(value).merged(spec) != spec:
        found = spec_of(value) if isinstance(value, RaggedArray) else f"a {type(value).__name__}"
        raise TypeError(f"leaf {leaf} is {found}, {promise} says {spec}")
    return single(value)


def single(value: Any) -> np.ndarray:
    """``value`` as an array of dtype object and rank 0."""
    array = np.empty((), object)
    array[()] = value
    return array


def spec_of_leaf(value: Any, static: bool) -> TensorSpec:
    """The spec of a leaf that a function returned.

    Raises:
        TypeError: no column can be made of it.
    """
    if isinstance(value, Planned):
        return DatasetSpec(value._plan.spec)
    if isinstance(value, RaggedArray):
        return spec_of(value, static)
    array = as_array(value)
    return TensorSpec(array.shape if static else [None] * array.ndim, array.dtype)


def owned(row: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The leaves, copied where the user's code could still write into them.

    A generator or a function may fill one array again and again and hand it out each time.
    """
    return [leaf.copy() if leaf.flags.writeable else leaf for leaf in row]


def stack(
    rows: Sequence[Sequence[np.ndarray]],
    spec: ElementSpec,
    empty: Callable[[tuple[int, ...], np.dtype], np.ndarray] = np.empty,
) -> list[np.ndarray]:
    """One column per leaf; the rows' shapes agree. Without rows, empty columns of the spec.

    Args:
        rows: the leaves of each.
        spec: of the elements.
        empty: makes the arrays for numbers.
    """
    columns = []
    for i, leaf in enumerate(spec.leaves):
        ragged = isinstance(leaf, RaggedTensorSpec)
        dtype, dims = (STRING, ()) if ragged else (leaf.dtype, leaf.shape)
        shape = rows[0][i].shape if rows else tuple(dim or 0 for dim in dims)
        make = np.empty if dtype == STRING else empty
        column = make((len(rows), *shape), dtype)
        columns.append(column)
    for r, row in enumerate(rows):
        put(columns, r, row)
    return columns


def put(columns: Sequence[np.ndarray], row: int, leaves: Sequence[np.ndarray]) -> None:
    """Writes an element's leaves to a row of columns that have their shapes."""
    for column, leaf in zip(columns, leaves, strict=True):
        column[row] = leaf[()] if leaf.dtype == STRING and not leaf.ndim else leaf
