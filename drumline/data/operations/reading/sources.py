"""Where elements come from: arrays, ranges, sequences, generators, stored elements."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drumline._core import mix64
from drumline._memory import BufferPool
from drumline._resumable import close_iterator
from drumline.data.elements.block import Block
from drumline.data.elements.columns import gather
from drumline.data.elements.errors import DataLossError, at_element, raised_for_good
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.rows import conform, owned, stack
from drumline.data.elements.spec import (
    INFINITE,
    LEAF_STRUCTURE,
    UNKNOWN,
    DatasetSpec,
    ElementSpec,
    StructureError,
    TensorSpec,
)
from drumline.data.functions.trace import place_of
from drumline.data.options import as_dataset
from drumline.data.plan.node import Node, Pass, Specified, Trail
from drumline.data.runtime.stage import Index, RandomAccessSource, Stage, State, ragged_rows
from drumline.data.storage.store.checksums import CheckedRows, damaged
from drumline.data.storage.store.directory import DESCRIPTION, StoredElements, read_directory

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Counter(Node):
    """``start``, ``start + step``, ..."""

    start: float
    step: float
    dtype: np.dtype
    name: ClassVar[str] = "counter"

    @property
    def spec(self) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), self.dtype),))

    @property
    def cardinality(self) -> int:
        return INFINITE

    def arguments(self) -> str:
        return f"start={self.start}, step={self.step}, dtype={self.dtype.name}"


@dataclasses.dataclass(frozen=True, eq=False)
class Random(Node):
    """Random integers; ``seed`` is always set here, drawn when the user gave none."""

    seed: int
    rerandomize: bool
    name: ClassVar[str] = "random"

    @property
    def spec(self) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), np.int64),))

    @property
    def cardinality(self) -> int:
        return INFINITE

    def arguments(self) -> str:
        return f"rerandomize_each_iteration={self.rerandomize}"


_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class _Numbers(Stage):
    """A stream that is a function of the position."""

    def __init__(self) -> None:
        self._position = 0

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = state["position"]

    def advance(self, count: int) -> None:
        self._position += count


class CounterStage(_Numbers):
    """``start + step * i``; a number that does not fit ``dtype`` is an error, and the end."""

    def __init__(self, start: float, step: float, dtype: np.dtype):
        super().__init__()
        self.start = start
        self.step = step
        self.dtype = dtype
        self._length = _how_many_fit(start, step, dtype)

    def next(self, limit: int) -> Block | None:
        if self._length is not None and self._position >= self._length:
            return self._beyond()
        room = limit if self._length is None else min(limit, self._length - self._position)
        start, steps = self._position, np.arange(room)
        self._position += room
        if self.dtype.kind == "f":
            column: np.ndarray = self.start + self.step * (start + steps.astype(np.float64))
        else:
            first, step = int(self.start) + int(self.step) * start, int(self.step)
            column = steps.astype(np.uint64) * np.uint64(step % 2**64) + np.uint64(first % 2**64)
        column = column.astype(self.dtype)
        column.flags.writeable = False
        return Block([column], room)

    def _beyond(self) -> Block | None:
        if self._position > (self._length or 0):
            return None
        value = int(self.start) + int(self.step) * self._position
        self._position += 1
        error = OverflowError(f"counter: {value} does not fit {self.dtype}; give a wider dtype")
        return Block([np.empty(0, self.dtype)], 0, error)

    def describe(self) -> str:
        return f"counter from {self.start} by {self.step}"


def _how_many_fit(start: float, step: float, dtype: np.dtype) -> int | None:
    """Return how many of the numbers ``dtype`` can hold, ``None`` for all."""
    if dtype.kind not in "iu" or step == 0:
        return None
    info = np.iinfo(dtype)
    room = (info.max - int(start)) if step > 0 else (int(start) - info.min)
    return int(Fraction(room, abs(int(step)))) + 1


class RandomStage(_Numbers):
    """Uniform integers of 0 to 2**32 - 1: the upper halves of splitmix64's sequence for a key."""

    def __init__(self, key: int):
        super().__init__()
        self._key = np.uint64(key)

    def next(self, limit: int) -> Block | None:
        first = np.uint64(self._position + 1)
        numbers = np.arange(limit, dtype=np.uint64) + first
        self._position += limit
        z = numbers * _GAMMA + self._key
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        column = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.int64)
        column.flags.writeable = False
        return Block([column], limit)

    def describe(self) -> str:
        return "random integers"


