"""Confining a benchmark to some of the machine's processors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def available() -> int:
    """How many processors a benchmark may be confined to; 0 where the system cannot confine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


@contextlib.contextmanager
def confined(cores: int | None) -> Iterator[None]:
    """Keeps this process, and those it starts, to so many processors; ``None`` to all there are."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
