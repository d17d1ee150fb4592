"""How many processors there are to compute with."""

from __future__ import annotations

import os


def available_cores() -> int:
    """How many this process may use; fewer than the machine has if it is confined to some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
