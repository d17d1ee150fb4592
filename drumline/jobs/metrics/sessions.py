"""What the processes of a session use, as the kernel counts it.

Each process of a job leads a session of its own, to which belongs what it starts. So one look at
all of ``/proc`` says what each uses, however many helpers it has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Collection

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class SessionUse:
    """What a session uses.

    Attributes:
        seconds: of CPU, of each of its processes that are there, by their numbers.
        memory: bytes of them in RAM; pages that they share count once for each.
    """

    seconds: dict[int, float] = dataclasses.field(default_factory=dict)
    memory: int = 0

    def seconds_since(self, before: SessionUse) -> float:
        """CPU seconds since an earlier look; of processes that ended meanwhile nothing is known."""
        return sum(
            max(0.0, now - before.seconds.get(pid, 0.0)) for pid, now in self.seconds.items()
        )


def use_of(leaders: Collection[int]) -> dict[int, SessionUse]:
    """What the sessions of these processes use, by the leaders' numbers."""
    found = {leader: SessionUse() for leader in leaders}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile
            file = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            try:
                stat = os.read(file, 1024)
            finally:
                os.close(file)
            # The name of the program, in parentheses, may hold anything.
            fields = stat[stat.rindex(b")") + 2 :].split()
            use = found.get(int(fields[3]))
            if use is not None:
                use.seconds[int(name)] = (int(fields[11]) + int(fields[12])) / _TICKS
                use.memory += max(0, int(fields[21])) * _PAGE
    return found