@functools.lru_cache
def _scalar(dtype: np.dtype) -> ElementSpec:
    """Return the spec of numbers of a dtype; functions make many ranges."""
    return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), dtype),))


@dataclasses.dataclass(frozen=True, eq=False)
class Range(Node):
    """Integers from ``start`` in steps of ``step``."""

    start: int
    step: int
    length: int
    dtype: np.dtype
    name: ClassVar[str] = "range"

    @property
    def spec(self) -> ElementSpec:
        return _scalar(self.dtype)

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        return (
            f"start={self.start}, step={self.step}, length={self.length}, dtype={self.dtype.name}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(Specified):
    """Rows of arrays."""

    columns: tuple[Any, ...]
    length: int
    name: ClassVar[str] = "from_tensor_slices"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        leaves = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in self.element.leaves)
        return f"{self.length} x {self.element.structure}: {leaves}"


@dataclasses.dataclass(frozen=True, eq=False)
class SlicesWithDatasets(Specified):
    """Rows of which some leaves are datasets, its inputs.

    Attributes:
        columns: arrays; of a leaf of datasets int64 (length,), the number of the input of each row.
    """

    columns: tuple[Any, ...]
    length: int
    name: ClassVar[str] = "from_tensor_slices"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        return f"{self.length} x {self.element.structure}: {len(self.inputs)} datasets"


@dataclasses.dataclass(frozen=True, eq=False)
class Generator(Specified):
    """The elements that the iterable of a Python callable yields."""

    factory: Callable[[], Iterable[Any]]
    label: str
    name: ClassVar[str] = "from_generator"

    @property
    def cardinality(self) -> int:
        return UNKNOWN

    def arguments(self) -> str:
        return f"{self.label}, {', '.join(map(str, self.element.leaves))}"


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceItems(Specified):
    """The item of a sequence at each index."""

    sequence: Sequence[Any]
    length: int
    label: str
    name: ClassVar[str] = "from_sequence"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        leaves = ", ".join(map(str, self.element.leaves))
        return f"{self.label}, {self.length} x {self.element.structure}: {leaves}"


@dataclasses.dataclass(frozen=True, eq=False)
class Stored(Specified):
    """The elements in a directory, memory-mapped."""

    columns: tuple[Any, ...]
    length: int
    path: str
    checks: tuple[Any, ...] = dataclasses.field(default=(), repr=False)
    name: ClassVar[str] = "load"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        return f"{self.path!r}, {self.length} x {self.element.structure}"


@dataclasses.dataclass(frozen=True, eq=False)
class StoredParts(Specified):
    """The content of directories, in order, each loaded as a whole when it is reached.

    Attributes:
        paths: of the directories.
        lengths: of each the number of elements.
        on_damage: is called when one turns out to be damaged, before that is raised.
    """

    paths: tuple[str, ...]
    lengths: tuple[int, ...]
    on_damage: Callable[[], None] | None = dataclasses.field(default=None, repr=False)
    name: ClassVar[str] = "load"

    @property
    def cardinality(self) -> int:
        return sum(self.lengths)

    def arguments(self) -> str:
        return f"{', '.join(map(repr, self.paths))}, {sum(self.lengths)} x {self.element.structure}"


def lower_counter(lowering: Lowering, node: Counter, trail: Trail, run: Pass) -> Stage:
    return CounterStage(node.start, node.step, node.dtype)


def lower_random(lowering: Lowering, node: Random, trail: Trail, run: Pass) -> Stage:
    key = mix64(node.seed, 0)
    for part in run if node.rerandomize else ():
        key = mix64(key, part)
    return RandomStage(key)


