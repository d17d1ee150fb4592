"""A step on each replica sequentially: for debugging, and for shards of different sizes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.replica import (
    ReplicaContext,
    enter_replica_context,
    merging,
    result_of_replica,
    with_axis,
)
from drumline.distribute.step.arguments import called, followers, for_replica, leaves_per_replica
from drumline.distribute.step.outputs import joined, require_same_structure
from drumline.distribute.step.reduction import require_alike, total
from drumline.distribute.step.replica_barrier import (
    END,
    CannotFollow,
    CollectiveGather,
    Reduction,
    ReplicaScheduler,
)
from drumline.distribute.step.replica_scope import ReplicaScope, has_copies, summed_when_read
from drumline.distribute.values import REPLICA_AXIS, PerReplica, ReduceOp
from drumline.training.jax_internals import current_trace
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import StateScope, current_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


class MergeScope(StateScope):
    """A `StateScope` around a ``merge_call``, over the scopes of the replicas that take part.

    Args:
        scopes: theirs, in their order.
    """

    def __init__(self, scopes: Sequence[ReplicaScope]) -> None:
        super().__init__(outer=scopes[0])
        self._scopes = scopes

    def position(self, scope: ReplicaScope) -> int:
        """Which of the replicas has `scope`."""
        return next(index for index, each in enumerate(self._scopes) if each is scope)

    def get_current_value(self, variable: Variable) -> Any:
        known = id(variable) in self.state_mapping
        value = super().get_current_value(variable)
        if known or not (has_copies(variable) or summed_when_read(variable)):
            return value
        values = [scope.value_of(variable) for scope in self._scopes]
        return jnp.stack(values) if has_copies(variable) else sum(values[1:], values[0])

    def value_for(self, scope: ReplicaScope, variable: Variable) -> Any:
        """What `variable`, which was written, holds for the replica of `scope`."""
        value = self.value_of(variable)
        return value[self.position(scope)] if has_copies(variable) else value


Call = tuple[Sequence[Any], Mapping[str, Any]]


class LockstepContext(ReplicaContext):
    """The context of a replica that runs in turn with the others.

    Args:
        strategy: whose replica it is.
        index: its number.
        rendezvous: where it waits for the others.
        taking_part: how many replicas have rows.
        follows: whether it has none: it then gets what the others compute together.

    Attributes:
        scope: the variables as it sees them.
        follows: the same.
    """

    def __init__(
        self,
        strategy: Strategy,
        index: int,
        rendezvous: ReplicaScheduler,
        taking_part: int,
        *,
        follows: bool = False,
    ) -> None:
        super().__init__(strategy)
        self._index = index
        self._rendezvous = rendezvous
        self._taking_part = taking_part
        self.follows = follows
        self.scope = ReplicaScope(self)

    @property
    def num_replicas_taking_part(self) -> int:
        return self._taking_part

    @property
    def traced_once(self) -> bool:
        return False

    @property
    def replica_id_in_sync_group(self) -> int:
        return self._index

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        op = ReduceOp.of(op)
        combine = functools.partial(_reduce, self.strategy, op)
        call = f"all_reduce({op.name})"
        leaves, tree = jax.tree.flatten(value)
        if current_trace() is self._rendezvous.trace or not all(map(_is_numeric, leaves)):
            return _own(self._rendezvous.collective(call, value, combine))
        return jax.tree.unflatten(tree, Reduction(self._rendezvous, call, combine)(leaves))

    def all_gather(self, value: Any, axis: int = 0) -> Any:
        value = jax.tree.map(lambda leaf: with_axis(leaf, axis), value)
        leaves, tree = jax.tree.flatten(value)
        if current_trace() is self._rendezvous.trace or not all(map(_is_numeric, leaves)):
            combine = functools.partial(_gather, axis)
            return _own(self._rendezvous.collective(f"all_gather(axis={axis})", value, combine))
        gathering = CollectiveGather(self._rendezvous, axis, self._index)
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
            with (
                scope,
                merging(self),
                enter_replica_context(None),
                self.strategy.scope(),
            ):
                result = merge_fn(self.strategy, *args, **kwargs)
            return result, scope

        call = f"merge_call({getattr(merge_fn, '__name__', merge_fn)})"
        brought = self.scope, (tuple(args), dict(kwargs or {}))
        result, scope = self._rendezvous.collective(call, brought, merge)
        if self.follows:
            return self._followed(call, result, scope)
        with self.agreeing():
            for variable in scope.written:
                self.scope.add_update((variable, scope.value_for(self.scope, variable)))
        return result_of_replica(result, scope.position(self.scope))

    def _followed(self, call: str, result: Any, scope: MergeScope) -> Any:
        """What a replica without rows gets of a ``merge_call``: what is the same for all."""
        if any(isinstance(node, PerReplica) for node in leaves_per_replica(result)):
            raise CannotFollow(f"{call} returns a value for each replica that takes part")
        with self.agreeing():
            for variable in scope.written:
                if not has_copies(variable):
                    self.scope.add_update((variable, scope.value_of(variable)))
        return _own(result)


@dataclass
class Outcome:
    """What a step left.

    Attributes:
        results: what the replicas that took part returned, by their numbers.
        carried: what those without rows hold, by their numbers.
        unknown: why it is not known of the others.
        variables: the variables that were written.
        values: what these hold now.
    """

    results: dict[int, Any]
    carried: dict[int, Any]
    unknown: str
    variables: list[Variable]
    values: list[Any]


def run_replicas_sequentially(
    strategy: Strategy, fn: Callable[..., Any], tree: Any, present: Sequence[int], *, eager: bool
) -> Outcome:
    """Run `fn` for each replica, sequentially up to the next collective.

    A replica without rows follows, if the call has more to compute with than the batch: it runs
    with its empty share, adds nothing to what the others compute together, and gets that. So what
    is the same on all replicas, as parameters, stays the same on it, and a next step can use it.

    Args:
        strategy: whose replicas they are.
        fn: the step.
        tree: its arguments ``(args, kwargs)``.
        present: the numbers of the replicas that take part, see `taking_part`.
        eager: whether values are concrete: variables that the step creates get theirs at once.
    """
    rendezvous = ReplicaScheduler()
    following, unknown = followers(tree, present, strategy.num_replicas_in_sync)

    def call_of(index: int) -> Call:
        call: Call = for_replica(tree, index)
        # Where the variables lie: an operation takes operands from the same devices.
        return strategy._arrays.place_with_variables(call) if eager else call

    def step(context: LockstepContext, call: Call) -> Any:
        args, kwargs = call
        context.scope.creates = eager
        with context.scope, enter_replica_context(context), strategy.scope():
            with _naming_the_axis():
                result = called(fn, args, kwargs)
            written = rendezvous.collective(END, context.scope.written, _union)
            if context.follows:
                return result
            return result, written, context.scope.merged(written)

    def steps(numbers: Sequence[int], *, follows: bool) -> dict[int, Callable[[], Any]]:
        return {
            index: functools.partial(
                step,
                LockstepContext(strategy, index, rendezvous, len(present), follows=follows),
                call_of(index),
            )
            for index in numbers
        }

    outcomes, followed = rendezvous.run(
        steps(present, follows=False), steps(following, follows=True)
    )
    results, written, merged = zip(*outcomes, strict=True)
    values = [
        _with_absent(strategy, variable, present, copies) if has_copies(variable) else copies[0]
        for variable, copies in zip(written[0], zip(*merged, strict=True), strict=True)
    ]
    carried = {}
    for index, result in followed.items():
        if isinstance(result, Exception):
            unknown = f"on its empty share the step raised {type(result).__name__}: {result}"
            if isinstance(result, CannotFollow):
                unknown = str(result)
        elif not _same_structure(result, results[0]):
            unknown = "on its empty share the step returned another structure"
        else:
            carried[index] = result
    return Outcome(dict(zip(present, results, strict=True)), carried, unknown, written[0], values)


@contextlib.contextmanager
def _naming_the_axis() -> Iterator[None]:
    """Say what to do where a step uses the mesh's axis, which a program in turns does not have."""
    try:
        yield
    except NameError as error:
        if f"axis name: {REPLICA_AXIS}" not in str(error):
            raise
        raise NameError(
            f"The step uses the axis {REPLICA_AXIS!r} by its name, as `jax.lax.psum` does, which "
            "only a batch that is divided evenly allows; the replicas have shares of different "
            "sizes, or run eagerly. Use `drumline.distribute.get_replica_context().all_reduce`, "
            "`.all_gather` and `.replica_id_in_sync_group`, which work for any."
        ) from error


