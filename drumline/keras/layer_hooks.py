"""Statistics over the global batch, in layers that ask for them."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import ReplicaContext
from drumline.distribute.replica_context import running_replica


def take_synchronized(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``BatchNormalization.__init__``: ``synchronized=True`` is not refused.

    Keras takes it on its TensorFlow backend alone.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def init_synchronized(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        synchronized = bool(bound.arguments.pop("synchronized", False))
        init(*bound.args, **bound.kwargs)
        self.synchronized = synchronized

    # Keras reads the arguments of a layer's __init__, for its configuration.
    init_synchronized.__signature__ = signature  # type: ignore[attr-defined]
    return init_synchronized


def over_all_replicas(moments: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the backend's ``moments``, behind ``keras.ops.moments``: take ``synchronized=True``."""

    @functools.wraps(moments)
    def moments_over_all(
        x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
    ) -> Any:
        context = _several_replicas()
        if not synchronized or context is None:
            return moments(x, axes, keepdims=keepdims)
        dtype = keras.backend.standardize_dtype(x.dtype)
        half = dtype in ("float16", "bfloat16")
        axes = tuple(axis % x.ndim for axis in ([axes] if isinstance(axes, int) else axes))
        values = x.astype("float32") if half else x
        mean, variance = _global_moments(context, values, None, axes)
        if not keepdims:
            mean, variance = jnp.squeeze(mean, axes), jnp.squeeze(variance, axes)
        if half:  # as Keras does
            limits = jnp.finfo(jnp.float16)
            mean, variance = (
                jnp.clip(each, limits.min, limits.max).astype(dtype) for each in (mean, variance)
            )
        return mean, variance

    return moments_over_all


def of_masked(moments: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``BatchNormalization._moments``, which sums up the entries that a mask leaves itself."""

    @functools.wraps(moments)
    def moments_of_layer(self: Any, inputs: Any, mask: Any) -> Any:
        context = _several_replicas()
        if mask is None or not self.synchronized or context is None:
            return moments(self, inputs, mask)
        present = jnp.broadcast_to(jnp.expand_dims(mask, -1), inputs.shape)
        axes = tuple(self._reduction_axes)
        mean, variance = _global_moments(context, inputs, present, axes)
        return jnp.squeeze(mean), jnp.squeeze(variance)

    return moments_of_layer


def _several_replicas() -> ReplicaContext | None:
    context = running_replica()
    return None if context is None or context.num_replicas_in_sync == 1 else context


def _global_moments(
    context: ReplicaContext, x: jax.Array, present: jax.Array | None, axes: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """The mean and variance over `axes` of all replicas' `x`, with the reduced dimensions kept.

    Each replica's moments are combined by the number of entries they are of: nothing large is
    subtracted from something large, as where the mean of the squares is taken (Chan, Golub and
    LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).

    Args:
        context: the replica's.
        x: this replica's values.
        present: which of them count; None for all.
        axes: over which to reduce.
    """
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    if present is None:
        count = jnp.full(kept, x.size // math.prod(kept), x.dtype)
        epsilon = 0.0
    else:
        x = jnp.where(present, x, 0)
        count = jnp.sum(present, axes, dtype=x.dtype, keepdims=True)
        epsilon = keras.backend.epsilon()  # Keras adds it to the number of entries
    mean = jnp.sum(x, axes, keepdims=True) / jnp.maximum(count, 1)
    deviations = x - mean if present is None else jnp.where(present, x - mean, 0)
    squares = jnp.sum(deviations**2, axes, keepdims=True)
    counts, means, squares = context.all_gather(jnp.stack([count, mean, squares])[:, None], axis=1)
    total = jnp.sum(counts, 0) + epsilon
    mean = jnp.sum(counts * means, 0) / total
    squares = jnp.sum(squares, 0) + jnp.sum(counts * (means - mean) ** 2, 0)
    return mean, squares / total
