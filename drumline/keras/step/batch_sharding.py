"""Where a batch goes: cut over the replicas, or whole to each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from drumline.data.narrowing import require_all_fit
from drumline.distribute import Strategy
from drumline.distribute.across_processes import cut, on_this_process
from drumline.keras.ownership import strategy_of


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


def place_ahead(batches: Iterable[Any], strategy: Strategy) -> Iterator[Any]:
    """Yield the batches placed over the replicas, each transfer started one batch early."""
    ahead: Any = None
    for batch in batches:
        placed = place(batch, strategy)
        if ahead is not None:
            yield ahead
        ahead = placed
    if ahead is not None:
        yield ahead


def place(batch: Any, strategy: Strategy) -> Any:
    """Return the batch cut over the replicas if it splits evenly, else whole on each of them.

    Raises:
        OverflowError: if an integer does not fit into 32 bits.
    """
    _require_fits(batch)
    if not splits_evenly(batch, strategy.num_replicas_in_sync):
        return jax.device_put(jax.tree.map(on_this_process, batch), strategy.variable_sharding)
    if strategy.spans_processes:
        return jax.tree.map(lambda leaf: _cut_over_processes(leaf, strategy), batch)
    return jax.device_put(batch, strategy.batch_sharding)


def moved(batch: Any, strategy: Strategy) -> Any:
    """Return the batch with arrays that are committed to devices moved to where `place` puts them.

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


def moved_whole(batch: Any, strategy: Strategy) -> Any:
    """As `moved`, for a step in which every replica computes the whole batch."""
    _require_fits(batch)

    def move(leaf: Any) -> Any:
        if not _is_committed(leaf) or not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            return leaf
        return strategy.for_program(strategy.place_variable(leaf))

    return jax.tree.map(move, batch)


def of_integers_that_fit(method: Callable[..., Any]) -> Callable[..., Any]:
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
    leaf = on_this_process(leaf)
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return leaf
    return cut(np.asarray(leaf), strategy.mesh)


class UnevenReporter:
    """Says once when batches that do not split are more than the last one of an epoch."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._last: list[Any] = []
        self._said = False

    def saw_even(self) -> None:
        """Note a batch that splits."""
        self._last = []

    def saw_uneven(self, batch: Any) -> None:
        """Note a batch that does not; warn at the second in a row of the same shapes."""
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(batch)]
        again, self._last = shapes == self._last, shapes
        if self._said or not again:
            return
        self._said = True
        warnings.warn(
            f"Batches of shapes {shapes} do not split over {self._replicas} replicas: every "
            "replica computes the whole batch, with the right result but no gain in speed. "
            f"Make the batch size a multiple of {self._replicas}.",
            stacklevel=2,
        )
