"""A step written for the whole batch, spread over the devices by the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.distribute import Strategy
from drumline.keras.batches import splits_evenly


class WholeStep:
    """Compiles ``step(state, batch) -> (outputs, state)`` as a program over the global batch.

    Its result is that of one device whatever the step computes. A batch that splits evenly lies
    cut over the replicas and XLA partitions the work; any other lies whole on each replica, and
    each computes all of it.

    Args:
        step: the step, as Keras's JAX trainer defines it.
        strategy: where state and batches lie.
        cut_outputs: leave the outputs as the compiler lays them, instead of whole on each replica.
    """

    def __init__(
        self, step: Callable[..., Any], strategy: Strategy, *, cut_outputs: bool = False
    ) -> None:
        self._replicas = strategy.num_replicas_in_sync
        placed = strategy.variable_sharding
        outputs = None if cut_outputs else placed

        def compiled(name: str, batch_sharding: jax.sharding.Sharding) -> Any:
            def whole_step(state: Any, batch: Any) -> Any:
                return step(state, batch)

            whole_step.__name__ = name
            return jax.jit(
                whole_step,
                donate_argnums=0,
                in_shardings=(placed, batch_sharding),
                out_shardings=(outputs, placed),
            )

        self._cut = compiled("partitioned_step", strategy.batch_sharding)
        self._whole = compiled("replicated_step", placed)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the outputs and the new state."""
        if splits_evenly(batch, self._replicas):
            return self._cut(state, batch)
        return self._whole(state, batch)
