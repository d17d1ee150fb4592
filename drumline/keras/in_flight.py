"""Keras's compiled steps, one at a time where the devices need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.distribute import Strategy
from drumline.distribute.across_processes import on_this_process
from drumline.keras.step.batch_sharding import moved, place


def one_in_flight(step: Callable[..., Any], strategy: Strategy) -> Callable[..., Any]:
    """Let a step start only when `Strategy.in_flight` allows it."""

    def step_when_free(state: Any, batch: Any) -> Any:
        strategy.in_flight.wait()
        batch = place(batch, strategy) if strategy.spans_processes else moved(batch, strategy)
        outputs, state = step(state, batch)
        strategy.in_flight.started(outputs)
        if strategy.spans_processes:
            outputs = jax.tree.map(on_this_process, outputs)
        return outputs, state

    return step_when_free
