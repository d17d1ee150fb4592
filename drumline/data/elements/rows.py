"""Single elements made by Python code: checked against a spec, and stacked to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, spec_of
from drumline.data.elements.spec import (
    STRING,
    DatasetSpec,
    DatasetValue,
    ElementSpec,
    Structure,
    TensorSpec,
    as_array,
    merged_element,
    within,
)


class ShapeMismatch(ValueError):
    """A leaf has another shape than was promised."""


def conform(leaves: Sequence[Any], spec: ElementSpec, promise: str) -> list[np.ndarray]:
    """The leaves of one element as arrays of the promised dtypes and shapes.

    Numbers are converted within their kind (float64 to float32, int64 to uint8) and to wider ones
    (int to float) as long as they fit: integers keep their value, and no finite float gets
    infinite.

    Raises:
        TypeError: a leaf is of another kind than ``promise`` (who says so) has it.
        ValueError: its shape differs, or a number does not fit.
    """
    pairs = enumerate(zip(leaves, spec.leaves, strict=True))
    return [_conformed(value, leaf, (spec, i), promise) for i, (value, leaf) in pairs]


_Place = tuple[ElementSpec, int]
"""The leaf of an element's that a message names: how it is called is found out only then."""


def _conformed(value: Any, spec: TensorSpec, place: _Place, promise: str) -> np.ndarray:
    if isinstance(spec, DatasetSpec):
        return _dataset(value, spec, place, promise)
    if isinstance(spec, RaggedTensorSpec) or isinstance(value, RaggedArray):
        return _ragged(value, spec, place, promise)
    try:
        array = as_array(value, exact=True)
    except (TypeError, ValueError) as error:
        raise within(error, _named(place)) from error
    if array.dtype != spec.dtype:
        array = _cast(array, spec, place, promise)
    if not spec.accepts(array.shape, array.dtype):
        raise ShapeMismatch(f"{_named(place)} has shape {array.shape}, {promise} says {spec}")
    return array


def _named(place: _Place) -> str:
    element, leaf = place
    return element.named(leaf)


def _cast(array: np.ndarray, spec: TensorSpec, place: _Place, promise: str) -> np.ndarray:
    if not array.size:  # An empty list says nothing of its type.
        return array.astype(spec.dtype)
    if not _alike(array.dtype, spec.dtype):
        found = "string" if array.dtype == STRING else array.dtype.name
        raise TypeError(f"{_named(place)} has dtype {found}, {promise} says {spec}")
    try:
        with np.errstate(over="raise"):
            result = array.astype(spec.dtype)
    except FloatingPointError:
        raise _does_not_fit(array, spec, place, promise) from None
    if spec.dtype.kind in "iu" and not np.array_equal(result, array):
        raise _does_not_fit(array, spec, place, promise)
    return result


def _does_not_fit(array: np.ndarray, spec: TensorSpec, place: _Place, promise: str) -> ValueError:
    with np.errstate(all="ignore"):
        wrong = np.atleast_1d(array)[np.atleast_1d(array.astype(spec.dtype) != array)]
        finite = wrong[np.isfinite(wrong)]
    largest = finite[np.argmax(np.abs(finite))] if spec.dtype.kind not in "iu" else finite[0]
    return ValueError(
        f"{_named(place)} has a value that does not fit {spec.dtype}: {largest}; {promise} says "
        f"{spec}"
    )


def _alike(dtype: np.dtype, wanted: np.dtype) -> bool:
    """Whether numbers of ``dtype`` may be such of ``wanted``, where their values fit."""
    if STRING in (dtype, wanted):
        return False
    signs = dtype.kind in "iu" and wanted.kind in "iu"
    return signs or np.can_cast(dtype, wanted, "same_kind")


def _dataset(value: Any, spec: DatasetSpec, place: _Place, promise: str) -> np.ndarray:
    if not isinstance(value, DatasetValue):
        found = type(value).__name__
        raise TypeError(f"{_named(place)} is a {found}, {promise} says {spec}")
    if merged_element(spec.element, value._plan.spec) != spec.element:
        found = f"a dataset of {value._plan.spec.tree()}"
        raise TypeError(f"{_named(place)} is {found}, {promise} says {spec}")
    return single(value)


def _ragged(value: Any, spec: TensorSpec, place: _Place, promise: str) -> np.ndarray:
    if not isinstance(value, RaggedArray) or spec_of(value).merged(spec) != spec:
        found = spec_of(value) if isinstance(value, RaggedArray) else f"a {type(value).__name__}"
        raise TypeError(f"{_named(place)} is {found}, {promise} says {spec}")
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
    if isinstance(value, DatasetValue):
        return DatasetSpec(value._plan.spec)
    if isinstance(value, RaggedArray):
        return spec_of(value, static)
    array = as_array(value)
    return TensorSpec(array.shape if static else [None] * array.ndim, array.dtype)


def specs_of_leaves(
    leaves: Sequence[Any], structure: Structure, static: bool, what: str
) -> ElementSpec:
    """The spec of an element that a user's code made.

    Args:
        leaves: of the element.
        structure: of it.
        static: whether its shape is that of all elements.
        what: who made it, for the message.

    Raises:
        TypeError, ValueError: no column can be made of a leaf; the message says which.
    """
    specs: list[TensorSpec] = []
    for leaf, path in zip(leaves, structure.paths(), strict=True):
        try:
            specs.append(spec_of_leaf(leaf, static))
        except (TypeError, ValueError) as error:
            raise within(error, f"{what}, element{path}") from error
    return ElementSpec(structure, tuple(specs))


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
