"""``window``: runs of elements as datasets, or stacked where they would only be batched."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from drumline.data.elements.block import Block, concat, estimated_nbytes
from drumline.data.elements.columns import concatenated
from drumline.data.elements.ragged import RaggedArray, joined, uniform
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import (
    LEAF_STRUCTURE,
    STRING,
    UNKNOWN,
    DatasetSpec,
    ElementSpec,
    is_known,
)
from drumline.data.operations.cache import ReplayStage
from drumline.data.operations.reading.sources import Slices
from drumline.data.options import as_dataset
from drumline.data.plan.node import Node, Pass, Specified, Trail
from drumline.data.runtime.stage import (
    TARGET_BYTES,
    CountingStage,
    PushbackBuffer,
    ServingStage,
    Stage,
    State,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class BufferedElements(Specified):
    """Buffered elements whose shapes differ: the content of a window."""

    blocks: tuple[Block, ...]
    name: ClassVar[str] = "rows"
    digest_name: ClassVar[str | None] = "Rows"

    @property
    def cardinality(self) -> int:
        return sum(block.n for block in self.blocks)

    def arguments(self) -> str:
        return f"{self.cardinality} x {', '.join(map(str, self.element.leaves))}"


@dataclasses.dataclass(frozen=True, eq=False)
class Window(Node):
    """Runs of elements as datasets, one for each leaf."""

    size: int
    shift: int
    stride: int
    drop_remainder: bool
    name: ClassVar[str] = "window"

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last of a window, both included."""
        return (self.size - 1) * self.stride + 1

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        return inner.with_leaves(
            [DatasetSpec(ElementSpec(LEAF_STRUCTURE, (leaf,))) for leaf in inner.leaves]
        )

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if not is_known(inner):
            return inner
        if self.drop_remainder:
            return 0 if inner < self.span else (inner - self.span) // self.shift + 1
        return -(-inner // self.shift)

    def arguments(self) -> str:
        return (
            f"{self.size}, shift={self.shift}, stride={self.stride}, "
            f"drop_remainder={self.drop_remainder}"
        )


def held_rows(blocks: Sequence[Block], element: ElementSpec) -> Node:
    """Return a plan of buffered rows without errors; those of different lengths become ragged."""
    blocks = [block for block in blocks if block.n]
    if not blocks:
        return Slices((), element, tuple(stack([], element)), 0)
    if all(block.same_shapes(blocks[0]) for block in blocks[1:]):
        whole = concat(blocks)
        return Slices((), element, tuple(whole.columns), whole.n)
    leaves = list(zip(*(block.columns for block in blocks), strict=True))
    if all(_differ_in_length_alone(parts) for parts in leaves):
        count = sum(block.n for block in blocks)
        return Slices((), element, tuple(_joined(parts) for parts in leaves), count)
    return BufferedElements((), element, tuple(blocks))


def _differ_in_length_alone(parts: Sequence[Any]) -> bool:
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) == 1:
        return True
    return parts[0].dtype != STRING and len({(len(shape), shape[1:]) for shape in shapes}) == 1


def _joined(parts: Sequence[Any]) -> Any:
    if len({part.shape[1:] for part in parts}) == 1:
        return concatenated(parts)
    return joined([part if isinstance(part, RaggedArray) else uniform(part) for part in parts])


