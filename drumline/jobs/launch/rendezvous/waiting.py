"""Waiting for other launchers, while signals are heeded."""

from __future__ import annotations

import time
from collections.abc import Callable

from drumline.jobs.launch.errors import Interrupted
from drumline.jobs.launch.loop import Loop

_STEP_SECONDS = 0.25


def wait_until(
    loop: Loop,
    ready: Callable[[], object],
    tick: Callable[[], None],
    deadline: float | None = None,
) -> bool:
    """Run `loop` until `ready`, or the `time.monotonic` `deadline`. Returns whether it was.

    Raises:
        Interrupted: at the first signal that ends a job.
    """
    while not ready():
        if loop.signals:
            raise Interrupted(loop.signals.pop(0))
        if deadline is not None and time.monotonic() >= deadline:
            return False
        loop.step(_STEP_SECONDS)
        tick()
    return True
