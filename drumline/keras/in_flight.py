"""At most one step in flight on logical CPU devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.distribute import Strategy


def one_in_flight(step: Callable[..., Any], strategy: Strategy) -> Callable[..., Any]:
    """On several CPU devices, let a step start only when the one before has ended.

    XLA's CPU client runs the programs of all its devices on one pool of max(cores, devices)
    threads. A program that waits in a collective blocks its thread; with as many devices as
    threads and several steps under way, the threads end up blocked by programs whose partners
    find none, and after 40 s XLA aborts the process (seen with 2 devices on 2 cores). Fetching the
    next batch and the callbacks still overlap with the step.
    """
    if strategy.num_replicas_in_sync == 1 or strategy.replica_devices[0].platform != "cpu":
        return step
    under_way: Any = None

    def step_when_free(state: Any, batch: Any) -> Any:
        nonlocal under_way
        if under_way is not None:
            jax.block_until_ready(under_way)
        outputs, state = step(state, batch)
        under_way = outputs
        return outputs, state

    return step_when_free
