"""``group_by_window``: elements of equal keys as windows, and the datasets made of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drumline.data.elements.block import Block, concat
from drumline.data.elements.errors import at_element
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import INFINITE, UNKNOWN
from drumline.data.functions.build import BuiltFunction, ShapeFunction
from drumline.data.operations.cache import ReplayStage
from drumline.data.operations.nested.dataset_function import WindowSize
from drumline.data.operations.nested.inner_datasets import Open, joined_runs, opener
from drumline.data.operations.nested.nesting import Nested
from drumline.data.operations.nested.windows import held_rows
from drumline.data.options import as_dataset
from drumline.data.plan.node import Pass, Trail
from drumline.data.runtime.stage import PushbackBuffer, Stage, State

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True)
class Source:
    """A block that was read: where in the input it begins, and how to read it again."""

    start: int
    before: State


@dataclasses.dataclass(frozen=True)
class Places:
    """Where rows of one key are in one block.

    Attributes:
        offsets: their positions in the block, ascending.
        source: the block.
    """

    offsets: np.ndarray
    source: Source


@dataclasses.dataclass(frozen=True)
class KeyRows(Places):
    """Rows of one key from one block.

    Attributes:
        rows: they themselves.
    """

    rows: Block


class Waiting:
    """Rows of each key that are too few yet."""

    def __init__(self) -> None:
        self._parts: dict[int, list[KeyRows]] = {}
        self._counts: dict[int, int] = {}

    def count(self, key: int) -> int:
        """Return how many rows of a key wait."""
        return self._counts.get(key, 0)

    def add(self, key: int, part: KeyRows) -> None:
        """Add further rows of a key."""
        self._parts.setdefault(key, []).append(part)
        self._counts[key] = self._counts.get(key, 0) + part.rows.n

    def take(self, key: int) -> list[KeyRows]:
        """Remove a key's rows."""
        self._counts.pop(key, None)
        return self._parts.pop(key, [])

    def smallest(self) -> int | None:
        """Return the smallest key of which rows wait."""
        return min(self._parts, default=None)

    def __iter__(self) -> Iterator[tuple[int, list[KeyRows]]]:
        return iter(self._parts.items())


class KeyedBlock:
    """A block with the key of each row, used up row by row.

    Args:
        rows: the block; an error of it is not looked at.
        keys: int64 (n,).
        source: where it was read.
        counts: how many rows of each key wait already, by key.
        sizes: how many rows of each key make a window, by key.
    """

    def __init__(
        self,
        rows: Block,
        keys: np.ndarray,
        source: Source,
        counts: dict[int, int],
        sizes: dict[int, int],
    ):
        self.used = 0
        self._rows = rows
        self._source = source
        self._places = _places(keys)
        full = [
            (row, key)
            for key, places in self._places.items()
            for row in places[sizes[key] - counts[key] - 1 :: sizes[key]].tolist()
        ]
        self._full = sorted(full, reverse=True)

    def next_full(self) -> tuple[int, int] | None:
        """Return the next row that completes a window, and its key."""
        return self._full.pop() if self._full else None

    def take(self, key: int, stop: int) -> list[KeyRows]:
        """Remove the rows of a key before the row ``stop``."""
        places = self._places[key]
        count = int(places.searchsorted(stop))
        self._places[key] = places[count:]
        return [self._part(places[:count])] if count else []

    def rest(self, stop: int) -> Iterator[tuple[int, KeyRows]]:
        """Yield the rows before ``stop`` that are left, by key."""
        for key, places in self.left(stop):
            yield key, self._part(places.offsets)

    def left(self, stop: int) -> Iterator[tuple[int, Places]]:
        """Yield where the rows before ``stop`` are that are left, by key."""
        for key, places in self._places.items():
            count = int(places.searchsorted(stop))
            if count:
                yield key, Places(places[:count], self._source)

    def _part(self, places: np.ndarray) -> KeyRows:
        if len(places) == 1:
            # A copy: a view would keep the whole block alive.
            row = int(places[0])
            columns = [column[row : row + 1].copy() for column in self._rows.columns]
        else:
            columns = [column[places] for column in self._rows.columns]
        return KeyRows(places, self._source, Block(columns, len(places)))


def _places(keys: np.ndarray) -> dict[int, np.ndarray]:
    """Return the rows of each key, ascending."""
    if len(keys) < 2:
        return {int(key): np.zeros(1, np.int64) for key in keys}
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, starts[1:]), strict=True))


def positions(parts: Sequence[Places], origin: int) -> list[int]:
    """Return the rows' positions in the input, counted from ``origin``."""
    if not parts:
        return []
    counted = [part.offsets + (part.source.start - origin) for part in parts]
    found: list[int] = np.concatenate(counted).tolist()
    return found


