"""A step on each replica in turn: for debugging, and for shares of different sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute import replica_context
from drumline.distribute.linear_meeting import Gathering, Reduction
from drumline.distribute.merge_call import merging, result_of_replica
from drumline.distribute.merge_scope import MergeScope
from drumline.distribute.outputs import joined, require_same_structure
from drumline.distribute.reduce_op import REPLICA_AXIS, ReduceOp
from drumline.distribute.reducing import require_alike, total
from drumline.distribute.rendezvous import END, Rendezvous
from drumline.distribute.replica_context import ReplicaContext, with_axis
from drumline.distribute.replica_scope import ReplicaScope, has_copies
from drumline.training.jax_internals import current_trace
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import current_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

Call = tuple[Sequence[Any], Mapping[str, Any]]


class LockstepContext(ReplicaContext):
    """The context of a replica that runs in turn with the others.

    Args:
        strategy: whose replica it is.
        index: its number.
        rendezvous: where it meets the others.

    Attributes:
        scope: the variables as it sees them.
    """

    def __init__(self, strategy: Strategy, index: int, rendezvous: Rendezvous) -> None:
        super().__init__(strategy)
        self._index = index
        self._rendezvous = rendezvous
        self.scope = ReplicaScope(self)

    @property
    def replica_id_in_sync_group(self) -> int:
        return self._index

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        op = ReduceOp.of(op)
        combine = functools.partial(_reduce, self.strategy, op)
        call = f"all_reduce({op.name})"
        leaves, tree = jax.tree.flatten(value)
        if current_trace() is self._rendezvous.trace or not all(map(_is_numeric, leaves)):
            return self._rendezvous.meet(call, value, combine)
        return jax.tree.unflatten(tree, Reduction(self._rendezvous, call, combine)(leaves))

    def all_gather(self, value: Any, axis: int = 0) -> Any:
        value = jax.tree.map(lambda leaf: with_axis(leaf, axis), value)
        leaves, tree = jax.tree.flatten(value)
        if current_trace() is self._rendezvous.trace or not all(map(_is_numeric, leaves)):
            combine = functools.partial(_gather, axis)
            return self._rendezvous.meet(f"all_gather(axis={axis})", value, combine)
        gathering = Gathering(self._rendezvous, axis, self._index)
        return jax.tree.unflatten(tree, gathering(leaves))

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        def merge(calls: list[Any]) -> Any:
            args, kwargs = joined(call, [values for _, values in calls])
            scope = MergeScope([replica_scope for replica_scope, _ in calls])
            with scope, merging(self), replica_context.enter(None), self.strategy.scope():
                result = merge_fn(self.strategy, *args, **kwargs)
            return result, scope

        call = f"merge_call({getattr(merge_fn, '__name__', merge_fn)})"
        brought = self.scope, (tuple(args), dict(kwargs or {}))
        result, scope = self._rendezvous.meet(call, brought, merge)
        with self.agreeing():
            for variable in scope.written:
                self.scope.add_update((variable, scope.value_for(self.scope, variable)))
        return result_of_replica(result, scope.position(self.scope))


def run_in_turn(
    strategy: Strategy, fn: Callable[..., Any], calls: Mapping[int, Call], *, eager: bool
) -> tuple[list[Any], list[Variable], list[Any]]:
    """Run `fn` for each replica, one after another up to where they meet.

    Args:
        strategy: whose replicas they are.
        fn: the step.
        calls: for each replica that takes part, by its number, the arguments.
        eager: whether variables that the step creates get their values at once.

    Returns:
        What each replica returned, the variables they wrote, and what these hold now.
    """
    rendezvous = Rendezvous()

    def step(context: LockstepContext, call: Call) -> Any:
        args, kwargs = call
        context.scope.creates = eager
        with context.scope, replica_context.enter(context), strategy.scope():
            result = fn(*args, **kwargs)
            written = rendezvous.meet(END, context.scope.written, _union)
            return result, written, context.scope.merged(written)

    steps = [
        functools.partial(step, LockstepContext(strategy, index, rendezvous), call)
        for index, call in calls.items()
    ]
    results, written, merged = zip(*rendezvous.run(steps), strict=True)
    values = [
        _with_absent(strategy, variable, tuple(calls), copies)
        if has_copies(variable)
        else copies[0]
        for variable, copies in zip(written[0], zip(*merged, strict=True), strict=True)
    ]
    return list(results), written[0], values


def _with_absent(
    strategy: Strategy, variable: Variable, present: Sequence[int], copies: Sequence[Any]
) -> Any:
    """The copies of all replicas: those that took no part keep theirs."""
    (before,) = strategy.known_everywhere(current_values([variable]))
    return jnp.asarray(before).at[jnp.asarray(present)].set(jnp.stack(copies))


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex))


def _union(lists: list[list[Variable]]) -> list[Variable]:
    return list({id(variable): variable for part in lists for variable in part}.values())


def _reduce(strategy: Strategy, op: ReduceOp, values: list[Any]) -> Any:
    name = f"all_reduce({op.name})"
    require_same_structure(name, values)

    def reduce_leaves(*leaves: Any) -> Any:
        require_alike(name, leaves)
        return total(leaves) if op is ReduceOp.SUM else total(leaves) / len(leaves)

    if not strategy.has_own_all_reduce:
        return jax.tree.map(reduce_leaves, *values)
    if len(values) < strategy.num_replicas_in_sync:
        raise NotImplementedError(
            f"{type(strategy).__name__}.all_reduce says how the values of "
            f"{strategy.num_replicas_in_sync} replicas meet, but {len(values)} have rows of this "
            "batch. Drop what is left over, `.batch(n, drop_remainder=True)`, or pad the batch."
        )
    jax.tree.map(lambda *leaves: require_alike(name, leaves), *values)
    rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *values)
    own = jax.vmap(functools.partial(strategy.all_reduce, op), axis_name=REPLICA_AXIS)(rows)
    return jax.tree.map(lambda leaf: leaf[0], own)


def _gather(axis: int, values: list[Any]) -> Any:
    require_same_structure(f"all_gather(axis={axis})", values)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis), *values)
