"""At most one program in flight on logical CPU devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax


class InFlight:
    """What a strategy's devices are computing.

    XLA's CPU client runs the programs of all its devices on one pool of max(cores, devices)
    threads. A program that waits in a collective blocks its thread; with as many devices as
    threads and several steps under way, the threads end up blocked by programs whose partners
    find none, and after 40 s XLA aborts the process (seen with 2 devices on 2 cores). On several
    CPU devices a program therefore starts when the one before has ended. Fetching the next batch
    and the callbacks still overlap with it.

    Args:
        devices: the devices of a strategy's replicas.
    """

    def __init__(self, devices: Sequence[jax.Device]) -> None:
        self._guarded = len(devices) > 1 and devices[0].platform == "cpu"
        self._under_way: list[jax.Array] = []

    def wait(self) -> None:
        """Return when the next program may start."""
        for array in self._under_way:
            if not array.is_deleted():
                array.block_until_ready()
        self._under_way = []

    def started(self, outputs: Any) -> None:
        """Note the outputs of a program that has been started."""
        if self._guarded:
            self._under_way = jax.tree.leaves(outputs)
