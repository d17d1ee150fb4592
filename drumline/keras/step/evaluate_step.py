"""A step over the global batch, partitioned over the devices by the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Sharding

from drumline.distribute import Strategy
from drumline.distribute.global_arrays import to_local_array
from drumline.distribute.replica import whole_batch
from drumline.keras.step.batch_sharding import splits_evenly


class GlobalBatchStep:
    """Compiles ``step(state, batch) -> (outputs, state)`` as a program over the global batch.

    Its result is that of one device whatever the step computes. A batch that splits evenly lies
    sharded over the replicas and XLA partitions the work; any other is replicated, and each replica
    computes all of it, without the other processes if there are any.

    Args:
        step: the step, as Keras's JAX trainer defines it.
        strategy: where state and batches lie.
        sharded_outputs: leave the outputs as the compiler shards them, instead of replicating them.
    """

    def __init__(
        self, step: Callable[..., Any], strategy: Strategy, *, sharded_outputs: bool = False
    ) -> None:
        self._strategy = strategy

        def compiled(name: str, placed: Sharding, batch: Sharding, outputs: Any) -> Any:
            def whole_step(state: Any, batch: Any) -> Any:
                with whole_batch(strategy):
                    return step(state, batch)

            whole_step.__name__ = name
            return jax.jit(
                whole_step,
                donate_argnums=0,
                in_shardings=(placed, batch),
                out_shardings=(outputs, placed),
            )

        every, here = strategy._arrays.program_sharding, strategy.variable_sharding
        leave_sharded = sharded_outputs and not strategy.spans_processes
        cut = None if leave_sharded else every
        self._cut = compiled("partitioned_step", every, strategy.batch_sharding, cut)
        whole = None if leave_sharded else here
        self._whole = compiled("replicated_step", here, here, whole)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the outputs and the new state."""
        strategy = self._strategy
        if splits_evenly(batch, strategy.num_replicas_in_sync):
            return self._cut(state, batch)
        outputs, state = self._whole(jax.tree.map(to_local_array, state), batch)
        return outputs, jax.tree.map(strategy._arrays.for_program, state)
