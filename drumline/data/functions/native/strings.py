"""Native operations on strings: chains, comparisons, parts, numbers of vocabularies."""

from __future__ import annotations

import abc
import dataclasses
import functools
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from drumline._core import StringChain, StringPattern, StringTable, hash_strings
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, splits_of
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.flat import flat, holds_ragged
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult

Change = str | tuple[StringPattern, bytes, bool]
"""As ``StringChain`` takes it."""

Substring = tuple[bytes, int]
"""At what strings are cut, and how often at most."""

LookupTable = tuple[StringTable, tuple[int, int, int]]
"""How ``StringChain.numbers`` numbers strings."""


class Link(NativeOperation):
    """An operation on each string alone: changes it, cuts it into parts or gives its number."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Those that this one is made of."""
        return (self,)

    @property
    def changes(self) -> tuple[Change, ...]:
        """How strings change."""
        return ()

    @property
    def cut(self) -> Substring | None:
        """How they are cut, if they are."""
        return None

    @property
    def lookup_table(self) -> LookupTable | None:
        """What numbers they get, if they do and none fails."""
        return None

    def after(self, before: NativeOperation) -> NativeOperation | None:
        if not isinstance(before, Link) or before.lookup_table is not None:
            return None
        if self.lookup_table is None and (before.cut is not None or not (self.changes or self.cut)):
            return None
        return Chain((*before.links, *self.links))


@dataclasses.dataclass(frozen=True)
class Chain(Link):
    """Changes, then perhaps a cut, then perhaps numbers."""

    steps: tuple[Link, ...]

    @property
    def name(self) -> str:
        return " + ".join(step.name for step in self.steps)

    @property
    def links(self) -> tuple[Link, ...]:
        return self.steps

    @property
    def changes(self) -> tuple[Change, ...]:
        return functools.reduce(operator.add, (step.changes for step in self.steps))

    @property
    def cut(self) -> Substring | None:
        return next((step.cut for step in self.steps if step.cut is not None), None)

    @property
    def lookup_table(self) -> LookupTable | None:
        return self.steps[-1].lookup_table

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        results = self.steps[0].results(*arguments)
        for step in self.steps[1:]:
            results = step.results(*results.leaves)
        return results

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        chain = _chain(self.changes, self.cut)
        values: np.ndarray
        if self.lookup_table is None:
            values, splits = chain.parts(given.values)
        else:
            values, splits = chain.numbers(given.values, *self.lookup_table)
        return OperationResult(
            [given.put(values) if self.cut is None else given.expand(values, splits)]
        )


@functools.lru_cache(64)
def _chain(changes: tuple[Change, ...], cut: Substring | None) -> StringChain:
    return StringChain(list(changes), cut)


def one(leaf: TensorSpec) -> ElementSpec:
    """A result that is one leaf."""
    return ElementSpec(LEAF_STRUCTURE, (leaf,))


def require_strings(name: str, spec: TensorSpec) -> None:
    """Refuses what is no string or array of strings.

    Raises:
        TypeError: it is none.
    """
    if spec.dtype != STRING:
        raise TypeError(f"{name}: expected strings, got {spec.dtype} values of {spec.shape}")


def is_dense(spec: TensorSpec) -> bool:
    """Whether all values have one shape."""
    return spec.is_static and not isinstance(spec, RaggedTensorSpec)


def with_dtype(spec: TensorSpec, dtype: Any) -> TensorSpec:
    """The same shape with another dtype."""
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(spec.shape, dtype, spec.ragged_rank)
    return TensorSpec(spec.shape, dtype)


def expanded(spec: TensorSpec, dtype: Any) -> TensorSpec:
    """A run of values of any length in place of each value."""
    if not spec.shape:
        return TensorSpec((None,), dtype)
    rows = None if None in spec.shape[:1] else spec.shape[0]
    rank = len(spec.shape)
    return RaggedTensorSpec((rows, *[None] * rank), dtype, rank)


def shape_of(spec: TensorSpec) -> str:
    """For messages."""
    return str(tuple(spec.shape))


