"""Elements that a Python sequence makes when asked for one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.functions.notes import at_element
from drumline.data.rows import conform, owned, stack
from drumline.data.spec import ElementSpec


class SequenceRows(Indexed):
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
        """The items, or ``_LATER`` for each that ``_row`` has to ask for."""
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
