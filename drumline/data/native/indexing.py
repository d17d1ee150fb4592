"""Single strings, and parts of arrays of strings, by their places."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, splits_of
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_specs import is_dense, one

Cut = tuple[int | None, int | None, int | None]
Part = int | Cut | EllipsisType | None
"""One index: a place, a slice's start, stop and step, an ellipsis, or a new dimension."""


@dataclasses.dataclass(frozen=True)
class Index(NativeOperation):
    """What numpy's indices find in each element's array."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        return f"[{', '.join(map(_shown, self.parts))}]"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        if is_dense(strings):
            sample = np.broadcast_to(np.False_, tuple(dim or 0 for dim in strings.shape))
            return one(TensorSpec(sample[_numpy_key(self.parts)].shape, strings.dtype))
        return one(TensorSpec((None,) if isinstance(self.parts[0], tuple) else (), strings.dtype))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (column,) = columns
        if not isinstance(column, RaggedArray):
            key = (slice(None), *_numpy_key(self.parts))
            return Rows([np.ascontiguousarray(np.asarray(column)[key])])
        (part,) = self.parts
        if isinstance(part, tuple):
            return Rows([_cut(column, slice(*part))])
        assert isinstance(part, int)
        return self._one(column, part, n)

    def _one(self, column: RaggedArray, place: int, n: int) -> Rows:
        lengths = column.row_lengths()
        missing = np.flatnonzero(lengths < (place + 1 if place >= 0 else -place))
        rows = int(missing[0]) if len(missing) else n
        edges = column.row_splits
        places = (edges[:-1] if place >= 0 else edges[1:])[:rows] + place
        made = column.values[places]
        if rows == n:
            return Rows([made])
        found = f"{self.name}: there is no such place among {lengths[rows]} strings"
        return Rows([made], IndexError(found))


def _cut(column: RaggedArray, key: slice) -> RaggedArray:
    """The same slice of every row."""
    lengths = column.row_lengths()
    different, which = np.unique(lengths, return_inverse=True)
    ranges = [range(int(length))[key] for length in different]
    sizes = np.array([len(places) for places in ranges], np.int64)[which]
    starts = np.array([places.start for places in ranges], np.int64)[which]
    splits = splits_of(sizes)
    within = np.arange(splits[-1], dtype=np.int64) - np.repeat(splits[:-1], sizes)
    step = 1 if key.step is None else key.step
    places = np.repeat(column.row_splits[:-1] + starts, sizes) + within * step
    return RaggedArray(column.values[places], splits)


def static_parts(key: Any, spec: TensorSpec) -> tuple[Part, ...] | None:
    """An index as an ``Index`` of values of a spec takes it, or ``None`` if it takes no such one.

    Arrays of one shape take whole numbers, slices, ``None`` and ``...``; those of one dimension
    that varies a number or a slice; ragged arrays nothing.
    """
    found = key if isinstance(key, tuple) else (key,)
    if isinstance(spec, RaggedTensorSpec) or (not spec.shape and not _makes_array(found)):
        return None
    try:
        parts = tuple(map(_part, found))
    except TypeError:
        return None
    if is_dense(spec):
        return parts
    single = len(spec.shape) == 1 and len(parts) == 1 and isinstance(parts[0], int | tuple)
    return parts if single else None


def _makes_array(key: tuple[Any, ...]) -> bool:
    """Whether an index adds dimensions; others would find single bytes of a string."""
    return any(part is None for part in key)


def _part(key: Any) -> Part:
    if key is None or key is Ellipsis:
        return key
    if isinstance(key, slice):
        if key.step is not None and operator.index(key.step) == 0:
            raise TypeError("a slice without a step")
        return _whole(key.start), _whole(key.stop), _whole(key.step)
    if isinstance(key, bool | np.bool_):
        raise TypeError("a mask")
    return operator.index(key)


def _whole(value: Any) -> int | None:
    return None if value is None else operator.index(value)


def _numpy_key(parts: tuple[Part, ...]) -> tuple[Any, ...]:
    return tuple(slice(*part) if isinstance(part, tuple) else part for part in parts)


def _shown(part: Part) -> str:
    if part is Ellipsis:
        return "..."
    if not isinstance(part, tuple):
        return str(part)
    start, stop, step = ("" if value is None else str(value) for value in part)
    return f"{start}:{stop}" + (f":{step}" if step else "")