def as_text(value: str | bytes, name: str, argument: str) -> bytes:
    """A static argument that is text, as bytes.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | np.bytes_):
        return bytes(value)
    raise TypeError(f"{name}: {argument} must be a string, got {value!r:.60}")


Bad = tuple[int, str]
"""Which of the values has no result, and why."""


class Elementwise(NativeOperation):
    """Makes one value of each string, wherever in an array it is."""

    @property
    def dtype(self) -> np.dtype:
        """Of the results."""
        return STRING

    @abc.abstractmethod
    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        """Results for strings (n,): all, or those before the first that has none."""

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        return one(with_dtype(strings, self.dtype))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        made, bad = self.compute(given.values)
        if bad is None:
            return OperationResult([given.put(made)])
        place, reason = bad
        row = given.row_of(place)
        before = given.head(row)
        return OperationResult([before.put(made[: len(before.values)])], failure(self.name, reason))


def failure(name: str, reason: str) -> ValueError:
    """What is raised for a value without a result."""
    return ValueError(f"{name}: {reason}")


def shown(value: bytes) -> str:
    """A string in a message."""
    return repr(value if len(value) <= 60 else value[:57] + b"...")


@dataclasses.dataclass(frozen=True)
class Equal(NativeOperation):
    """Whether strings at the same places are the same; dense arrays are broadcast."""

    negated: bool

    @property
    def name(self) -> str:
        return "strings.not_equal" if self.negated else "strings.equal"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        for spec in arguments:
            require_strings(self.name, spec)
        x, y = arguments
        if is_dense(x) and is_dense(y):
            return one(TensorSpec(self._broadcast(x, y), np.bool_))
        common = y if not x.shape else x if not y.shape else x.merged(y)
        if common is None:
            raise self._misfit(x, y)
        return one(with_dtype(common, np.bool_))

    def _broadcast(self, x: TensorSpec, y: TensorSpec) -> tuple[int, ...]:
        try:
            return np.broadcast_shapes(*(tuple(dim or 0 for dim in s.shape) for s in (x, y)))
        except ValueError:
            raise self._misfit(x, y) from None

    def _misfit(self, x: TensorSpec, y: TensorSpec) -> ValueError:
        found = f"{shape_of(x)} and {shape_of(y)}"
        return failure(self.name, f"arrays of shapes {found} do not go together")

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        x, y = columns
        if _is_array(x) and _is_array(y):
            rank = max(np.ndim(x), np.ndim(y))
            same = np.asarray(_raised(x, rank) == _raised(y, rank), np.bool_)
            return OperationResult([~same if self.negated else same])
        return self._varying(columns if not _is_array(x) else columns[::-1], n)

    def _varying(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Of rows of different lengths, and others of the same lengths or one string each."""
        whole, other = (flat(column) for column in columns)
        if whole.scalar:
            whole, other = other, whole
        sizes = whole.sizes()
        unequal = np.zeros(n, np.bool_) if other.scalar else other.sizes() != sizes
        bad = np.flatnonzero(unequal)
        rows = int(bad[0]) if len(bad) else n
        whole, other = whole.head(rows), other.head(rows)
        values = np.repeat(other.values, sizes[:rows]) if other.scalar else other.values
        same = np.asarray(whole.values == values, np.bool_)
        made = whole.put(~same if self.negated else same)
        if rows == n:
            return OperationResult([made])
        return OperationResult(
            [made], failure(self.name, "arrays of different lengths are compared")
        )


def _is_array(column: Column) -> bool:
    return isinstance(column, np.ndarray) and not holds_ragged(column)


def _raised(column: Column, rank: int) -> np.ndarray:
    """A column with dimensions of length 1 between rows and values, so that it has ``rank``."""
    array = np.asarray(column)
    return array.reshape(len(array), *(1,) * (rank - array.ndim), *array.shape[1:])


SliceParts = tuple[int | None, int | None, int | None]
IndexPart = int | SliceParts | EllipsisType | None
"""One index: a place, a slice's start, stop and step, an ellipsis, or a new dimension."""


