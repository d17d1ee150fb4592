"""How much a prefetch should hold."""

from __future__ import annotations

import dataclasses

_SOMETIMES_FULL = 0.25
MOST_ELEMENTS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a prefetch's buffer was found in one window.

    Attributes:
        calls: how often its consumer asked.
        empty: how often it found nothing.
        fill: sum over the calls of how full the buffer was, 0 to 1.
    """

    calls: int
    empty: int
    fill: float


def next_room(room: int, asked: Asked, row_nbytes: float, free_nbytes: float) -> int:
    """The number of elements a prefetch should hold next.

    One that was well filled in between and yet found empty meets bursts larger than itself: it
    doubles, as in tf.data. One that is always empty has a slow producer, which more room does not
    help.

    Args:
        room: the present number.
        asked: what happened with it.
        row_nbytes: of an element.
        free_nbytes: how much more memory may be used.
    """
    bursts = asked.empty > 0 and asked.calls > 0 and asked.fill / asked.calls > _SOMETIMES_FULL
    if not bursts:
        return room
    affordable = room + int(free_nbytes // max(1.0, row_nbytes))
    return max(room, min(2 * room, affordable, MOST_ELEMENTS))
