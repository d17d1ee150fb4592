"""How much a prefetch should hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

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
