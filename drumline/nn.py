"""Losses of a global batch, computed replica by replica, as ``tf.nn`` has them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import get_replica_context, get_strategy, in_cross_replica_context


def compute_average_loss(
    per_example_loss: Any,
    sample_weight: Any = None,
    global_batch_size: Any = None,
) -> jax.Array:
    """Scale per-example losses so that the replicas' sum is the mean over the global batch.

    As ``tf.nn.compute_average_loss``.

    Args:
        per_example_loss: the losses of this replica's examples, of any shape.
        sample_weight: weights that broadcast to it.
        global_batch_size: examples in the batch over all replicas; by default this replica's,
            the first dimension, times the number of replicas. Give it where shares may be uneven.

    Returns:
        A scalar: the weighted sum over `global_batch_size`.

    Raises:
        RuntimeError: in cross-replica context.
        ValueError: if the losses have no first dimension, or `global_batch_size` is not a positive
            integer.
    """
    _require_replica("compute_average_loss")
    losses = jnp.asarray(keras.ops.convert_to_tensor(per_example_loss))
    if losses.ndim == 0:
        raise ValueError(
            "compute_average_loss got a scalar; it takes a loss for each example. Make the loss "
            "with reduction=None."
        )
    if sample_weight is not None:
        losses = losses * jnp.asarray(sample_weight, losses.dtype)
    if global_batch_size is None:
        global_batch_size = losses.shape[0] * _replicas()
    size = jnp.asarray(global_batch_size)
    if size.ndim or not jnp.issubdtype(size.dtype, jnp.integer):
        raise ValueError(f"global_batch_size must be an integer, got {global_batch_size!r}.")
    if isinstance(global_batch_size, int) and global_batch_size < 1:
        raise ValueError(f"global_batch_size must be positive, got {global_batch_size}.")
    return jnp.sum(losses) / size.astype(losses.dtype)


def scale_regularization_loss(regularization_loss: Any) -> jax.Array:
    """Divide a regularization loss, which every replica computes, by the number of replicas.

    As ``tf.nn.scale_regularization_loss``.

    Args:
        regularization_loss: an array, or a list of them, which are summed.

    Raises:
        RuntimeError: in cross-replica context.
    """
    _require_replica("scale_regularization_loss")
    leaves = [jnp.sum(jnp.asarray(leaf)) for leaf in jax.tree.leaves(regularization_loss)]
    return sum(leaves, jnp.zeros(())) / _replicas()


def _replicas() -> int:
    context = get_replica_context()
    if context is None:
        return get_strategy().num_replicas_in_sync
    return context.num_replicas_taking_part


def _require_replica(name: str) -> None:
    if in_cross_replica_context():
        raise RuntimeError(
            f"drumline.nn.{name} was called in cross-replica context, where there is no replica's "
            "share of a batch. Call it in the step that `strategy.run` runs."
        )
