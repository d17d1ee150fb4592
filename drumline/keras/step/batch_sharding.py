"""Placing a batch: sharded over the replicas, or replicated to each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from drumline.data.elements.precision import require_all_fit
from drumline.distribute import Strategy
from drumline.distribute.global_arrays import shard, to_local_array
from drumline.keras.state import strategy_of


def splits_evenly(batch: Any, replicas: int) -> bool:
    """Whether every array of the batch has the same rows, a positive multiple of `replicas`."""
    rows = -1
    for leaf in jax.tree.leaves(batch, is_leaf=_is_array):
        if not isinstance(leaf, (np.ndarray, jax.Array)) or leaf.ndim == 0:
            return False
        if rows < 0:
            rows = leaf.shape[0]
        elif leaf.shape[0] != rows:
            return False
    return rows > 0 and rows % replicas == 0


def _is_array(node: Any) -> bool:
    return hasattr(node, "shape")


def prefetch_to_devices(batches: Iterable[Any], strategy: Strategy) -> Iterator[Any]:
    """Yield the batches placed over the replicas, each transfer started one batch early."""
    ahead: Any = None
    for batch in batches:
        placed = shard_or_replicate(batch, strategy)
        if ahead is not None:
            yield ahead
        ahead = placed
    if ahead is not None:
        yield ahead


def shard_or_replicate(batch: Any, strategy: Strategy) -> Any:
    """Return the batch sharded over the replicas if it splits evenly, else replicated to each.

    Raises:
        OverflowError: if an integer does not fit into 32 bits.
    """
    _require_fits(batch)
    if not splits_evenly(batch, strategy.num_replicas_in_sync):
        return jax.device_put(jax.tree.map(to_local_array, batch), strategy.variable_sharding)
    if strategy.spans_processes:
        return jax.tree.map(lambda leaf: _cut_over_processes(leaf, strategy), batch)
    return jax.device_put(batch, strategy.batch_sharding)


def move_to_devices(batch: Any, strategy: Strategy) -> Any:
    """Move arrays that are committed to devices to where `shard_or_replicate` puts them.

    What another model returned lies on the devices of that model, and a compiled step refuses an
    array that is committed to other devices than it runs on. All else JAX moves by itself.

    Raises:
        OverflowError: if an integer does not fit into 32 bits.
    """
    _require_fits(batch)
    if not any(map(_is_committed, jax.tree.leaves(batch))):
        return batch
    even = splits_evenly(batch, strategy.num_replicas_in_sync)
    sharding = strategy.batch_sharding if even else strategy.variable_sharding
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, sharding) if _is_committed(leaf) else leaf, batch
    )


def move_replicated(batch: Any, strategy: Strategy) -> Any:
    """As `move_to_devices`, for a step in which every replica computes the whole batch."""
    _require_fits(batch)

    def move(leaf: Any) -> Any:
        if not _is_committed(leaf) or not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            return leaf
        return strategy._arrays.for_program(strategy._arrays.place_variable(leaf))

    return jax.tree.map(move, batch)


def check_integer_range(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``train_on_batch`` and its like, in which Keras narrows a batch before its step has it.

    Raises:
        OverflowError: if an integer does not fit into 32 bits.
    """

    @functools.wraps(method)
    def check_batch(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        if strategy_of(self) is not None:
            _require_fits((args, kwargs))
        return method(self, *args, **kwargs)

    return check_batch


def _require_fits(batch: Any) -> None:
    require_all_fit(batch, "A batch", "switch on JAX's 64-bit types, `jax_enable_x64`")


def _is_committed(leaf: Any) -> bool:
    """Whether `leaf` is an array of JAX's that stays on its devices."""
    is_array = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return is_array and leaf.committed


def _cut_over_processes(leaf: Any, strategy: Strategy) -> jax.Array:
    """`leaf`, the same on all processes, cut over their replicas; one that is cut stays."""
    leaf = to_local_array(leaf)
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return leaf
    return shard(np.asarray(leaf), strategy.mesh)
