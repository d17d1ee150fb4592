"""Strings joined, split into parts, and joined to n-grams."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import join_rows, join_strings, split_strings, string_ngrams
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat, holds_ragged
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import (
    Link,
    Substring,
    as_text,
    expanded,
    failure,
    one,
    require_strings,
    shape_of,
)
from drumline.data.plan.node import count_of
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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
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
            return OperationResult([made])
        found = " and ".join(str(int(part.sizes()[rows])) for part in parts)
        return OperationResult(
            [made], failure(self.name, f"arrays of {found} strings do not go together")
        )


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

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (column,) = columns
        given = flat(column)
        if isinstance(column, np.ndarray) and not holds_ragged(column):
            return OperationResult([self._dense(column)])
        if self.axes is None:
            return OperationResult([join_rows(given.values, given.edges(), self.separator)])
        documents = runs(column)
        return OperationResult(
            [documents.put(join_rows(given.values, documents.splits, self.separator))]
        )

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


@dataclasses.dataclass(frozen=True)
class SplitStrings(Link):
    """Parts of each string."""

    separator: bytes
    most: int

    @property
    def name(self) -> str:
        return "strings.split"

    @property
    def cut(self) -> Substring | None:
        return self.separator, self.most

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        return one(expanded(strings, STRING))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        return OperationResult(
            [given.expand(*split_strings(given.values, self.separator, self.most))]
        )


def split(
    input: Any, sep: str | bytes | None = None, maxsplit: int = -1, name: str | None = None
) -> Any:
    """Strings cut at a separator, as ``tf.strings.split``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        sep: where to cut. ``None`` and ``""`` cut at runs of ASCII white space, which gives no
            empty parts.
        maxsplit: how often to cut each string at most, if it is 0 or more.

    Returns:
        Of a string an array (parts,); of arrays a ``RaggedArray`` with one more dimension.

    Raises:
        TypeError: ``input`` holds no strings.
    """
    separator = b"" if sep is None else as_text(sep, "strings.split", "sep")
    return apply(SplitStrings(separator, operator.index(maxsplit)), input)


@dataclasses.dataclass(frozen=True)
class Ngrams(NativeOperation):
    """N-grams along the last dimension."""

    widths: tuple[int, ...]
    separator: bytes
    pads: tuple[bytes, bytes]
    padding: int
    preserve_short: bool

    @property
    def name(self) -> str:
        return "strings.ngrams"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        rank = len(strings.shape)
        if not rank:
            raise ValueError(f"{self.name}: data must have at least one dimension")
        if isinstance(strings, RaggedTensorSpec):
            if rank > 2:
                raise ValueError(f"{self.name}: ragged data has two dimensions, got {strings}")
            return one(RaggedTensorSpec(strings.shape, STRING))
        if rank > 1 and None in strings.shape:
            raise ValueError(f"{self.name}: of arrays only one dimension may vary, got {strings}")
        return one(TensorSpec((*strings.shape[:-1], None), STRING))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (column,) = columns
        documents = runs(column)
        given = documents.given
        # TensorFlow does not pad elements without any string.
        skipped = np.repeat(given.sizes() == 0, documents.counts)
        joining = (self.separator, *self.pads, self.padding)
        values, splits = string_ngrams(
            given.values,
            documents.splits,
            list(self.widths),
            joining,
            self.preserve_short,
            skipped,
        )
        ragged = isinstance(column, np.ndarray) and holds_ragged(column)
        return OperationResult([documents.put_rows(RaggedArray(values, splits), not ragged)])


def ngrams(
    data: Any,
    ngram_width: int | Sequence[int],
    separator: str | bytes = " ",
    pad_values: str | bytes | tuple[str | bytes, str | bytes] | None = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Runs of neighbouring strings joined, as ``tf.strings.ngrams``.

    Args:
        data: strings (..., length), or a ``RaggedArray`` of two dimensions.
        ngram_width: how many strings to join; of several widths, all n-grams of the first come
            first.
        separator: what stands between strings.
        pad_values: what stands for strings before the first and after the last, one or a pair;
            ``None``: no n-gram goes beyond them.
        padding_width: how many of these there are at most, always fewer than the width.
        preserve_short_sequences: whether a row too short for all widths gives one n-gram of all
            its strings instead of none.

    Returns:
        Strings (..., number); a ``RaggedArray`` if ``data`` is one.

    Raises:
        ValueError: a width is less than 1; there is a ``padding_width`` without ``pad_values``.
        TypeError: ``data`` holds no strings.
    """
    name = "strings.ngrams"
    widths = (ngram_width,) if isinstance(ngram_width, int) else tuple(ngram_width)
    checked = tuple(count_of(width, name, "ngram_width", least=1) for width in widths)
    if padding_width is not None and pad_values is None:
        raise ValueError(f"{name}: pad_values must be given if padding_width is")
    pads = pad_values if isinstance(pad_values, tuple | list) else (pad_values, pad_values)
    left, right = (b"" if pad is None else as_text(pad, name, "pad_values") for pad in pads)
    padding = 0 if pad_values is None else max(checked) - 1
    if padding_width is not None:
        padding = min(padding, count_of(padding_width, name, "padding_width", least=1))
    operation = Ngrams(
        checked,
        as_text(separator, name, "separator"),
        (left, right),
        padding,
        bool(preserve_short_sequences),
    )
    return apply(operation, data)
