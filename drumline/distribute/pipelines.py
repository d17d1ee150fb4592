"""A pipeline for each replica, gone through together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax


class Pipelines:
    """The elements of several pipelines side by side, until all have ended.

    One that ends before the others gives elements without rows.

    Args:
        iterators: the pipelines' iterators.
    """

    def __init__(self, iterators: Sequence[Iterator[Any]]) -> None:
        self._iterators = list(iterators)
        self._rowless: Any = None

    def __iter__(self) -> Pipelines:
        return self

    def __next__(self) -> list[Any]:
        elements = [next(iterator, _END) for iterator in self._iterators]
        present = [element for element in elements if element is not _END]
        if not present:
            raise StopIteration
        rowless = jax.tree.map(lambda leaf: leaf[:0], present[0])
        return [rowless if element is _END else element for element in elements]

    def state(self) -> dict[str, Any]:
        """The position of each pipeline."""
        return {"pipelines": [iterator.state() for iterator in self._iterators]}  # type: ignore[attr-defined]

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken.

        Raises:
            ValueError: if it is not of so many pipelines.
        """
        states = state.get("pipelines", []) if isinstance(state, dict) else []
        if len(states) != len(self._iterators):
            raise ValueError(
                f"The state is of {len(states)} pipelines, but there are {len(self._iterators)}: "
                "with InputReplicationMode.PER_REPLICA it can be restored with as many replicas."
            )
        for iterator, each in zip(self._iterators, states, strict=True):
            iterator.restore(each)  # type: ignore[attr-defined]


_END = object()
