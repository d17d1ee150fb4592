"""``pack``: sequences packed into rows of one length."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from drumline._core import first_fit
from drumline.data.elements.block import Block
from drumline.data.elements.columns import row_lengths
from drumline.data.elements.ragged import RaggedArray, copy_rows, joined, uniform
from drumline.data.elements.rows import stack
from drumline.data.elements.spec import (
    INFINITE,
    LEAF_STRUCTURE,
    UNKNOWN,
    ElementSpec,
    Structure,
    TensorSpec,
)
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import CountingStage, Stage, State

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


class PackStage(CountingStage):
    """Reads ``lookahead`` sequences and puts each into the first row with room, then the next.

    Its state is where the sequences of the row began, and how many of their rows were delivered.
    """

    ragged = False
    varying = False

    def __init__(self, source: Stage, node: Pack):
        super().__init__(source)
        self.node = node
        self._rows: Block | None = None
        self._used = 0
        self._before = super().state()

    def next(self, limit: int) -> Block | None:
        while self._rows is None:
            self._before = super().state()
            self._rows = self._packed()
            self._used = 0
            if self._rows is None:
                return None
            if not self._rows.events:
                self._rows = None
        start = self._used
        self._used = min(start + limit, self._rows.events)
        block = self._rows.slice(start, self._used)
        if self._used == self._rows.events:
            self._rows = None
        return block

    def state(self) -> State:
        if self._rows is None:
            return {"at": super().state()}
        return {"at": self._before, "used": self._used}

    def restore(self, state: State) -> None:
        super().restore(state["at"])
        self.advance(state.get("used", 0))

    def _packed(self) -> Block | None:
        """Return the rows of the next sequences, or of those before one that failed."""
        parts: list[Block] = []
        missing = self.node.lookahead
        error: Exception | None = None
        while missing > 0 and error is None:
            part = self._pushback.peek(missing)
            if part is None:
                break
            fitting = self._fitting(part)
            if fitting < part.n:
                error = self._overlong(part, fitting)
                self._use(fitting + 1)
            else:
                error = part.error
                self._use(part.events)
            parts.append(part.slice(0, fitting))
            missing -= fitting
        if not parts:
            return None
        return self._rows_of([part for part in parts if part.n], error)

    def _fitting(self, part: Block) -> int:
        """Return how many sequences from the first on can be packed."""
        lengths = [row_lengths(column) for column in part.columns]
        bad = np.zeros(part.n, np.bool_)
        for other in lengths:
            bad |= other != lengths[0]
            if self.node.overlong == "error":
                bad |= other > self.node.length
        return int(np.argmax(bad)) if bad.any() else part.n

    def _overlong(self, part: Block, row: int) -> ValueError:
        lengths = [int(row_lengths(column)[row]) for column in part.columns]
        where = f"pack({self.node.length}): element {self._position + row}"
        if len(set(lengths)) > 1:
            return ValueError(f"{where} has leaves of different lengths: {lengths}")
        return ValueError(
            f"{where} has length {lengths[0]}; give overlong='truncate' or 'split', or "
            "filter it out"
        )

    def _rows_of(self, parts: Sequence[Block], error: Exception | None) -> Block:
        if not parts:
            return Block(stack([], self.node.spec), 0, error)
        columns = [_whole(pieces) for pieces in zip(*(p.columns for p in parts), strict=True)]
        starts, lengths = self._pieces(columns[0])
        bins, offsets, count = first_fit(lengths, self.node.length)
        places = bins * self.node.length + offsets
        made = [
            self._filled(column, value, count, (starts, places, lengths))
            for column, value in zip(columns, self.node.values, strict=True)
        ]
        return Block([*made, *self._numbers(bins, places, lengths, count)], count, error)

    def _pieces(self, column: RaggedArray) -> tuple[np.ndarray, np.ndarray]:
        """Return where sequences begin and how long they are, without empty ones."""
        length = self.node.length
        starts, lengths = column.row_splits[:-1], column.row_lengths()
        if self.node.overlong == "split":
            counts = -(-lengths // length)
            numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            starts = np.repeat(starts, counts) + numbers * length
            lengths = np.repeat(lengths, counts) - numbers * length
        lengths = np.minimum(lengths, length)
        return starts[lengths > 0], lengths[lengths > 0]

    def _filled(
        self, column: RaggedArray, value: Any, count: int, runs: tuple[np.ndarray, ...]
    ) -> np.ndarray:
        inner = column.values
        out = np.full((count * self.node.length, *inner.shape[1:]), value, column.dtype)
        copy_rows(inner, out, *runs)
        return out.reshape(count, self.node.length, *inner.shape[1:])

    def _numbers(
        self, bins: np.ndarray, places: np.ndarray, lengths: np.ndarray, count: int
    ) -> list[np.ndarray]:
        """Return segment ids and positions."""
        order = np.argsort(bins, kind="stable")
        first = np.searchsorted(bins[order], np.arange(count))
        numbers = np.empty(len(bins), np.int32)
        sizes = np.bincount(bins, minlength=count)
        numbers[order] = np.arange(1, len(bins) + 1) - np.repeat(first, sizes)
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        where = np.repeat(places, lengths) + steps
        made = []
        for values in (np.repeat(numbers, lengths), steps):
            out = np.zeros(count * self.node.length, np.int32)
            out[where] = values
            made.append(out.reshape(count, self.node.length))
        return made

    def most_nbytes(self) -> int | None:
        return None

    def describe(self) -> str:
        return f"pack {self.node.lookahead} sequences at a time into rows of {self.node.length}"


def _whole(pieces: Sequence[Any]) -> RaggedArray:
    return joined([p if isinstance(p, RaggedArray) else uniform(p) for p in pieces])


class Packed(NamedTuple):
    """Several sequences in one row of fixed length.

    Attributes:
        values: the sequences' leaves, concatenated, (length, ...) each.
        segment_ids: int32 (length,): 1 for the first sequence, 2 for the second, 0 for padding.
        positions: int32 (length,): the place within its sequence; 0 for padding.
    """

    values: Any
    segment_ids: Any
    positions: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Pack(Node):
    """Sequences packed into rows.

    Attributes:
        length: of a row.
        lookahead: how many sequences are packed together.
        overlong: how a longer sequence is treated: ``"error"``, ``"truncate"`` or ``"split"``.
        values: for each leaf, what rows are filled up with.
    """

    length: int
    lookahead: int
    overlong: str
    values: tuple[Any, ...]
    name: ClassVar[str] = "pack"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        number = TensorSpec((self.length,), np.int32)
        leaves = [TensorSpec((self.length, *leaf.shape[1:]), leaf.dtype) for leaf in inner.leaves]
        parts = (inner.structure, LEAF_STRUCTURE, LEAF_STRUCTURE)
        return ElementSpec(Structure("namedtuple", Packed, (), parts), (*leaves, number, number))

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN

    def arguments(self) -> str:
        values = [np.asarray(value).tolist() for value in self.values]
        return (
            f"{self.length}, lookahead={self.lookahead}, overlong={self.overlong!r}, "
            f"padding_values={values}"
        )


def lower_pack(lowering: Lowering, node: Pack, trail: Trail, run: Pass) -> Stage:
    return PackStage(lowering.input(node, trail, run, ragged=True), node)
