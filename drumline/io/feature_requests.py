"""What the Rust core is asked to parse, and what it returns."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import ExampleParser
from drumline._memory import BufferPool
from drumline.data.elements.columns import PackedStrings
from drumline.data.elements.spec import STRING

FLOAT, INT, BYTES = "float32", "int64", "string"

Records = np.ndarray | PackedStrings

_NO_MEMORY = "there is no memory for the values; parse fewer records"


@dataclasses.dataclass(frozen=True)
class FeatureRequest:
    """A column.

    Attributes:
        key: of the feature.
        kind: ``"float32"``, ``"int64"`` or ``"string"``.
        form: ``"fixed"``: `count` values. ``"varying"``: any multiple of it. ``"frames"``: a list
            of frames with `count` values each, ``"optional frames"``: which may be missing,
            ``"varying frames"``: with any number of values.
        count: as said.
        default: the values of a missing feature of fixed form.
    """

    key: str
    kind: str
    form: str
    count: int = 1
    default: tuple[float | int | bytes, ...] | None = None

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return STRING if self.kind == BYTES else np.dtype(self.kind)


@dataclasses.dataclass(frozen=True)
class Parsed:
    """A column of `count` records.

    Attributes:
        values: one-dimensional.
        rows: int64 (count + 1,), where the items or frames of each record end; unless fixed.
        frames: int64, where the values of each frame end; if they may differ.
        count: how many records.
    """

    values: np.ndarray
    rows: np.ndarray | None
    frames: np.ndarray | None
    count: int

    def first(self, count: int) -> Parsed:
        """The first `count` records."""
        if count == self.count:
            return self
        if self.rows is None:
            width = len(self.values) // self.count
            return Parsed(self.values[: count * width], None, None, count)
        rows = self.rows[: count + 1]
        items = int(rows[-1])
        if self.frames is not None:
            frames = self.frames[: items + 1]
            return Parsed(self.values[: int(frames[-1])], rows, frames, count)
        total = int(self.rows[-1])
        of = len(self.values) // total if total else 0
        return Parsed(self.values[: items * of], rows, None, count)


@dataclasses.dataclass(frozen=True)
class Failed:
    """Why record `row` could not be parsed: in which column, frame and byte, where known."""

    row: int
    column: int | None
    frame: int | None
    offset: int | None
    message: str


Parts = tuple[tuple[int, tuple[FeatureRequest, ...]], ...]
"""The number of a message's field that is a map of features, and what is wanted of it; of one or
more such fields."""


def parser(parts: Parts) -> ExampleParser:
    """What parses records for these."""
    return ExampleParser([(field, [_described(w) for w in wanted]) for field, wanted in parts])


def _described(
    wanted: FeatureRequest,
) -> tuple[bytes, str, str, int, Sequence[float | bytes] | None]:
    default = None if wanted.default is None else list(wanted.default)
    return wanted.key.encode(), wanted.kind, wanted.form, wanted.count, default


def parse(
    parser: ExampleParser, parts: Parts, records: Records, pool: BufferPool
) -> tuple[list[Parsed], Failed | None]:
    """The wanted columns of records ``bytes`` (n,): of all, or those before the first bad one.

    Numbers of which every record has as many are in buffers of the pool.
    """
    every = [wanted for _, some in parts for wanted in some]
    try:
        room = _room(every, len(records), pool)
    except (MemoryError, OverflowError, ValueError):
        columns, failure = [], (0, None, None, None, _NO_MEMORY)
    else:
        columns, failure = _parse(parser, records, room)
    failed = None if failure is None else Failed(*failure)
    count = len(records) if failed is None else failed.row
    if not columns:
        return [_empty(wanted) for wanted in every], failed
    parsed = [
        Parsed(values if out is None else values[: count * wanted.count], rows, frames, count)
        for wanted, out, (values, rows, frames) in zip(every, room, columns, strict=True)
    ]
    return parsed, failed


def _parse(parser: ExampleParser, records: Records, room: list[np.ndarray | None]) -> Any:
    if isinstance(records, PackedStrings):
        return parser.parse_packed(records.parts, room)
    return parser.parse(np.ascontiguousarray(records), room)


def _room(
    every: Sequence[FeatureRequest], records: int, pool: BufferPool
) -> list[np.ndarray | None]:
    """Memory for each column of numbers of which every record has as many."""
    kinds = [
        (wanted.kind, wanted.count) if wanted.form == "fixed" and wanted.kind != BYTES else None
        for wanted in every
    ]
    arrays = {
        kind: pool.several(count, (records * kind[1],), np.dtype(kind[0]))
        for kind, count in collections.Counter(kinds).items()
        if kind is not None
    }
    return [None if kind is None else arrays[kind].pop() for kind in kinds]


def _empty(wanted: FeatureRequest) -> Parsed:
    start = np.zeros(1, np.int64)
    rows = None if wanted.form == "fixed" else start
    frames = start if wanted.form == "varying frames" else None
    return Parsed(np.empty(0, wanted.dtype), rows, frames, 0)
