"""Making one value of what replicas wrote to a variable in a step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.reduce_op import ReduceOp
from drumline.distribute.replica_context import ReplicaContext


def is_constant(value: Any) -> bool:
    """Whether `value` is a number or an array that is there already, not computed in a trace."""
    kinds = (bool, int, float, complex, np.generic, np.ndarray, jax.Array)
    return isinstance(value, kinds) and not isinstance(value, jax.core.Tracer)


def merge_written(context: ReplicaContext, aggregation: str, old: jax.Array, new: jax.Array) -> Any:
    """The value after a step, alike on every replica, as the variable's `aggregation` says.

    The mean; the sum of what the replicas added; the first replica's. Keras gives
    BatchNormalization's moving statistics none: floating values without one become the mean,
    others the first replica's.
    """
    if aggregation == "sum":
        return old + context.all_reduce(ReduceOp.SUM, new - old)
    floating = jnp.issubdtype(new.dtype, jnp.floating)
    if aggregation == "mean" or (aggregation == "none" and floating):
        return context.all_reduce(ReduceOp.MEAN, new)
    return first_replicas(context, new)


def first_replicas(context: ReplicaContext, value: jax.Array) -> Any:
    """The first replica's `value`, on every replica."""
    first = context.replica_id_in_sync_group == 0
    numeric = jnp.issubdtype(value.dtype, jnp.number)
    bits = value if numeric else value.astype(jnp.int32)
    only = jnp.where(first, bits, jnp.zeros_like(bits))
    return context.all_reduce(ReduceOp.SUM, only).astype(value.dtype)
