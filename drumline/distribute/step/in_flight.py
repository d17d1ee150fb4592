"""At most one program in flight on logical CPU devices."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import jax

from drumline.distribute.process_group import watch_pending, watchdog


class InFlight:
    """What a strategy's devices are computing.

    XLA's CPU client runs the programs of all its devices on one pool of max(cores, devices)
    threads. A program that waits in a collective blocks its thread; with as many devices as
    threads and several steps under way, the threads end up blocked by programs whose partners
    find none, and after 40 s XLA aborts the process (seen with 2 devices on 2 cores). On several
    CPU devices a program therefore starts when the one before has ended. Fetching the next batch
    and the callbacks still overlap with it.

    On the accelerators of several processes one program may run while the next one is started. The
    wait for the one before that is where the process notices that a peer is lost, or that a step
    takes too long.

    Args:
        devices: the devices of a strategy's replicas.
        timeout_seconds: how long a program of several processes may take; None for no limit.
    """

    def __init__(
        self, devices: Sequence[jax.Device], *, timeout_seconds: float | None = None
    ) -> None:
        self._spans = any(d.process_index != jax.process_index() for d in devices)
        on_cpus = len(devices) > 1 and devices[0].platform == "cpu"
        self._most = 1 if on_cpus else 2 if self._spans else 0
        self.timeout_seconds = timeout_seconds
        self._under_way: deque[tuple[float, int, list[jax.Array]]] = deque()
        self._started = 0
        if self._spans:
            watch_pending(self._oldest, timeout_seconds)

    def wait(self) -> None:
        """Return when the next program may start.

        Raises:
            PeerLostError: if one failed because another process is gone.
        """
        while self._most and len(self._under_way) >= self._most:
            _, number, arrays = self._under_way[0]
            try:
                with watchdog(number) if self._spans else contextlib.nullcontext():
                    kept = [array for array in arrays if not array.is_deleted()]
                    if not kept and len(self._under_way) > 1:  # the next one has used them up
                        kept = [a for a in self._under_way[1][2] if not a.is_deleted()]
                    for array in kept:
                        array.block_until_ready()
            finally:  # the error of a program is told once
                self._under_way.popleft()

    def started(self, outputs: Any) -> None:
        """Note the outputs of a program that has been started."""
        if self._most:
            self._started += 1
            self._under_way.append((time.monotonic(), self._started, jax.tree.leaves(outputs)))

    def _oldest(self) -> tuple[float, int] | None:
        """When the oldest program that has not ended was started, and its number."""
        for since, number, arrays in tuple(self._under_way):
            if not all(map(_has_ended, arrays)):
                return since, number
        return None


def _has_ended(array: jax.Array) -> bool:
    """Whether the program that computes `array` has ended; asked in a thread of its own."""
    try:
        return array.is_deleted() or bool(array.is_ready())  # type: ignore[attr-defined]
    except RuntimeError:  # deleted between the two
        return True