class Columns(RandomAccessSource):
    """Rows of arrays in memory; contiguous rows are views, others are gathered.

    Args:
        columns: the arrays.
        length: how many rows there are.
        pool: of buffers to gather into.
        checks: what rows are compared with before they are used, for arrays in files.
    """

    def __init__(
        self,
        columns: Sequence[np.ndarray],
        length: int,
        pool: BufferPool,
        checks: Sequence[CheckedRows | None] = (),
    ):
        self.columns = [_read_only(column) for column in columns]
        self._checks = [check for check in checks if check is not None]
        self.length = length
        self.ragged = any(isinstance(column, RaggedArray) for column in self.columns)
        self._gathers = [_gather(column, pool) for column in self.columns]

    def rows(self, index: Index) -> Block:
        for check in self._checks:
            check.check(index)
        if isinstance(index, range):
            return Block([c[index.start : index.stop] for c in self.columns], len(index))
        return Block([gather(index) for gather in self._gathers], len(index))

    def describe(self) -> str:
        size = sum(column.nbytes for column in self.columns)
        return f"arrays in memory ({self.length} elements, {size / 1e6:.1f} MB)"


class Gather:
    """Copies rows of one array into a recycled buffer."""

    def __init__(self, column: np.ndarray, pool: BufferPool):
        self._column = column
        self._pool = pool
        width = column[:1].nbytes
        self._bytes: np.ndarray | None = None
        if column.dtype != object and width > 0 and column.flags.c_contiguous:
            self._bytes = (
                column.view(np.uint8).reshape(len(column), width)
                if column.ndim > 1
                else (column.reshape(-1, 1).view(np.uint8))
            )

    def __call__(self, index: np.ndarray) -> np.ndarray:
        """Return the rows at ``index`` (k,), as a read-only array (k, ...)."""
        if self._bytes is None:
            out = self._column[index]
        else:
            out = self._pool.empty((len(index), *self._column.shape[1:]), self._column.dtype)
            width = self._bytes.shape[1]
            rows = (
                out.view(np.uint8).reshape(len(index), width)
                if out.ndim > 1
                else out.reshape(-1, 1).view(np.uint8)
            )
            gather(self._bytes, index, rows, self._pool.threads)
        out.flags.writeable = False
        return out


class Integers(RandomAccessSource):
    """``start + step * i`` as elements of a range."""

    def __init__(self, start: int, step: int, length: int, dtype: np.dtype):
        self.start = start
        self.step = step
        self.length = length
        self.dtype = dtype

    def rows(self, index: Index) -> Block:
        start, step = self.start, self.step
        if self.dtype == np.uint64:
            return Block([self._unsigned(index)], len(index))
        if isinstance(index, range):
            first = start + step * index.start
            column = np.arange(first, first + step * len(index), step, dtype=np.int64)
        else:
            column = index * step + start
        column = column.astype(self.dtype, copy=False)
        column.flags.writeable = False
        return Block([column], len(index))

    def _unsigned(self, index: Index) -> np.ndarray:
        """Return the same modulo 2**64, where int64 is too narrow on the way."""
        positions = np.asarray(index, np.int64).astype(np.uint64)
        column = positions * np.uint64(self.step % 2**64) + np.uint64(self.start % 2**64)
        column.flags.writeable = False
        return column

    def describe(self) -> str:
        return f"integers ({self.length} elements)"


def _gather(column: Any, pool: BufferPool) -> Callable[[np.ndarray], Any]:
    return Gather(column, pool) if isinstance(column, np.ndarray) else column.take


