"""Iterating over a distributed dataset, with batches copied to the devices ahead of their use."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from drumline import _recorder
from drumline._resumable import as_resumable, close_iterator, position_of, recorded_state


class DevicePrefetcher:
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
        source: Iterator[Any],
        steps: Iterator[Any],
        place: Callable[[Any], Any],
        size: int,
    ) -> None:
        self._source = as_resumable(source)
        self._steps = steps
        self._place = place
        self._size = size
        self._placed: deque[tuple[Any, Any]] = deque()

    def __iter__(self) -> DevicePrefetcher:
        return self

    def close(self) -> None:
        """End the threads behind the source."""
        close_iterator(self._source)

    def __next__(self) -> Any:
        while len(self._placed) < self._size:
            before = position_of(self._source)
            step = next(self._steps, _END)
            if step is _END:
                break
            self._placed.append((before, self._place(step)))
        if not self._placed:
            raise StopIteration
        return self._placed.popleft()[1]

    def state(self) -> Any:
        """The position in the dataset of the next batch."""
        if not self._placed:
            return self._source.state()
        return recorded_state(self._source, self._placed[0][0])

    def restore(self, state: Any) -> None:
        """Continue where `state` was taken."""
        self._placed.clear()
        self._source.restore(state)


_END = object()


class Optional:
    """A batch, or the end of the dataset, as ``tf.experimental.Optional``.

    Args:
        values: at most one batch.
    """

    def __init__(self, *values: Any) -> None:
        self._values = values

    def has_value(self) -> bool:
        """Whether there is a batch."""
        return bool(self._values)

    def get_value(self) -> Any:
        """The batch.

        Raises:
            ValueError: if there is none.
        """
        if not self._values:
            raise ValueError("The dataset has ended: check has_value() before get_value().")
        return self._values[0]


def _itself(batch: Any) -> Any:
    return batch


class DistributedIterator:
    """The batches of one pass, as ``tf.distribute.DistributedIterator``.

    Args:
        source: the dataset's own iterator, whose position is this one's.
        steps: what of the dataset is used for each step; by default an element.
        place: puts a step's elements on the replicas' devices.
        place_many: the same for a list of steps of equal shapes, whose arrays are stacked along a
            new first axis; None where steps cannot be stacked.
        spec: gives the specification of what each replica gets.
        on_devices: how many batches are placed at most before they are used.
    """

    def __init__(
        self,
        source: Iterator[Any],
        steps: Iterator[Any],
        place: Callable[[Any], Any],
        place_many: Callable[[Sequence[Any]], Any] | None = None,
        spec: Callable[[], Any] | None = None,
        on_devices: int = 1,
    ) -> None:
        if on_devices > 1:
            source = steps = DevicePrefetcher(source, steps, place, on_devices)
            place, place_many = _itself, None
        self._source = as_resumable(source)
        self.steps = steps
        self.place = place
        self.place_many = place_many
        self._spec = spec

    @property
    def element_spec(self) -> Any:
        """What each replica gets; see `DistributedDataset.element_spec`."""
        if self._spec is None:
            raise AttributeError("The iterator was made without a specification of its elements.")
        return self._spec()

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Any:
        recorder = _recorder.active
        if recorder is None:
            return self.place(next(self.steps))
        with recorder.at(_recorder.INPUT):
            return self.place(next(self.steps))

    def get_next(self) -> Any:
        """The next batch.

        Raises:
            StopIteration: at the end of the dataset.
        """
        return next(self)

    def get_next_as_optional(self) -> Optional:
        """The next batch, or none at the end of the dataset."""
        return Optional(*itertools.islice(self, 1))

    def close(self) -> None:
        """End the threads behind the iterator; it yields nothing more."""
        close_iterator(self._source)

    def state(self) -> Any:
        """The position in the dataset, for `restore`; see `drumline.data.DatasetIterator`."""
        return self._source.state()

    def restore(self, state: Any) -> None:
        """Continue, in a new iterator of the same dataset, where `state` was taken."""
        self._source.restore(state)
