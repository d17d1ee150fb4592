"""Iterators that can resume where another one stopped, and what all of them promise.

Wrappers read ahead of what they have given: they place batches on devices, tell other processes
how many rows come, or use up one batch in several steps. Each promises the same:

- ``state()`` is the position of the element that ``next`` gives next, wherever the wrapper has
  read. It is small and can be written as JSON: positions and seeds, never elements. Taking it
  changes nothing, and costs no pass over the input.
- ``restore(state)`` moves to where a state was taken, in this process or another, of an iterator
  over an equal input. What was read ahead is dropped. The elements that follow are those that
  followed there, bit by bit. A state of another input raises.
- After the end, ``state()`` is the end: restored, the iterator ends at once.
- ``close()``, where there is one, ends threads and files behind the iterator.

Follows Grain's ``DatasetIterator`` (``get_state``, ``set_state``) and ``tf.data``'s iterators in a
``tf.train.Checkpoint``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Resumable(Protocol):
    """What a checkpoint saves by its state: an iterator, or another progress of a program."""

    def state(self) -> Any:
        """Return what `restore` takes: small, and can be written as JSON."""
        ...

    def restore(self, state: Any) -> None:
        """Be as when `state` was taken."""
        ...


@runtime_checkable
class ResumableIterator(Resumable, Protocol[T_co]):
    """An iterator with a position; see the module."""

    def __iter__(self) -> Iterator[T_co]:
        """Return itself."""
        ...

    def __next__(self) -> T_co:
        """Return the next element."""
        ...


class NoPositionError(TypeError):
    """The position in an input was asked for that has none."""


class OneWayIterator:
    """An iterator without a position, as a generator is: wrappers may read it, not save it.

    Args:
        iterator: it.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __iter__(self) -> OneWayIterator:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def close(self) -> None:
        """Close the iterator, if it can be."""
        close_iterator(self._iterator)

    def state(self) -> Any:
        """Refuse.

        Raises:
            NoPositionError: always.
        """
        raise self._refusal()

    def restore(self, state: Any) -> None:
        """Refuse, as `state` does."""
        raise self._refusal()

    def _refusal(self) -> NoPositionError:
        return NoPositionError(
            f"The position in the input cannot be saved or restored: it is read from a "
            f"{type(self._iterator).__name__}, which has no `state` and `restore`. Read it from a "
            "dl.data.Dataset, such as Dataset.from_generator."
        )


def as_resumable(iterator: Iterator[Any]) -> ResumableIterator[Any]:
    """Return `iterator`, or one that refuses with a reason to give its position."""
    return iterator if isinstance(iterator, ResumableIterator) else OneWayIterator(iterator)


def position_of(iterator: ResumableIterator[Any]) -> Any:
    """Return the position before what is read ahead, or `NO_POSITION` where there is none."""
    try:
        return iterator.state()
    except NoPositionError:
        return NO_POSITION


NO_POSITION: Any = object()


def recorded_state(iterator: ResumableIterator[Any], position: Any) -> Any:
    """Return a position that `position_of` gave for `iterator`.

    Raises:
        NoPositionError: it has none.
    """
    return iterator.state() if position is NO_POSITION else position


def close_iterator(iterator: Any) -> None:
    """Close an iterator, if it can be."""
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