class Selection:
    """Collects rows by their positions while the input is read again."""

    def __init__(self, wanted: Sequence[Any]):
        self._wanted = [np.array(places, np.int64) for places in wanted]
        self.found: list[list[KeyRows]] = [[] for _ in wanted]

    def look(self, block: Block, source: Source) -> None:
        """Store those rows of a block that are wanted."""
        for places, parts in zip(self._wanted, self.found, strict=True):
            low, high = np.searchsorted(places, [source.start, source.start + block.n])
            if high > low:
                offsets = places[low:high] - source.start
                columns = [column[offsets] for column in block.columns]
                parts.append(KeyRows(offsets, source, Block(columns, len(offsets))))


_MOST_AT_ONCE = 1024


class _Window:
    """A window whose dataset is being read."""

    def __init__(
        self,
        key: int,
        number: int,
        parts: list[KeyRows],
        elements: PushbackBuffer,
        caches: list[bool],
    ):
        self.key = key
        self.number = number
        self.parts = parts
        self.elements = elements
        self.caches = caches


class GroupStage(Stage):
    """Gathers rows by key; a full window is given to the function, and its dataset read at once.

    At the end of the input windows that are not full follow, by ascending keys. Its state is the
    positions of the rows that wait: restoring reads the input again from the oldest of them.
    """

    def __init__(self, source: Stage, node: GroupByWindow, open_: Open, run: Sequence[int]):
        self.source = source
        self.node = node
        self.allows_readahead = source.allows_readahead and node.function.allows_readahead
        self._open = open_
        self._run = tuple(run)
        self._pushback = PushbackBuffer(source)
        batched = node.function.batched
        self._batched = None if batched is None else batched[0]
        if self._batched is not None:
            self._most = self._batched.size or 0
            self._least = self._most if self._batched.drop_remainder else 1
        self._waiting = Waiting()
        self._sizes: dict[int, int] = {}
        self._block: KeyedBlock | None = None
        self._error: Exception | None = None
        self._stop = 0
        self._position = 0
        self._window: _Window | None = None
        self._windows = 0
        self._want = 1

    def next(self, limit: int) -> Block | None:
        return joined_runs(self._peek, self._use_window, limit, self.node.spec)

    def _peek(self, limit: int) -> Block | None:
        """Return what comes next of the window that is read, or of the next that has elements."""
        while True:
            if self._window is not None:
                block = self._window.elements.peek(limit)
                if block is not None:
                    return block
                self._window.elements.stage.close()
                self._window = None
            try:
                if not self._gather():
                    return None
            except Exception as error:
                return Block(stack([], self.node.spec), 0, error)

    def _use_window(self, positions: int) -> None:
        if self._window is not None:
            self._window.elements.commit(positions)

    def _gather(self) -> bool:
        """Read until a window is full, and open it; false if no row is left.

        Raises:
            Exception: the error in an element's place, or what a user's function raised.
        """
        while True:
            if self._block is None and not self._read():
                key = self._waiting.smallest()
                if key is None:
                    return False
                self._start(key, self._waiting.take(key))
                return True
            block = self._block
            assert block is not None
            full = block.next_full()
            if full is not None:
                row, key = full
                self._use(row + 1 - block.used)
                self._start(key, self._waiting.take(key) + block.take(key, row + 1))
                return True
            self._use(self._stop - block.used)
            for key, part in block.rest(self._stop):
                self._waiting.add(key, part)
            self._block = None
            if self._error is not None:
                error, self._error = self._error, None
                self._use(1)
                raise error

    def _use(self, count: int) -> None:
        self._pushback.commit(count)
        self._position += count
        if self._block is not None:
            self._block.used += count

    def _read(self) -> bool:
        """Take up the next block, with the key of each row; false at the end."""
        key = self.node.key.run
        source = Source(self._position, self._pushback.state())
        block = self._pushback.peek(key.limit(self._wanted()))
        if block is None:
            return False
        start = self._position
        found = key(block, lambda row: start + row)
        keys = found.columns[0][: found.n].astype(np.int64)
        self._stop, self._error = found.n, found.error
        counts = {k: self._waiting.count(k) for k in dict.fromkeys(keys.tolist())}
        for k in counts:
            if k in self._sizes:
                continue
            row = int(np.argmax(keys == k))
            if not self._sized(k, start + row):
                self._stop = row
                keys = keys[: self._stop]
                break
        self._block = KeyedBlock(block.slice(0, self._stop), keys, source, counts, self._sizes)
        return True

    def _sized(self, key: int, position: int) -> bool:
        """Call the user's function for the window size of a new key; store its error."""
        try:
            self._sizes[key] = self.node.size(np.int64(key))
        except Exception as error:
            self._error = at_element(error, position, f"group_by_window({self.node.size.label})")
            return False
        return True

    def _wanted(self) -> int:
        if not self.allows_readahead:
            return 1
        self._want = min(2 * self._want, _MOST_AT_ONCE)
        return max(
            self._want // 2, self.source.preferred_block_size, self.node.key.run.block_length
        )

    def _start(self, key: int, parts: list[KeyRows]) -> None:
        number = self._windows
        self._windows += 1
        self._window = self._opened(key, number, parts, None)

    def _opened(
        self, key: int, number: int, parts: list[KeyRows], caches: list[bool] | None
    ) -> _Window:
        batch = self._batch(parts)
        if batch is not None:
            return _Window(key, number, parts, PushbackBuffer(ReplayStage([batch])), [])
        rows = held_rows([part.rows for part in parts], self.node.input.spec)
        place = (*self._run, number)
        plan = self.node.function((np.int64(key), as_dataset(rows)), place)
        stage, served = self._open(plan, place, caches)
        return _Window(key, number, parts, PushbackBuffer(stage), served)

    def _batch(self, parts: list[KeyRows]) -> Block | None:
        """Return what the function makes of a window, if it is known to be one batch of it."""
        if self._batched is None:
            return None
        n = sum(part.rows.n for part in parts)
        if n > self._most or n < self._least:
            return None
        first = parts[0].rows
        if len(parts) > 1:
            if not all(first.same_shapes(part.rows) for part in parts[1:]):
                return None
            first = concat([part.rows for part in parts])
        if not all(isinstance(column, np.ndarray) for column in first.columns):
            return None
        return Block([column[None] for column in first.columns], 1)

    def state(self) -> State:
        waiting: dict[int, list[Places]] = {key: list(parts) for key, parts in self._waiting}
        if self._block is not None:
            for key, places in self._block.left(self._block.used):
                waiting.setdefault(key, []).append(places)
        window = self._window
        opened: Sequence[Places] = [] if window is None else window.parts
        oldest = min(
            [part.source for parts in (*waiting.values(), opened) for part in parts],
            key=lambda source: source.start,
            default=Source(self._position, self._pushback.state()),
        )
        return {
            "from": oldest.start,
            "at": oldest.before,
            "to": self._position,
            "windows": self._windows,
            "waiting": [[key, positions(parts, oldest.start)] for key, parts in waiting.items()],
            "window": None
            if window is None
            else {
                "key": window.key,
                "number": window.number,
                "caches": window.caches,
                "rows": positions(window.parts, oldest.start),
                "elements": window.elements.state(),
            },
        }

    def restore(self, state: State) -> None:
        self._pushback.restore(state["at"])
        self._position, self._windows = state["from"], state["windows"]
        saved = state["window"]
        wanted = [places for _, places in state["waiting"]]
        wanted.append([] if saved is None else saved["rows"])
        selection = Selection([[p + state["from"] for p in places] for places in wanted])
        while self._position < state["to"]:
            source = Source(self._position, self._pushback.state())
            block = self._pushback.pull(min(_MOST_AT_ONCE, state["to"] - self._position))
            if block is None:
                raise ValueError(
                    f"the state was taken after element {state['to'] - 1} of the grouped dataset, "
                    f"which now has {self._position}: its source is not what it was"
                )
            selection.look(block, source)
            self._position += block.events
        for (key, _), parts in zip(state["waiting"], selection.found, strict=False):
            self._sizes[key] = self.node.size(np.int64(key))
            for part in parts:
                self._waiting.add(key, part)
        if saved is not None:
            window = self._opened(
                saved["key"], saved["number"], selection.found[-1], saved["caches"]
            )
            window.elements.restore(saved["elements"])
            self._window = window

    def most_nbytes(self) -> int | None:
        return None

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"group by {self.node.key.run.describe()}, then {self.node.function.label}"

    def close(self) -> None:
        if self._window is not None:
            self._window.elements.stage.close()
        self.source.close()


@dataclasses.dataclass(frozen=True, eq=False)
class GroupByWindow(Nested):
    """Elements of equal keys, so many at a time, as the dataset that a function makes of them.

    Attributes:
        key: gives an element's key.
        size: gives how many elements of a key make a window.
    """

    key: BuiltFunction
    size: WindowSize
    name: ClassVar[str] = "group_by_window"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN

    def arguments(self) -> str:
        return f"{self.function.label}, {self.size.label}"


def lower_group_by_window(
    lowering: Lowering, node: GroupByWindow, trail: Trail, run: Pass
) -> Stage:
    ragged = node.key.is_python or isinstance(node.key.run, ShapeFunction)
    source = lowering.input(node, trail, run, ragged=ragged)
    return GroupStage(source, node, opener(lowering), run)
