"""Merging in a step: `merge_call`, and one value of what replicas wrote to a variable."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute import replica_context
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import REPLICA_AXIS, ReduceOp
from drumline.distribute.replica_context import ReplicaContext

_merging: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "drumline_merging", default=None
)


def merging_replica() -> ReplicaContext | None:
    """The context of the replica whose `merge_call` is being traced; None outside of one."""
    return _merging.get()


def in_program_merge() -> ReplicaContext | None:
    """The same where one trace stands for all of several replicas; else None."""
    context = _merging.get()
    traced = context is not None and not isinstance(context.replica_id_in_sync_group, int)
    return context if traced else None


@contextlib.contextmanager
def merging(context: ReplicaContext) -> Iterator[None]:
    """Within the block a ``merge_call`` of `context` is under way."""
    token = _merging.set(context)
    try:
        yield
    finally:
        _merging.reset(token)


def result_of_replica(result: Any, index: Any) -> Any:
    """What one replica gets of what ``merge_fn`` returned: its own of values that differ."""

    def select(node: Any) -> Any:
        if isinstance(node, InProgram):
            return node.local
        if not isinstance(node, PerReplica):
            return node
        return node.values[index] if isinstance(index, int) else jnp.stack(node.values)[index]

    return jax.tree.map(select, result, is_leaf=lambda node: isinstance(node, PerReplica))


@jax.tree_util.register_pytree_with_keys_class
class InProgram(PerReplica):
    """The replicas' values of an array, seen in `merge_call` by the program that all of them run.

    Reducing it is a collective. Its `values` are gathered from the replicas when asked for.
    """

    def __init__(self, local: Any, context: ReplicaContext) -> None:
        super().__init__(())
        self._local = local
        self._context = context
        self._values = None

    @property
    def local(self) -> Any:
        """The value of the replica that runs the program."""
        return self._local

    @property
    def values(self) -> tuple[Any, ...]:
        if self._values is None:
            rows = jax.lax.all_gather(self._local, REPLICA_AXIS)
            self._values = tuple(rows[index] for index in range(rows.shape[0]))
        return self._values

    def reduced(self, op: ReduceOp) -> Any:
        """The sum or mean over the replicas."""
        return self._context.all_reduce(op, self._local)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self._local,), self._context

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Any]:
        return ((jax.tree_util.GetAttrKey("local"), self._local),), self._context

    @classmethod
    def tree_unflatten(cls, context: Any, children: Any) -> InProgram:
        (local,) = children
        return cls(local, context)


def merge_in_program(
    context: ReplicaContext,
    merge_fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """`ReplicaContext.merge_call` where one trace stands for all replicas."""
    alone = context.num_replicas_in_sync == 1
    wrapped = (tuple(args), dict(kwargs))
    if not alone:
        wrapped = jax.tree.map(
            lambda leaf: InProgram(leaf, context) if isinstance(leaf, jax.Array) else leaf, wrapped
        )
    args, kwargs = wrapped
    with (
        merging(context),
        context.agreeing(),
        replica_context.enter(None),
        context.strategy.scope(),
    ):
        result = merge_fn(context.strategy, *args, **kwargs)
    return result_of_replica(result, context.replica_id_in_sync_group)


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
