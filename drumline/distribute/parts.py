"""Batches of the global size, used up by one process step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax

from drumline.distribute.shares import shares

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


class Parts:
    """Of batches of the global size, those for the replicas of one process, step by step.

    Each process has its own dataset, so that a batch of the global size lasts it for as many steps
    as there are processes.

    Args:
        source: the dataset's own iterator.
        strategy: whose replicas of this process take the batches.
    """

    def __init__(self, source: Iterator[Any], strategy: Strategy) -> None:
        self._source = source
        self._processes = strategy.num_processes
        self._local = len(strategy.local_replica_devices)
        self._before: Any = None
        self._batch: Any = None
        self._parts: list[slice] = []
        self._used = 0

    def __iter__(self) -> Parts:
        return self

    def __next__(self) -> list[Any]:
        if self._used == len(self._parts):
            self._take_batch()
        part = self._parts[self._used]
        self._used += 1
        return [
            jax.tree.map(lambda leaf, p=piece: leaf[part][p], self._batch)
            for piece in shares(part.stop - part.start, self._local)
        ]

    def state(self) -> dict[str, Any]:
        """The position of the next step: in the dataset, and in the batch that is used up."""
        if self._used == len(self._parts):
            return {"source": self._source.state(), "used": 0}  # type: ignore[attr-defined]
        return {"source": self._before, "used": self._used}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self._source.restore(state["source"])  # type: ignore[attr-defined]
        self._parts, self._used = [], 0
        if state["used"]:
            self._take_batch()
            self._used = state["used"]

    def _take_batch(self) -> None:
        self._before = self._source.state() if hasattr(self._source, "state") else None
        self._batch = next(self._source)
        rows = len(jax.tree.leaves(self._batch)[0])
        self._parts = [part for part in shares(rows, self._processes) if part.stop > part.start]
        self._used = 0
