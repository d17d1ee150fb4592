"""Strings put together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import join_rows, join_strings
from drumline.data.native.apply import apply
from drumline.data.native.flat import flat, holds_ragged
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_elementwise import failure
from drumline.data.native.string_specs import as_text, one, require_strings, shape_of
from drumline.data.ragged_spec import RaggedTensorSpec
from drumline.data.spec import STRING, ElementSpec, TensorSpec
from drumline.strings.documents import runs


@dataclasses.dataclass(frozen=True)
class Join(NativeOperation):
    """Strings at the same places of several arrays joined."""

    separator: bytes

    @property
    def name(self) -> str:
        return "strings.join"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        for spec in arguments:
            require_strings(self.name, spec)
        made = arguments[0]
        for spec in arguments:
            if not spec.shape:
                continue
            merged = spec if not made.shape else made.merged(spec)
            if merged is None:
                raise ValueError(
                    f"{self.name}: shapes must be equal, or scalars; got {shape_of(made)} and "
                    f"{shape_of(spec)}"
                )
            made = merged
        known = {dims for spec in arguments if None not in (dims := spec.shape) and dims}
        if len(known) > 1:
            raise ValueError(f"{self.name}: shapes must be equal, or scalars; got {sorted(known)}")
        return one(made)

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        parts = [flat(column) for column in columns]
        whole = next((part for part in parts if not part.scalar), parts[0])
        sizes = whole.sizes()
        wrong = [part.sizes() != sizes for part in parts if not part.scalar]
        bad: Sequence[int] = np.flatnonzero(np.any(wrong, axis=0)).tolist() if wrong else []
        rows = int(bad[0]) if len(bad) else n
        heads = [part.head(rows) for part in parts]
        values = [
            np.repeat(head.values, sizes[:rows])
            if part.scalar and not whole.scalar
            else head.values
            for part, head in zip(parts, heads, strict=True)
        ]
        made = whole.head(rows).put(join_strings(values, self.separator))
        if rows == n:
            return Rows([made])
        found = " and ".join(str(int(part.sizes()[rows])) for part in parts)
        return Rows([made], failure(self.name, f"arrays of {found} strings do not go together"))


@dataclasses.dataclass(frozen=True)
class ReduceJoin(NativeOperation):
    """The strings along some dimensions joined, ``None`` for all."""

    axes: tuple[int, ...] | None
    keepdims: bool
    separator: bytes

    @property
    def name(self) -> str:
        return "strings.reduce_join"

    def _order(self, rank: int) -> tuple[int, ...]:
        """The axes to join along, outermost first."""
        if self.axes is None:
            return tuple(range(rank))
        # Along the first of the axes first: it is the innermost.
        axes = tuple(axis + rank if axis < 0 else axis for axis in reversed(self.axes))
        if any(not 0 <= axis < rank for axis in axes) or len(set(axes)) < len(axes):
            raise ValueError(f"{self.name}: axis {self.axes} does not go with {rank} dimensions")
        return axes

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        order = self._order(len(strings.shape))
        dims = enumerate(strings.shape)
        if strings.is_static and not isinstance(strings, RaggedTensorSpec):
            kept = [dim for axis, dim in dims if axis not in order]
            ones = [1 if axis in order else dim for axis, dim in enumerate(strings.shape)]
            return one(TensorSpec(ones if self.keepdims else kept, STRING))
        rank = len(strings.shape)
        if self.keepdims or rank > 2 or not (self.axes is None or order == (rank - 1,)):
            raise ValueError(
                f"{self.name}: strings whose shape varies ({strings}) have at most 2 dimensions, "
                "and are joined along the last or all of them, without keepdims"
            )
        return one(TensorSpec((), STRING) if len(order) == rank else TensorSpec((None,), STRING))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (column,) = columns
        given = flat(column)
        if isinstance(column, np.ndarray) and not holds_ragged(column):
            return Rows([self._dense(column)])
        if self.axes is None:
            return Rows([join_rows(given.values, given.edges(), self.separator)])
        documents = runs(column)
        return Rows([documents.put(join_rows(given.values, documents.splits, self.separator))])

    def _dense(self, column: np.ndarray) -> np.ndarray:
        shape = column.shape[1:]
        order = self._order(len(shape))
        kept = [axis for axis in range(len(shape)) if axis not in order]
        moved = column.transpose(0, *(axis + 1 for axis in (*kept, *order)))
        values = np.ascontiguousarray(moved).reshape(-1)
        rows = column.shape[0] * math.prod(shape[axis] for axis in kept)
        width = math.prod(shape[axis] for axis in order)
        joined = join_rows(values, np.arange(rows + 1, dtype=np.int64) * width, self.separator)
        ones = [1 if axis in order else dim for axis, dim in enumerate(shape)]
        dims = ones if self.keepdims else [shape[axis] for axis in kept]
        return joined.reshape(column.shape[0], *dims)


def join(inputs: Sequence[Any], separator: str | bytes = "", name: str | None = None) -> Any:
    """Strings at the same places of several arrays joined, as ``tf.strings.join``.

    Args:
        inputs: strings, arrays of strings or ``RaggedArray``s, all of one shape but for scalars,
            which are joined to each.
        separator: what stands between them.

    Raises:
        ValueError: there are no inputs, or their shapes differ.
        TypeError: some hold no strings.
    """
    if not len(inputs):
        raise ValueError("strings.join: there must be at least one input")
    return apply(Join(as_text(separator, "strings.join", "separator")), *inputs)


def reduce_join(
    inputs: Any,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    separator: str | bytes = "",
    name: str | None = None,
) -> Any:
    """An array's strings joined along dimensions, as ``tf.strings.reduce_join``.

    Args:
        inputs: strings of any shape, or a ``RaggedArray`` of two dimensions.
        axis: along which dimensions, joined in this order; ``None`` for all. Those of a
            ``RaggedArray``, or of arrays whose shape varies, are all or the last.
        keepdims: whether these dimensions stay, with length 1.
        separator: what stands between two strings.

    Raises:
        ValueError: there are no such dimensions.
        TypeError: ``inputs`` holds no strings.
    """
    axes = None if axis is None else tuple(np.atleast_1d(np.asarray(axis, np.int64)).tolist())
    text = as_text(separator, "strings.reduce_join", "separator")
    return apply(ReduceJoin(axes, bool(keepdims), text), inputs)