class WindowStage(Stage):
    """A dataset for each leaf, of every ``stride``-th of ``span`` elements.

    Its state is where the next window begins: the blocks that reach into it are read again.
    """

    def __init__(self, source: Stage, node: Window):
        self.source = source
        self.node = node
        self.allows_readahead = source.allows_readahead
        self._pushback = PushbackBuffer(source)
        self._row_nbytes = node.input.spec.row_nbytes()
        self._most = max(1, TARGET_BYTES // (node.shift * self._row_nbytes))
        self._specs = [ElementSpec(LEAF_STRUCTURE, (leaf,)) for leaf in node.input.spec.leaves]
        self._held: deque[tuple[State, Block]] = deque()
        self._whole: Block | None = None
        self._have = 0
        self._skip = 0
        self._ended = False
        self._overlapping = -(-node.span // node.shift) - 1
        self._windows = 0

    def next(self, limit: int) -> Block | None:
        starts = self._starts(limit)
        if not starts:
            return self._left_over()
        block = self._made(starts)
        self._move_on(block.events)
        return block

    def _move_on(self, windows: int) -> None:
        """Leave so many windows behind; the last that reach into the next one are counted."""
        self._windows = min(self._windows + windows, self._overlapping)
        self._drop(windows * self.node.shift)

    def _left_over(self) -> Block | None:
        """Return the error among elements that no full window has, where only full ones are made.

        What is left at the end is left out, and an error must not be.
        """
        first = 0
        for _, block in self._held:
            position = first + block.n
            if block.error is not None and self._is_of_short_window(position):
                self._drop(self._have)
                return Block(stack([], self.node.spec), 0, block.error)
            first += block.events
        return None

    def _is_of_short_window(self, position: int) -> bool:
        """Whether windows that are not full have a position, and none before them does."""
        node = self.node

        def has(start: int) -> bool:
            number, rest = divmod(position - start, node.stride)
            return not rest and 0 <= number < node.size

        before = (-node.shift * number for number in range(1, self._windows + 1))
        return any(map(has, range(0, position + 1, node.shift))) and not any(map(has, before))

    def _starts(self, limit: int) -> range:
        """Return where the next windows begin, up to ``limit`` of them, after reading them."""
        node = self.node
        limit = min(limit, self._most)
        self._fill(node.span + (limit - 1) * node.shift)
        starts = range(0, min(limit * node.shift, self._have), node.shift)
        if node.drop_remainder:
            starts = range(0, min(starts.stop, self._have - node.span + 1), node.shift)
        if starts:
            self._join()
        return starts

    def _made(self, starts: range) -> Block:
        """Return the elements of windows from the first of ``starts`` on, at least one."""
        windows: list[list[Any]] = []
        error: Exception | None = None
        for start in starts:
            blocks = self._slices(start)
            error = error_among(blocks)
            if error is not None:
                break
            windows.append(self._datasets(blocks))
        return Block(self._columns(windows), len(windows), error)

    def _fill(self, wanted: int) -> None:
        """Read until so many positions from the next window's beginning on are here."""
        while not self._ended and (self._skip or self._have < wanted):
            before = self._pushback.state()
            block = self._pushback.pull(self._skip or wanted - self._have)
            if block is None:
                self._ended = True
            elif self._skip:
                self._skip -= block.events
            else:
                self._held.append((before, block))
                self._have += block.events

    def _join(self) -> None:
        """Join the buffered blocks, where shapes allow it, so that windows are views."""
        blocks = [block for _, block in self._held]
        if len(blocks) > 1 and all(
            block.error is None and block.same_shapes(blocks[0]) for block in blocks
        ):
            whole = concat(blocks)
            start = 0
            for i, block in enumerate(blocks):
                self._held[i] = (self._held[i][0], whole.slice(start, start + block.n))
                start += block.n
            self._whole = whole
        else:
            self._whole = blocks[0] if len(blocks) == 1 else None

    def _slices(self, start: int) -> list[Block]:
        """Return the positions of the window that begins there, every ``stride``-th, as views."""
        stride, stop = self.node.stride, min(start + self.node.span, self._have)
        if self._whole is not None:
            return [_strided(self._whole, start, stop, stride)]
        found: list[Block] = []
        first = 0
        for _, block in self._held:
            begin = max(start, first)
            begin += -(begin - start) % stride
            if begin < min(stop, first + block.events):
                found.append(
                    _strided(block, begin - first, min(stop - first, block.events), stride)
                )
            first += block.events
        return found

    def _datasets(self, blocks: Sequence[Block]) -> list[Any]:
        return [
            as_dataset(held_rows([Block([block.columns[i]], block.n) for block in blocks], spec))
            for i, spec in enumerate(self._specs)
        ]

    def _columns(self, windows: list[list[Any]]) -> list[np.ndarray]:
        columns = stack([], self.node.spec)
        if windows:
            columns = [np.empty(len(windows), object) for _ in columns]
            for i, column in enumerate(columns):
                for row, window in enumerate(windows):
                    column[row] = window[i]
        return columns

    def _drop(self, count: int) -> None:
        """Leave the first ``count`` positions behind."""
        while count > 0 and self._held:
            before, block = self._held[0]
            if block.events > count:
                self._held[0] = (_later(before, count), block.slice(count, block.events))
                self._have -= count
                return
            count -= block.events
            self._have -= block.events
            self._held.popleft()
        self._skip += count

    def state(self) -> State:
        at = self._held[0][0] if self._held else self._pushback.state()
        return {"skip": self._skip, "windows": self._windows, "input": at}

    def restore(self, state: State) -> None:
        self._skip = state["skip"]
        self._windows = state.get("windows", self._overlapping)  # absent from older states
        self._pushback.restore(state["input"])

    def most_nbytes(self) -> int | None:
        static = all(leaf.nbytes is not None for leaf in self.node.input.spec.leaves)
        rows = self.node.span * self._row_nbytes
        # Those that are left are copied to those that are read.
        return 2 * (rows + max(TARGET_BYTES, self._row_nbytes)) if static else None

    def held_nbytes(self) -> int:
        return sum(estimated_nbytes(block) for _, block in self._held)

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"windows ({self.node.arguments()})"


def error_among(blocks: Sequence[Block]) -> Exception | None:
    """Return the first error."""
    return next((block.error for block in blocks if block.error is not None), None)


def _later(state: State, count: int) -> State:
    """Return the state of a pushback buffer, so many positions later."""
    return {"at": state["at"], "used": state.get("used", 0) + count}


def _strided(block: Block, start: int, stop: int, stride: int) -> Block:
    """Return every ``stride``-th position; an error among them comes last."""
    rows = Block([column[start : min(stop, block.n) : stride] for column in block.columns], 0)
    rows.n = len(range(start, min(stop, block.n), stride))
    if block.error is not None and stop > block.n and (block.n - start) % stride == 0:
        rows.error = block.error
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class StackedWindows(Window):
    """Runs of elements stacked, each run one element.

    Attributes:
        leaves: for each leaf, which one of the input's it is stacked from.
        element: the spec.
        drop_short: whether windows that are not full are left out; unlike with ``drop_remainder``,
            an error among their elements is still raised.
    """

    leaves: tuple[int, ...]
    element: ElementSpec
    drop_short: bool
    name: ClassVar[str] = "stacked_windows"

    @property
    def spec(self) -> ElementSpec:
        return self.element

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    def arguments(self) -> str:
        leaves = "" if self.leaves == tuple(range(len(self.leaves))) else f", leaves={self.leaves}"
        return f"{super().arguments()}, drop_short={self.drop_short}{leaves}"


class StackedWindowStage(WindowStage):
    """All windows of a block at once, as overlapping views of its rows.

    Those that are not full, or reach from a block that ends with an error into the next one, come
    one by one.
    """

    node: StackedWindows

    def __init__(self, source: Stage, node: StackedWindows):
        super().__init__(source, node)

    def next(self, limit: int) -> Block | None:
        while starts := self._starts(limit):
            full = self._full(len(starts))
            block = self._views(full) if full else self._single()
            self._move_on(max(1, block.events))
            if block.events:
                return block
        return self._left_over()

    def _full(self, most: int) -> int:
        """Return how many windows from the first one on lie within the first block."""
        rows = self._first().n
        return max(0, min(most, (rows - self.node.span) // self.node.shift + 1))

    def _first(self) -> Block:
        return self._held[0][1] if self._whole is None else self._whole

    def _views(self, count: int) -> Block:
        rows = self._first()
        columns = [self._runs(rows.columns[leaf], count) for leaf in self.node.leaves]
        return Block(columns, count)

    def _runs(self, column: np.ndarray, count: int) -> np.ndarray:
        """Return the first ``count`` windows of a column: (count, size, ...)."""
        node = self.node
        windows = sliding_window_view(column, node.span, axis=0)[:: node.shift]
        return np.moveaxis(windows[:count, ..., :: node.stride], -1, 1)

    def _single(self) -> Block:
        """Return the first window by itself; no position if it is one to be left out."""
        parts = self._slices(0)
        error = error_among(parts)
        short = self.node.drop_short and self._have < self.node.span
        if error is not None or short:
            return Block(stack([], self.node.spec), 0, error)
        whole = concat([part for part in parts if part.n])
        return Block([whole.columns[leaf][None] for leaf in self.node.leaves], 1)

    def describe(self) -> str:
        return f"stacked {super().describe()}"


@dataclasses.dataclass(frozen=True, eq=False)
class WindowPieces(Specified):
    """The rows of stacked windows, or batches of them that never reach into the next window.

    Attributes:
        size: of the batches; ``None`` gives the rows themselves.
        drop_remainder: whether the rows that are left of a window are left out.
        most: how many pieces a full window has.
    """

    size: int | None
    drop_remainder: bool
    most: int
    name: ClassVar[str] = "window_pieces"

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    def arguments(self) -> str:
        return "rows" if self.size is None else f"{self.size}, drop_remainder={self.drop_remainder}"


class _Cut(CountingStage):
    """Blocks of pieces, of any number; only ``WindowPiecesStage`` pulls it.

    Where windows end with a shorter piece they come one by one, that piece by itself.
    """

    def __init__(self, source: Stage, node: WindowPieces):
        super().__init__(source)
        self._node = node
        self._at_rest = False

    def next(self, limit: int) -> Block | None:
        block = self._pushback.peek(max(1, limit // max(1, self._node.most)))
        if block is None:
            return None
        if not block.n:
            self._use(block.events)
            return Block(stack([], self._node.spec), 0, block.error)
        length = block.columns[0].shape[1]
        size = self._node.size
        pieces, rest = (length, 0) if size is None else divmod(length, size)
        if rest and not self._node.drop_remainder:
            return self._with_rest(block, pieces * (size or 1))
        self._use(block.events)
        columns = [_rows(c[:, : length - rest], pieces, size) for c in block.columns]
        return Block(columns, block.n * pieces, block.error)

    def _with_rest(self, block: Block, whole: int) -> Block:
        """Return the part of a window before row ``whole``, or else the rest of it."""
        size = self._node.size
        if whole and not self._at_rest:
            self._at_rest = True
            columns = [_rows(c[:1, :whole], whole // (size or 1), size) for c in block.columns]
            return Block(columns, whole // (size or 1))
        self._at_rest = False
        self._use(1)
        return Block([column[:1, whole:] for column in block.columns], 1)

    def state(self) -> State:
        return {**super().state(), "at_rest": self._at_rest}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._at_rest = state["at_rest"]

    def describe(self) -> str:
        return "pieces of windows"


class WindowPiecesStage(ServingStage):
    """The pieces of each window as elements."""

    def __init__(self, source: Stage, node: WindowPieces):
        super().__init__(_Cut(source, node))
        self._node = node

    def describe(self) -> str:
        return f"pieces of windows ({self._node.arguments()})"


def _rows(column: np.ndarray, pieces: int, size: int | None) -> np.ndarray:
    """(windows, rows, ...) as (windows * pieces, ...), of ``size`` rows each if that is given."""
    shape = column.shape[2:] if size is None else (size, *column.shape[2:])
    return column.reshape(len(column) * pieces, *shape)


def lower_rows(lowering: Lowering, node: BufferedElements, trail: Trail, run: Pass) -> Stage:
    return ReplayStage(node.blocks)


def lower_window(lowering: Lowering, node: Window, trail: Trail, run: Pass) -> Stage:
    return WindowStage(lowering.input(node, trail, run), node)


def lower_stacked_windows(
    lowering: Lowering, node: StackedWindows, trail: Trail, run: Pass
) -> Stage:
    return StackedWindowStage(lowering.input(node, trail, run), node)


def lower_window_pieces(lowering: Lowering, node: WindowPieces, trail: Trail, run: Pass) -> Stage:
    return WindowPiecesStage(lowering.input(node, trail, run), node)
