"""How many of the machine's cores a process computes with."""

from __future__ import annotations

import os

THREADS_VARIABLE = "NPROC"


def share_cores(processes: int) -> None:
    """Have XLA use this process's share of the cores, if it has not started yet.

    Otherwise every process has a thread for each core, and they pay for waiting and stealing work
    from each other. (Processes that meet in collectives are better off with all threads: one that
    waits there keeps the others from nothing.) ``NPROC`` in the environment, which XLA goes by,
    prevails.

    Args:
        processes: how many compute on this machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if processes > 1:
        os.environ.setdefault(THREADS_VARIABLE, str(max(1, (cores or 1) // processes)))
