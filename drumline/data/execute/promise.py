"""A result that another thread is making."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """What a task of a stage's workers comes to.

    As ``concurrent.futures.Future`` for results that nobody but ``result`` asks for. That has a
    condition and a list of who waits, which take longer to make, and hold Python's lock for longer,
    than many a task does.
    """

    __slots__ = ("_error", "_under_way", "_value")

    _value: T

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._under_way = threading.Lock()
        self._under_way.acquire()

    def fulfil(self, value: T) -> None:
        """Says what the task came to; it or ``fail`` is called once."""
        self._value = value
        self._under_way.release()

    def fail(self, error: BaseException) -> None:
        """Says what the task raised, or why it will not be done."""
        self._error = error
        self._under_way.release()

    @property
    def done(self) -> bool:
        """Whether ``result`` has something to say; not surely so while it is being asked."""
        return not self._under_way.locked()

    def result(self) -> T:
        """What the task came to, once it is done.

        Raises:
            BaseException: what the task raised, or why it was never begun.
        """
        with self._under_way:
            if self._error is None:
                return self._value
        try:
            raise self._error
        finally:
            # The error's traceback has this frame, which would keep the error.
            del self
