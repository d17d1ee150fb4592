"""Which strategy is in force, and the replica that runs, as ``tf.distribute`` gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline import distribute
from drumline.compat.distribute.strategies import DefaultOfTensors, OfTensors
from drumline.compat.values.boundary import map_structure, unwrap, wrap
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.precision import require_fits
from drumline.distribute.replica import has_strategy, put_in_force


def get_strategy() -> Any:
    """The strategy in whose scope or step this is called; the default one outside of all."""
    found = distribute.get_strategy()
    return found if isinstance(found, OfTensors) else DefaultOfTensors()


def experimental_set_strategy(strategy: Any) -> None:
    """Put a strategy in force without a ``with`` block, in the place of one set before.

    Args:
        strategy: it, or None for the default one.

    Raises:
        RuntimeError: within a strategy's scope, or a replica's step.
    """
    put_in_force(strategy)


class ReplicaContextView:
    """The replica that runs a step, as ``tf.distribute.ReplicaContext``.

    Args:
        context: drumline's.
    """

    def __init__(self, context: Any):
        self._context = context

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """One value of those of all replicas.

        Args:
            reduce_op: ``"SUM"``, ``"MEAN"``, or a `tf.distribute.ReduceOp`.
            value: nested tensors.
            options: accepted; a strategy's own `CommunicationOptions` are in force.
        """
        return wrap(self._context.all_reduce(reduce_op, unwrap(value)))

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """The values of all replicas, concatenated.

        Args:
            value: nested tensors of at least one dimension.
            axis: along which.
            options: accepted, as of `all_reduce`.
        """
        return wrap(self._context.all_gather(unwrap(value), axis))

    def merge_call(
        self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call a function once for all replicas.

        Args:
            merge_fn: of the strategy and the arguments; tensors are `PerReplica` there.
            args: of this replica, by position.
            kwargs: of this replica, by name.
        """

        def merged(strategy: Any, *inner: Any, **named: Any) -> Any:
            return unwrap(merge_fn(strategy, *wrap(inner), **wrap(named)))

        given = map_structure(_of_replica, (tuple(args), dict(kwargs or {})))
        return wrap(self._context.merge_call(merged, *unwrap(given)))

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The replica's number."""
        found = self._context.replica_id_in_sync_group
        return wrap(found) if isinstance(found, jax.Array) else found

    @property
    def strategy(self) -> Any:
        """The strategy whose step this is."""
        found = self._context.strategy
        return found if isinstance(found, OfTensors) else DefaultOfTensors()

    def __enter__(self) -> ReplicaContextView:
        raise RuntimeError("A replica context is entered by strategy.run alone.")

    def __exit__(self, *_: object) -> None:
        """Nothing: it cannot be entered."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._context, name)


def _of_replica(leaf: Any) -> Any:
    """A tensor of a step as an array of its device, which is one of each replica; else the leaf."""
    if type(leaf) is not Tensor or not isinstance(leaf._value, (np.ndarray, np.generic)):
        return leaf
    if leaf._value.dtype == object:  # strings
        return leaf
    require_fits(leaf._value, "merge_call", "cast it to a type of 32 bits")
    return Tensor(jnp.asarray(leaf._value))


ReplicaContextView.__name__ = ReplicaContextView.__qualname__ = "ReplicaContext"


def get_replica_context() -> ReplicaContextView | None:
    """The replica that runs; None outside of replicas' code, in a strategy's scope."""
    context = distribute.get_replica_context()
    return None if context is None else ReplicaContextView(context)


__all__ = [
    "ReplicaContextView",
    "experimental_set_strategy",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
]
