"""``tf.sets``, the last dimension of tensors as sets of values, and distances of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.compat.composite.sparse import SparseTensor
from drumline.compat.ops.arrays import static_array
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_Rows = dict[tuple[int, ...], list[Any]]


def _rows(sets: Any) -> tuple[_Rows, tuple[int, ...], np.dtype]:
    """The values of each set, the leading dimensions, and the dtype."""
    if isinstance(sets, SparseTensor):
        found: _Rows = {}
        values = static_array(sets.values)
        places = static_array(sets.indices).tolist()
        for place, value in zip(places, values.tolist(), strict=True):
            found.setdefault(tuple(place[:-1]), []).append(value)
        shape = tuple(int(size) for size in static_array(sets.dense_shape)[:-1])
        return found, shape, values.dtype
    array = static_array(sets)
    if array.ndim < 2:
        raise InvalidArgumentError(None, None, f"sets have 2 dimensions or more, not {array.ndim}")
    rows = {place: array[place].tolist() for place in np.ndindex(*array.shape[:-1])}
    return rows, array.shape[:-1], array.dtype


def _combined(a: Any, b: Any, operation: Callable[[set[Any], set[Any]], set[Any]]) -> SparseTensor:
    one, shape, kind = _rows(a)
    other, shape_b, kind_b = _rows(b)
    if shape != shape_b:
        raise ValueError(f"sets of shapes {shape} and {shape_b} cannot be combined")
    if kind != kind_b:
        raise TypeError(f"sets of {kind} and {kind_b} cannot be combined")
    places: list[tuple[int, ...]] = []
    values: list[Any] = []
    longest = 0
    for place in np.ndindex(*shape):
        made = sorted(operation(set(one.get(place, ())), set(other.get(place, ()))))
        places += [(*place, number) for number in range(len(made))]
        values += made
        longest = max(longest, len(made))
    indices = np.asarray(places, np.int64).reshape(-1, len(shape) + 1)
    held = np.empty(len(values), kind)
    held[:] = values
    return SparseTensor(indices, held, np.asarray((*shape, longest), np.int64))


def intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The values that are in both of each pair of sets, in rising order.

    Args:
        a: a tensor or sparse tensor, whose last dimension are the sets.
        b: the same; the leading dimensions are as those of ``a``.
        validate_indices: accepted: the order of a sparse tensor's indices does not matter.

    Raises:
        ValueError: the leading dimensions differ.
        TypeError: the dtypes differ.
    """
    return _combined(a, b, lambda one, other: one & other)


def union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The values that are in one or both of each pair of sets; see `intersection`."""
    return _combined(a, b, lambda one, other: one | other)


def difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """The values of each set of ``a`` that are not in that of ``b``, or the other way round."""
    one, other = (a, b) if aminusb else (b, a)
    return _combined(one, other, lambda left, right: left - right)


def size(a: Any, validate_indices: bool = True) -> Tensor:
    """The number of different values in each set of a sparse tensor, int32.

    Raises:
        TypeError: it is no sparse tensor.
    """
    if not isinstance(a, SparseTensor):
        raise TypeError("Expected `SparseTensor`, got " + type(a).__name__)
    rows, shape, _ = _rows(a)
    made = np.zeros(shape, np.int32)
    for place, values in rows.items():
        made[place] = len(set(values))
    return Tensor(made)


def edit_distance(
    hypothesis: Any, truth: Any, normalize: bool = True, name: Any = "edit_distance"
) -> Tensor:
    """The least numbers of insertions, deletions and replacements between sequences.

    Args:
        hypothesis: a sparse tensor; the last dimension is that of the sequences.
        truth: the same.
        normalize: whether the numbers are divided by the lengths of the true sequences.
        name: accepted.

    Returns:
        float32, of the leading dimensions.
    """
    sequences: list[dict[tuple[int, ...], list[Any]]] = []
    shapes = []
    for each in (hypothesis, truth):
        places, values = static_array(each.indices), static_array(each.values)
        found: dict[tuple[int, ...], list[Any]] = {}
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            found.setdefault(tuple(place[:-1]), []).append(value)
        sequences.append(found)
        shapes.append(static_array(each.dense_shape)[:-1])
    leading = tuple(np.maximum(*shapes).tolist())
    made = np.zeros(leading, np.float32)
    for place in np.ndindex(*leading):
        guess, true = (each.get(place, []) for each in sequences)
        distance = float(_distance(guess, true))
        if normalize:
            distance = distance / len(true) if true else (np.inf if guess else 0.0)
        made[place] = distance
    return Tensor(made)


def _distance(guess: list[Any], true: list[Any]) -> int:
    former = list(range(len(true) + 1))
    for row, one in enumerate(guess, 1):
        now = [row]
        for column, other in enumerate(true, 1):
            replaced = former[column - 1] + (one != other)
            now.append(min(replaced, former[column] + 1, now[-1] + 1))
        former = now
    return former[-1]
