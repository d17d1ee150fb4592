"""Making replicas' non-trainable variables one again after a step."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import keras

from drumline.distribute.merging import merge_written
from drumline.keras.step.replica_trace import ReplicaTrace


def merge_non_trainables(
    trace: ReplicaTrace,
    variables: Sequence[keras.Variable],
    before: Sequence[jax.Array],
    after: Sequence[jax.Array],
) -> list[jax.Array]:
    """Return the values after a step, alike on every replica.

    Variables that were not written stay.
    """
    return [
        new if new is old else merge_written(trace.context, variable.aggregation, old, new)
        for variable, old, new in zip(variables, before, after, strict=True)
    ]
