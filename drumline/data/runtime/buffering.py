"""How many datasets are read at the same time, and how much a prefetch holds."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from drumline.data.elements.block import Block
from drumline.data.runtime.meter import Meter
from drumline.data.runtime.threads import MOST_THREADS, told_to_leave

LARGEST_NBYTES = 4 << 20
"""What is read ahead of one dataset at most."""


class Reading:
    """Lets at most ``width`` of the threads that share it read at once.

    Args:
        width: how many may.
        automatic: whether the width is left to drumline.
        most: what width it may choose.
        nbytes: how much each thread may read ahead.
    """

    def __init__(
        self, width: int, automatic: bool = False, most: int = 1, nbytes: int = LARGEST_NBYTES
    ):
        self.automatic = automatic
        self.most = most
        self.meter: Callable[[], Meter | None] = _unmeasured
        self.nbytes = nbytes
        self._width = width
        self._busy = 0
        self._threads = 0
        self._closed = False
        self._changed = threading.Condition()
        told_to_leave(self)

    @property
    def width(self) -> int:
        """How many may read at once; may be set at any time."""
        return self._width

    @width.setter
    def width(self, width: int) -> None:
        with self._changed:
            self._width = width
            self._changed.notify_all()

    def describe(self) -> str:
        """How many may read, for ``explain()``."""
        return f"{self._width} read at once{' (AUTOTUNE: at present)' if self.automatic else ''}"

    def admit(self) -> bool:
        """Whether one more thread may be started; it says when it ``ends``."""
        with self._changed:
            admitted = self._threads < MOST_THREADS
            self._threads += admitted
        return admitted

    def ends(self) -> None:
        """Hears that an admitted thread has nothing more to read."""
        with self._changed:
            self._threads -= 1

    def read(self, pull: Callable[[int], Block | None], limit: int) -> Block | None:
        """``pull(limit)`` when it may; ``None`` once this is closed."""
        with self._changed:
            while self._busy >= self._width and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            self._busy += 1
        try:
            meter = self.meter()
            return pull(limit) if meter is None else meter.task(pull, limit)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def close(self) -> None:
        """Lets nobody read any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def leave(self) -> None:
        """``close``, as the program ends."""
        self.close()


def _unmeasured() -> None:
    return None


MOST_ELEMENTS = 1 << 16


@dataclasses.dataclass
class AutomaticRoom:
    """The number of elements of a buffer whose size was left to drumline.

    A buffer that was full and is then found empty meets bursts larger than itself: it doubles, as
    in tf.data. One that is never full has a slow producer, which more room does not help.

    Attributes:
        most_nbytes: what the buffer may hold.
        said: hears of each change.
    """

    most_nbytes: float
    said: Callable[[str], None]
    _was_full: bool = False

    def next(self, room: int, held: int, row_nbytes: float) -> int:
        """The number from now on.

        Args:
            room: the present one.
            held: how many elements there are as one is asked for.
            row_nbytes: of an element, about.
        """
        if held >= room:
            self._was_full = True
        if held > 0 or not self._was_full:
            return room
        self._was_full = False
        affordable = int(self.most_nbytes // max(1.0, row_nbytes))
        wider = max(room, min(2 * room, affordable, MOST_ELEMENTS))
        if wider != room:
            self.said(f"prefetch: {room} -> {wider} elements ahead")
        return wider
