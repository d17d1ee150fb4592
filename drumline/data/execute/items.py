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


class Items(Indexed):
    """``sequence[i]``, checked against a spec; one thread at a time asks the sequence.

    A sequence with ``__getitems__`` (of torch's and Hugging Face's datasets) is asked for all
    items of a block at once.
    """

    def __init__(self, sequence: Sequence[Any], length: int, spec: ElementSpec, name: str):
        self.sequence = sequence
        self.length = length
        self.spec = spec
        self.name = name
        self._lock = threading.Lock()

    def rows(self, index: Index) -> Block:
        rows: list[list[np.ndarray]] = []
        error: Exception | None = None
        with self._lock:
            for position, value in zip(index, self._values(index), strict=True):
                try:
                    row = self._row(value, int(position))
                except Exception as raised:
                    error = at_element(raised, int(position), f"from_sequence({self.name})")
                    break
                if rows and any(a.shape != b.shape for a, b in zip(row, rows[0], strict=True)):
                    break
                rows.append(owned(row))
        return Block(stack(rows, self.spec), len(rows), error)

    def _values(self, index: Index) -> Sequence[Any]:
        """The items, or ``_LATER`` for each that ``_row`` has to ask for."""
        fetch = getattr(self.sequence, "__getitems__", None)
        if fetch is None or len(index) < 2:
            return [_LATER] * len(index)
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
        return values

    def _row(self, value: Any, position: int) -> list[np.ndarray]:
        if value is _LATER:
            value = self.sequence[position]
        return conform(self.spec.structure.flatten(value), self.spec, "the first element's spec")

    def describe(self) -> str:
        return f"items of {self.name} ({self.length} elements, asked for one by one)"


_LATER = object()