def _own(tree: Any) -> Any:
    """What all replicas get, as one of them may change it: dicts and lists of its own."""
    return jax.tree.map(lambda leaf: leaf, tree)


def _same_structure(one: Any, other: Any) -> bool:
    first: Any = jax.tree.structure(one)
    return bool(first == jax.tree.structure(other))


def _with_absent(
    strategy: Strategy, variable: Variable, present: Sequence[int], copies: Sequence[Any]
) -> Any:
    """The copies of all replicas: those that took no part keep theirs."""
    (before,) = strategy._arrays.known_everywhere(current_values([variable]))
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

    if not strategy._has_own_all_reduce:
        return jax.tree.map(reduce_leaves, *values)
    if len(values) < strategy.num_replicas_in_sync:
        raise NotImplementedError(
            f"{type(strategy).__name__}.all_reduce says how the values of "
            f"{strategy.num_replicas_in_sync} replicas are reduced, but {len(values)} have rows "
            "of this batch. Drop what is left over, `.batch(n, drop_remainder=True)`, or pad the "
            "batch."
        )
    jax.tree.map(lambda *leaves: require_alike(name, leaves), *values)
    rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *values)
    own = jax.vmap(functools.partial(strategy.all_reduce, op), axis_name=REPLICA_AXIS)(rows)
    return jax.tree.map(lambda leaf: leaf[0], own)


def _gather(axis: int, values: list[Any]) -> Any:
    require_same_structure(f"all_gather(axis={axis})", values)
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis), *values)
