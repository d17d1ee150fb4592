"""``ragged[...]``: rows, slices of every dimension, and new ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.composite.ragged import RaggedTensor, rows_of
from drumline.compat.ops import arrays
from drumline.compat.values.convert import static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.data.elements.ragged import splits_of


def take_rows(values: Any, index: np.ndarray) -> Any:
    """The rows of a tensor or ragged tensor at numbers (k,)."""
    if not isinstance(values, RaggedTensor):
        return arrays.gather(values, index)
    starts, lengths = values.splits[:-1][index], values.lengths[index]
    splits = splits_of(lengths)
    steps = np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
    inner = take_rows(values.values, np.repeat(starts, lengths) + steps)
    kept = values.uniform_row_length
    uniform = None if kept is None else int(kept)
    return RaggedTensor(inner, splits.astype(values.splits.dtype), uniform)


def indexed(ragged: Any, key: list[Any]) -> Any:
    """``ragged[key]``.

    Raises:
        IndexError: a row does not exist.
        ValueError: a ragged dimension is indexed by a number, behind a slice.
    """
    key = [part if part is None or part is Ellipsis else _static(part) for part in key]
    if Ellipsis in [part for part in key if part is Ellipsis]:
        at = next(i for i, part in enumerate(key) if part is Ellipsis)
        named = sum(part is not None for part in key) - 1
        key[at : at + 1] = [slice(None)] * (ragged.ndim - named)
    if not key:
        return ragged
    if not isinstance(ragged, RaggedTensor):
        return ragged[tuple(key)]
    first, rest = key[0], key[1:]
    if first is None:
        made = indexed(ragged, rest)
        return _with_axis(made)
    if isinstance(first, slice):
        index = np.arange(len(ragged))[first]
        made = ragged if len(index) == len(ragged) and _forward(first) else take_rows(ragged, index)
        return _inner(made, rest)
    if isinstance(first, (list, np.ndarray)):
        raise ValueError("RaggedTensor indices are numbers and slices; use tf.gather")
    count = len(ragged)
    if not -count <= first < count:
        raise InvalidArgumentError(None, None, f"slice index {first} of dimension 0 out of bounds.")
    row = first % count
    start, stop = int(ragged.splits[row]), int(ragged.splits[row + 1])
    values = ragged.values
    found = values[start:stop]
    return indexed(found, rest) if rest else found


def _inner(ragged: Any, key: list[Any]) -> Any:
    """What the rest of a key, behind a slice of the rows, makes of each row."""
    if not key:
        return ragged
    first, rest = key[0], key[1:]
    if first is None:
        ones = np.arange(len(ragged) + 1, dtype=ragged.splits.dtype)
        return RaggedTensor(_inner(ragged, rest), ones, 1)
    starts, lengths = ragged.splits[:-1], ragged.lengths
    if not isinstance(first, slice):
        if ragged.uniform_row_length is None:
            raise ValueError("Cannot index into an inner ragged dimension.")
        size = int(ragged.uniform_row_length)
        if not -size <= first < size:
            raise InvalidArgumentError(None, None, f"slice index {first} out of bounds.")
        return _inner_of_rows(take_rows(ragged.values, starts + first % size), rest)
    picked = [np.arange(int(n))[first] for n in np.unique(lengths)]
    sizes = dict(zip(np.unique(lengths).tolist(), picked, strict=True))
    if _forward(first) and first.start is None and first.stop is None:
        kept, values = ragged.splits, ragged.values
        length = ragged.uniform_row_length
    else:
        chosen = [s + sizes[n] for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
        index = np.concatenate([np.empty(0, np.int64), *chosen]).astype(np.int64)
        kept = splits_of(np.array([len(each) for each in chosen], np.int64))
        values, length = take_rows(ragged.values, index), ragged.uniform_row_length
        if length is not None:
            length = len(sizes[int(length)]) if len(ragged) else 0
    inner = _inner_of_rows(values, rest)
    uniform = None if length is None else int(length)
    return RaggedTensor(inner, kept.astype(ragged.splits.dtype), uniform)


def _inner_of_rows(values: Any, key: list[Any]) -> Any:
    if isinstance(values, RaggedTensor):
        return _inner(values, key)
    return values[(slice(None), *key)] if key else values


def _forward(part: slice) -> bool:
    return part.step in (None, 1)


def _with_axis(value: Any) -> Any:
    if isinstance(value, RaggedTensor):
        count = rows_of(value)
        return RaggedTensor(value, np.array([0, count], value.splits.dtype), count)
    return arrays.expand_dims(value, 0)


def _static(part: Any) -> Any:
    if isinstance(part, slice):
        return slice(
            *(None if x is None else static(x) for x in (part.start, part.stop, part.step))
        )
    return static(part)
