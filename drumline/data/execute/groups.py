"""Rows that wait, by key, until enough of them are there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.stage import State


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
class Part(Places):
    """Rows of one key from one block.

    Attributes:
        rows: they themselves.
    """

    rows: Block


class Waiting:
    """Rows of each key that are too few yet."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Part]] = {}
        self._counts: dict[int, int] = {}

    def count(self, key: int) -> int:
        """How many rows of a key wait."""
        return self._counts.get(key, 0)

    def add(self, key: int, part: Part) -> None:
        """Lets further rows of a key wait."""
        self._parts.setdefault(key, []).append(part)
        self._counts[key] = self._counts.get(key, 0) + part.rows.n

    def take(self, key: int) -> list[Part]:
        """Removes a key's rows."""
        self._counts.pop(key, None)
        return self._parts.pop(key, [])

    def smallest(self) -> int | None:
        """The smallest key of which rows wait."""
        return min(self._parts, default=None)

    def __iter__(self) -> Iterator[tuple[int, list[Part]]]:
        return iter(self._parts.items())


class Keyed:
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
        """The next row that completes a window, and its key."""
        return self._full.pop() if self._full else None

    def take(self, key: int, stop: int) -> list[Part]:
        """Removes the rows of a key before the row ``stop``."""
        places = self._places[key]
        count = int(places.searchsorted(stop))
        self._places[key] = places[count:]
        return [self._part(places[:count])] if count else []

    def rest(self, stop: int) -> Iterator[tuple[int, Part]]:
        """The rows before ``stop`` that are left, by key."""
        for key, places in self.left(stop):
            yield key, self._part(places.offsets)

    def left(self, stop: int) -> Iterator[tuple[int, Places]]:
        """Where the rows before ``stop`` are that are left, by key."""
        for key, places in self._places.items():
            count = int(places.searchsorted(stop))
            if count:
                yield key, Places(places[:count], self._source)

    def _part(self, places: np.ndarray) -> Part:
        if len(places) == 1:
            # A copy: a view would keep the whole block alive.
            row = int(places[0])
            columns = [column[row : row + 1].copy() for column in self._rows.columns]
        else:
            columns = [column[places] for column in self._rows.columns]
        return Part(places, self._source, Block(columns, len(places)))


def _places(keys: np.ndarray) -> dict[int, np.ndarray]:
    """The rows of each key, ascending."""
    if len(keys) < 2:
        return {int(key): np.zeros(1, np.int64) for key in keys}
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, starts[1:]), strict=True))


def positions(parts: Sequence[Places], origin: int) -> list[int]:
    """The rows' positions in the input, counted from ``origin``."""
    if not parts:
        return []
    counted = [part.offsets + (part.source.start - origin) for part in parts]
    found: list[int] = np.concatenate(counted).tolist()
    return found


class Selection:
    """Finds rows again by their positions, as the input is read anew."""

    def __init__(self, wanted: Sequence[Any]):
        self._wanted = [np.array(places, np.int64) for places in wanted]
        self.found: list[list[Part]] = [[] for _ in wanted]

    def look(self, block: Block, source: Source) -> None:
        """Keeps those rows of a block that are wanted."""
        for places, parts in zip(self._wanted, self.found, strict=True):
            low, high = np.searchsorted(places, [source.start, source.start + block.n])
            if high > low:
                offsets = places[low:high] - source.start
                columns = [column[offsets] for column in block.columns]
                parts.append(Part(offsets, source, Block(columns, len(offsets))))
