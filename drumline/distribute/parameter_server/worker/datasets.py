"""The datasets of a worker: made by functions of the chief's, iterated here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from drumline.distribute.parameter_server.errors import OutOfRangeError


class Datasets:
    """Datasets and their iterators, by the chief's numbers."""

    def __init__(self) -> None:
        self._datasets: dict[int, Any] = {}
        self._iterators: dict[int, Iterator[Any]] = {}

    def make(self, number: int, make: Callable[[], Any]) -> None:
        """Make a dataset anew."""
        self._datasets[number] = make()

    def iterate(self, number: int, dataset: int) -> None:
        """Start going through a dataset."""
        self._iterators[number] = iter(self._datasets[dataset])

    def forget(self, datasets: Iterable[int], iterators: Iterable[int]) -> None:
        """Let go of datasets and iterators."""
        for number in datasets:
            self._datasets.pop(number, None)
        for number in iterators:
            _close(self._iterators.pop(number, None))

    def close(self) -> None:
        """End all iterators, and the threads behind them."""
        for iterator in self._iterators.values():
            _close(iterator)

    def draw(self, number: int) -> list[Any]:
        """The leaves of an iterator's next element.

        Raises:
            OutOfRangeError: at its end.
        """
        try:
            return jax.tree.leaves(next(self._iterators[number]))
        except StopIteration:
            raise OutOfRangeError(
                "The dataset of this worker has ended. Repeat it (`dataset.repeat()`), or "
                "schedule fewer steps."
            ) from None


def _close(iterator: Any) -> None:
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