def _read_only(column: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return column
    view = column.view()
    view.flags.writeable = False
    return view


class SequenceRows(RandomAccessSource):
    """``sequence[i]``, checked against a spec; one thread at a time asks the sequence.

    A sequence with ``__getitems__`` (of torch's and Hugging Face's datasets) is asked for all
    items of a block at once, one with ``columns_at`` for their columns.
    """

    def __init__(self, sequence: Sequence[Any], length: int, spec: ElementSpec, name: str):
        self.sequence = sequence
        self.length = length
        self.spec = spec
        self.name = name
        self._lock = threading.Lock()
        self._fetched: dict[int, Any] = {}

    def rows(self, index: Index) -> Block:
        columns_at = getattr(self.sequence, "columns_at", None)
        if columns_at is not None:
            with self._lock:
                return Block(*columns_at(index))
        rows: list[list[np.ndarray]] = []
        error: Exception | None = None
        with self._lock:
            for position, value in zip(index, self._values(index), strict=False):
                try:
                    row = self._row(value, int(position))
                except Exception as raised:
                    error = at_element(raised, int(position), f"from_sequence({self.name})")
                    break
                if rows and any(a.shape != b.shape for a, b in zip(row, rows[0], strict=True)):
                    break
                self._fetched.pop(int(position), None)
                rows.append(owned(row))
        return Block(stack(rows, self.spec), len(rows), error)

    def _values(self, index: Index) -> Sequence[Any]:
        """Return the items, or ``_LATER`` for each that ``_row`` has to ask for."""
        fetch = getattr(self.sequence, "__getitems__", None)
        if fetch is None or len(index) < 2:
            return [self._fetched.get(int(i), _LATER) for i in index]
        if int(index[0]) in self._fetched:
            # Left of the last fetch, whose block ended where the shapes changed.
            known: list[Any] = [self._fetched.get(int(i), _LATER) for i in index]
            return known[: known.index(_LATER)] if _LATER in known else known
        try:
            values: list[Any] = list(fetch([int(i) for i in index]))
        except Exception:
            # One by one it will show which item it was.
            return [_LATER] * len(index)
        if len(values) != len(index):
            raise ValueError(
                f"from_sequence({self.name}): __getitems__ gave {len(values)} items for "
                f"{len(index)} positions"
            )
        self._fetched = {int(i): value for i, value in zip(index, values, strict=True)}
        return values

    def _row(self, value: Any, position: int) -> list[np.ndarray]:
        if value is _LATER:
            value = self.sequence[position]
        return conform(self.spec.structure.flatten(value), self.spec, "the first element's spec")

    def describe(self) -> str:
        if hasattr(self.sequence, "columns_at"):
            how = "read a block at a time"
        elif hasattr(self.sequence, "__getitems__"):
            how = "asked for a block at a time, by __getitems__"
        else:
            how = "asked for one by one"
        return f"items of {self.name} ({self.length} elements, {how})"


_LATER = object()


_PATIENCE = 0.005


class GeneratorStage(Stage):
    """Calls ``factory`` and checks each element it yields against ``spec``.

    Its state is the number of elements delivered: restoring runs the generator again up to there.
    """

    allows_readahead = False

    def __init__(
        self,
        factory: Callable[[], Iterable[Any]],
        spec: ElementSpec,
        name: str,
        pool: BufferPool,
    ):
        self.factory = factory
        self.spec = spec
        self.name = f"{name}{place_of(factory)}"
        self._pool = pool
        self._iterator: Iterator[Any] | None = None
        self._position = 0
        self._ended = False
        self._held: list[np.ndarray] | None = None

    def next(self, limit: int) -> Block | None:
        rows: list[list[np.ndarray]] = []
        error: Exception | None = None
        deadline = time.perf_counter() + _PATIENCE
        while len(rows) < limit and error is None:
            try:
                row = self._row()
            except Exception as raised:
                error = at_element(raised, self._position, f"from_generator({self.name})")
                self._position += 1
                break
            if row is None:
                break
            if rows and any(a.shape != b.shape for a, b in zip(row, rows[0], strict=True)):
                self._held = row
                break
            rows.append(owned(row) if limit > 1 else row)
            self._position += 1
            if time.perf_counter() > deadline:
                break
        if not rows and error is None:
            return None
        return Block(stack(rows, self.spec, self._pool.empty), len(rows), error)

    def _row(self) -> list[np.ndarray] | None:
        if self._held is not None:
            row, self._held = self._held, None
            return row
        if self._ended:
            return None
        try:
            if self._iterator is None:
                self._iterator = self._started()
            value = next(self._iterator)
        except StopIteration:
            self._ended = True
            return None
        except Exception:
            # A generator that raised is finished; asking it again would only say so. So is one
            # that could not be started: it would raise for ever.
            self._ended = True
            raise
        return conform(self._leaves(value), self.spec, "output_signature")

    def _started(self) -> Iterator[Any]:
        try:
            return iter(self.factory())
        except StopIteration as stop:
            raise raised_for_good(stop) from stop

    def _leaves(self, value: Any) -> list[Any]:
        """Return the leaves of a value, in which a tuple may stand for an array."""
        try:
            return self.spec.structure.flatten(value)
        except StructureError:
            leaves = self.spec.structure.flatten(value, arrays=True)
            pairs = zip(leaves, self.spec.leaves, strict=True)
            if any(isinstance(leaf, tuple) and not spec.shape for leaf, spec in pairs):
                raise
            return leaves

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self.advance(state["position"])

    def describe(self) -> str:
        return f"generator {self.name} (in order, no reading ahead; restoring runs it again)"

    def close(self) -> None:
        close_iterator(self._iterator)


class PartsStage(Stage):
    """Yields the elements of available parts in order; its state is a position.

    Args:
        lengths: of each part the number of elements.
    """

    def __init__(self, lengths: Iterable[int]):
        self._starts = [0, *itertools.accumulate(lengths)]
        self._position = 0

    @property
    def length(self) -> int:
        """How many elements there are."""
        return self._starts[-1]

    def part(self, which: int) -> Sequence[Any]:
        """Return the columns of a part."""
        raise NotImplementedError

    def next(self, limit: int) -> Block | None:
        if self._position >= self.length:
            return None
        which = bisect.bisect_right(self._starts, self._position) - 1
        first, end = self._starts[which], self._starts[which + 1]
        start, stop = self._position, min(self._position + limit, end)
        columns = [column[start - first : stop - first] for column in self.part(which)]
        self._position = stop
        return Block(columns, stop - start)

    def state(self) -> State:
        return {"position": self._position}

    def restore(self, state: State) -> None:
        self._position = state["position"]

    def advance(self, count: int) -> None:
        self._position = min(self._position + count, self.length)


class StoredPartsStage(PartsStage):
    """Goes through the directories in order and holds one of them in memory."""

    def __init__(self, node: StoredParts):
        super().__init__(node.lengths)
        self.ragged = ragged_rows(node.spec)
        self._node = node
        self._held: tuple[int, StoredElements] | None = None

    def part(self, which: int) -> Sequence[Any]:
        if self._held is None or self._held[0] != which:
            self._held = None
            self._held = (which, self._read(Path(self._node.paths[which]), which))
        return self._held[1].columns

    def _read(self, path: Path, which: int) -> StoredElements:
        try:
            return self._as_described(path, read_directory(path), which)
        except DataLossError:
            if self._node.on_damage is not None:
                self._node.on_damage()
            raise

    def _as_described(self, path: Path, found: StoredElements, which: int) -> StoredElements:
        expected = self._node.lengths[which]
        if found.length != expected or found.spec.leaves != self._node.spec.leaves:
            raise damaged(
                path / DESCRIPTION,
                f"it describes {found.length} x {found.spec.leaves}, the directory around it says "
                f"{expected} x {self._node.spec.leaves}: store the dataset again",
            )
        return found

    def describe(self) -> str:
        return f"stored elements ({self.length}, compressed, {len(self._node.paths)} parts)"

    def close(self) -> None:
        self._held = None


def index_range(lowering: Lowering, node: Range, trail: Trail, run: Pass) -> RandomAccessSource:
    return Integers(node.start, node.step, node.length, node.dtype)


def index_slices(lowering: Lowering, node: Slices, trail: Trail, run: Pass) -> RandomAccessSource:
    return Columns(node.columns, node.length, lowering.pool)


def index_slices_with_datasets(
    lowering: Lowering, node: SlicesWithDatasets, trail: Trail, run: Pass
) -> RandomAccessSource:
    datasets = np.empty(len(node.inputs), object)
    for i, plan in enumerate(node.inputs):
        datasets[i] = as_dataset(plan)
    pairs = zip(node.columns, node.spec.leaves, strict=True)
    columns = [
        datasets[column] if isinstance(leaf, DatasetSpec) else column for column, leaf in pairs
    ]
    return Columns(columns, node.length, lowering.pool)


def index_stored(lowering: Lowering, node: Stored, trail: Trail, run: Pass) -> RandomAccessSource:
    return Columns(node.columns, node.length, lowering.pool, node.checks)


def lower_stored_parts(lowering: Lowering, node: StoredParts, trail: Trail, run: Pass) -> Stage:
    return StoredPartsStage(node)


def index_items(
    lowering: Lowering, node: SequenceItems, trail: Trail, run: Pass
) -> RandomAccessSource:
    return SequenceRows(node.sequence, node.length, node.spec, node.label)


def lower_generator(lowering: Lowering, node: Generator, trail: Trail, run: Pass) -> Stage:
    return GeneratorStage(node.factory, node.spec, node.label, lowering.pool)
