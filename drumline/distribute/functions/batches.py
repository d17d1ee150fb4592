"""What a staged loop goes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from drumline.data import Dataset, DatasetIterator
from drumline.distribute.input.distributed_dataset import DistributedDataset
from drumline.distribute.input.distributed_dataset_from_function import (
    DistributedDatasetFromFunction,
)
from drumline.distribute.input.distributed_iterator import DistributedIterator

_OVER = (
    Dataset,
    DatasetIterator,
    DistributedDataset,
    DistributedDatasetFromFunction,
    DistributedIterator,
)

VIEW = "__drumline_batches__"
"""The method by which a class of another library's interface says that it is a view of a dataset.

It takes nothing and returns the dataset or iterator (one of the classes above), and a function that
makes of each batch, whose leaves are arrays or `PerReplica`, what the body of a loop is given: a
pytree with the same leaves.
"""

MAX_STACKED_BYTES = 4 * 2**20
"""How many bytes of batches run in one compiled call at most, if more than one batch does."""

MAX_STEPS = 64
"""How many steps run in one compiled call at most."""


def is_batches(value: Any) -> bool:
    """Whether `value` is a dataset, a distributed one, an iterator of one, or a `VIEW` of these."""
    return isinstance(value, _OVER) or hasattr(type(value), VIEW)


class Batches:
    """The elements of a dataset, step by step or several stacked.

    Args:
        iterable: see `is_batches`.
    """

    def __init__(self, iterable: Any) -> None:
        present: Callable[[Any], Any] = _itself
        if hasattr(type(iterable), VIEW):
            iterable, present = getattr(iterable, VIEW)()
        iterator = iter(iterable)
        self._steps: Iterator[Any] = iterator
        self.place: Callable[[Any], Any] = _itself
        self._place_many: Callable[[Sequence[Any]], Any] | None = _stacked
        if isinstance(iterator, DistributedIterator):
            self._steps = iterator.steps
            self.place = iterator.place
            self._place_many = iterator.place_many
        if present is not _itself:
            self.place = _composed(present, self.place)
            self._place_many = _composed(present, self._place_many)

    def first(self) -> Any:
        """The next element as the dataset gives it; None at the end."""
        return next(self._steps, None)

    def rest(self, like: Any) -> Iterator[tuple[int, Any]]:
        """What is left, placed: how many steps, and one step's batch or several stacked.

        Args:
            like: an element; several of its shapes are stacked if they are small. How many does
                not depend on timing, so that a program is run the same way every time.
        """
        size, shapes = self._steps_at_once(like), _shapes(like)
        waiting: list[Any] = []
        for batch in self._steps:
            if size == 1 or _shapes(batch) != shapes:
                yield from self._singly(waiting)
                waiting = []
                yield 1, self.place(batch)
                continue
            waiting.append(batch)
            if len(waiting) == size:
                assert self._place_many is not None
                yield size, self._place_many(waiting)
                waiting = []
        yield from self._singly(waiting)

    def _singly(self, batches: list[Any]) -> Iterator[tuple[int, Any]]:
        for batch in batches:
            yield 1, self.place(batch)

    def _steps_at_once(self, batch: Any) -> int:
        leaves = jax.tree.leaves(batch)
        if self._place_many is None or not all(isinstance(leaf, np.ndarray) for leaf in leaves):
            return 1
        size = max(1, sum(leaf.nbytes for leaf in leaves))
        return max(1, min(MAX_STEPS, MAX_STACKED_BYTES // size))


def _composed(present: Callable[[Any], Any], place: Any) -> Any:
    """`present` of what `place` gives; None where nothing is placed."""
    return None if place is None else lambda batch: present(place(batch))


def _itself(batch: Any) -> Any:
    return batch


def _stacked(batches: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)


def _shapes(batch: Any) -> list[Any]:
    return [(np.shape(leaf), getattr(leaf, "dtype", None)) for leaf in jax.tree.leaves(batch)]
