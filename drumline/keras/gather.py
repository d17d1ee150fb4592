"""From a replica's share of a batch to the global batch."""

from __future__ import annotations

from typing import Any

import jax
import keras

from drumline.keras import internals
from drumline.keras.step.replica_trace import ReplicaTrace


def gather_batch(trace: ReplicaTrace, tree: Any) -> Any:
    """Concatenate every array of a tree over the replicas, along its first dimension.

    Scalars, None and Python numbers stay as they are. A Keras mask is gathered with its array.
    """
    return keras.tree.map_structure(lambda leaf: _gather_leaf(trace, leaf), tree)


def _gather_leaf(trace: ReplicaTrace, leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or leaf.ndim == 0:
        return leaf
    whole = trace.context.all_gather(leaf)
    mask = internals.get_keras_mask(leaf)
    if mask is not None:
        internals.set_keras_mask(whole, trace.context.all_gather(mask))
    return whole
