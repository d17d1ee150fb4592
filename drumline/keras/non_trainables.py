"""Making replicas' non-trainable variables one again after a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import ReduceOp
from drumline.keras.replica_trace import ReplicaTrace


def merge_non_trainables(
    trace: ReplicaTrace,
    variables: Sequence[keras.Variable],
    before: Sequence[jax.Array],
    after: Sequence[jax.Array],
) -> list[jax.Array]:
    """Return the values after a step, alike on every replica.

    As a variable's `aggregation` says: the mean; the sum of what the replicas added; the first
    replica's. Keras gives BatchNormalization's moving statistics none: floating values without
    one become the mean, others the first replica's. Variables that were not written stay.
    """
    return [
        new if new is old else _merge(trace, variable.aggregation, old, new)
        for variable, old, new in zip(variables, before, after, strict=True)
    ]


def _merge(trace: ReplicaTrace, aggregation: str, old: jax.Array, new: jax.Array) -> Any:
    context = trace.context
    if aggregation == "sum":
        return old + context.all_reduce(ReduceOp.SUM, new - old)
    floating = jnp.issubdtype(new.dtype, jnp.floating)
    if aggregation == "mean" or (aggregation == "none" and floating):
        return context.all_reduce(ReduceOp.MEAN, new)
    if not jnp.issubdtype(new.dtype, jnp.number):
        bits = jnp.where(context.replica_id_in_sync_group == 0, new, jnp.zeros_like(new))
        return context.all_reduce(ReduceOp.SUM, bits.astype(jnp.int32)).astype(new.dtype)
    first = jnp.where(context.replica_id_in_sync_group == 0, new, jnp.zeros_like(new))
    return context.all_reduce(ReduceOp.SUM, first)
