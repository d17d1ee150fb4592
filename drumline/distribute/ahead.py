"""Batches that are on the devices before they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any


class Ahead:
    """Keeps the next few steps' batches placed.

    Its position is that of the batch it gives next, wherever it has read.

    Args:
        source: the dataset's own iterator.
        steps: what of it each step uses.
        place: puts a step's elements on the devices.
        size: how many batches are placed ahead.
    """

    def __init__(
        self,
        source: Any,
        steps: Iterator[Any],
        place: Callable[[Any], Any],
        size: int,
    ) -> None:
        self._source = source
        self._steps = steps
        self._place = place
        self._size = size
        self._placed: deque[tuple[Any, Any]] = deque()

    def __iter__(self) -> Ahead:
        return self

    def close(self) -> None:
        """End the threads behind the source."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()

    def __next__(self) -> Any:
        while len(self._placed) < self._size:
            before = self._source.state() if hasattr(self._source, "state") else None
            step = next(self._steps, _END)
            if step is _END:
                break
            self._placed.append((before, self._place(step)))
        if not self._placed:
            raise StopIteration
        return self._placed.popleft()[1]

    def state(self) -> Any:
        """The position in the dataset of the next batch."""
        return self._placed[0][0] if self._placed else self._source.state()

    def restore(self, state: Any) -> None:
        """Go on where `state` was taken."""
        self._placed.clear()
        self._source.restore(state)


_END = object()