@dataclasses.dataclass(frozen=True)
class Index(NativeOperation):
    """What numpy's indices find in each element's array."""

    parts: tuple[IndexPart, ...]

    @property
    def name(self) -> str:
        return f"[{', '.join(map(_shown, self.parts))}]"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        if is_dense(strings):
            sample = np.broadcast_to(np.False_, tuple(dim or 0 for dim in strings.shape))
            return one(TensorSpec(sample[_numpy_key(self.parts)].shape, strings.dtype))
        return one(TensorSpec((None,) if isinstance(self.parts[0], tuple) else (), strings.dtype))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (column,) = columns
        if not isinstance(column, RaggedArray):
            key = (slice(None), *_numpy_key(self.parts))
            return OperationResult([np.ascontiguousarray(np.asarray(column)[key])])
        (part,) = self.parts
        if isinstance(part, tuple):
            return OperationResult([_cut(column, slice(*part))])
        assert isinstance(part, int)
        return self._one(column, part, n)

    def _one(self, column: RaggedArray, place: int, n: int) -> OperationResult:
        lengths = column.row_lengths()
        missing = np.flatnonzero(lengths < (place + 1 if place >= 0 else -place))
        rows = int(missing[0]) if len(missing) else n
        edges = column.row_splits
        places = (edges[:-1] if place >= 0 else edges[1:])[:rows] + place
        made = column.values[places]
        if rows == n:
            return OperationResult([made])
        found = f"{self.name}: there is no such place among {lengths[rows]} strings"
        return OperationResult([made], IndexError(found))


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


def static_parts(key: Any, spec: TensorSpec) -> tuple[IndexPart, ...] | None:
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


def _part(key: Any) -> IndexPart:
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


def _numpy_key(parts: tuple[IndexPart, ...]) -> tuple[Any, ...]:
    return tuple(slice(*part) if isinstance(part, tuple) else part for part in parts)


def _shown(part: IndexPart) -> str:
    if part is Ellipsis:
        return "..."
    if not isinstance(part, tuple):
        return str(part)
    start, stop, step = ("" if value is None else str(value) for value in part)
    return f"{start}:{stop}" + (f":{step}" if step else "")


class Vocabulary:
    """Different strings, numbered from 0 on; two are equal if their strings are.

    Args:
        tokens: the strings.

    Raises:
        ValueError: one occurs twice.
    """

    def __init__(self, tokens: Sequence[bytes]):
        self.tokens = tuple(tokens)
        self.table  # noqa: B018  Finds strings that occur twice.

    @functools.cached_property
    def table(self) -> StringTable:
        """As the core looks strings up."""
        column = np.empty(len(self.tokens), object)
        column[:] = self.tokens
        return StringTable(column)

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash((len(self.tokens), self.tokens[:8]))

    def __reduce__(self) -> tuple[type, tuple[tuple[bytes, ...]]]:
        return type(self), (self.tokens,)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self.tokens)} strings)"


@dataclasses.dataclass(frozen=True)
class LookUp(Elementwise, Link):
    """The number of each string.

    Attributes:
        vocabulary: the strings that have one.
        first: what its first counts as.
        absent: what other strings count as; ``None`` if they are an error.
        buckets: how many numbers after the vocabulary's are theirs, by their hash, if there are
            any.
        label: the operation's name.
    """

    vocabulary: Vocabulary
    first: int = 0
    absent: int | None = None
    buckets: int = 0
    label: str = "strings.lookup"

    @property
    def name(self) -> str:
        return self.label

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    @property
    def lookup_table(self) -> LookupTable | None:
        if self.absent is None and not self.buckets:
            return None
        return self.vocabulary.table, (self.first, self.absent or 0, self.buckets)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        numbers = self.vocabulary.table.numbers(values)
        missing = np.flatnonzero(numbers < 0)
        numbers += self.first
        if not len(missing):
            return numbers, None
        if self.buckets:
            after = self.first + len(self.vocabulary)
            numbers[missing] = after + hash_strings(values[missing], self.buckets)
        elif self.absent is not None:
            numbers[missing] = self.absent
        else:
            place = int(missing[0])
            return numbers, (place, f"{shown(values[place])} is not in the vocabulary")
        return numbers, None
