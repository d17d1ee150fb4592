"""The compiled steps of ``fit`` and ``evaluate``, and where their batches lie.

A batch is sharded over the replicas, or replicated to each of them. `GlobalBatchStep` is a step
over the global batch, partitioned over the devices by the compiler. `TrainStep` runs Keras's own
``train_step`` on each replica, with its shard of the batch; what surrounds it merges what replicas
wrote to non-trainable variables, and checks that replicas have not diverged.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import PartitionSpec, Sharding

from drumline import _recorder
from drumline.data.elements.precision import require_all_fit
from drumline.distribute import Strategy
from drumline.distribute.collectives.collective_channels import allocate_channels
from drumline.distribute.global_arrays import shard, to_local_array
from drumline.distribute.replica import merge_written, whole_batch
from drumline.distribute.step.compiled_step import NumberedPrograms
from drumline.distribute.strategy import REPLICA_AXIS
from drumline.keras.internals import overrides
from drumline.keras.state import TRAIN_STATE, state_sharding, state_variables, strategy_of
from drumline.keras.step.reductions import (
    NeedsGlobalBatch,
    ReplicaMetrics,
    ReplicaTrace,
    averaged_gradients,
    global_loss,
    overwrites,
    tracing,
    whole_batch_outputs,
)
from drumline.keras.step.sharded_update import (
    ShardedUpdate,
    as_kept,
    gathered_weights,
    options_of_gathers,
    row_specs,
    scattered_gradients,
    whole_on_replica,
    whole_specs,
    whole_values,
)
from drumline.training.cut_values import held, is_cut
from drumline.training.jax_internals import current_trace, is_staged
from drumline.training.outbox import WithParcels, collecting


def splits_evenly(batch: Any, replicas: int) -> bool:
    """Whether every array of the batch has the same rows, a positive multiple of `replicas`."""
    rows = -1
    for leaf in jax.tree.leaves(batch, is_leaf=_is_array):
        if not isinstance(leaf, (np.ndarray, jax.Array, jax.ShapeDtypeStruct)) or leaf.ndim == 0:
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
        local = strategy._arrays.local_sharding
        return jax.device_put(jax.tree.map(to_local_array, batch), local)
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
    sharding = strategy.batch_sharding if even else strategy._arrays.local_sharding
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf, sharding) if _is_committed(leaf) else leaf, batch
    )


def move_replicated(batch: Any, strategy: Strategy) -> Any:
    """As `move_to_devices`, for a step in which every replica computes the whole batch."""
    _require_fits(batch)

    def move(leaf: Any) -> Any:
        if not _is_committed(leaf) or not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            return leaf
        return strategy._arrays.for_program(strategy._arrays.place_replicated(leaf))

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


class GlobalBatchStep:
    """Compiles ``step(state, batch) -> (outputs, state)`` as a program over the global batch.

    Its result is that of one device whatever the step computes. A batch that splits evenly lies
    sharded over the replicas and XLA partitions the work; any other is replicated, and each replica
    computes all of it, without the other processes if there are any, unless the state is cut.

    Args:
        step: the step, as Keras's JAX trainer defines it.
        model: whose step it is.
        groups: what of the model's state it takes, see `state_variables`.
        strategy: where state and batches lie.
        sharded_outputs: leave the outputs as the compiler shards them, instead of replicating them.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        model: keras.Model,
        groups: Sequence[str],
        strategy: Strategy,
        *,
        sharded_outputs: bool = False,
    ) -> None:
        self._step = step
        self._model = model
        self._groups = groups
        self._strategy = strategy
        self._leave_sharded = sharded_outputs and not strategy.spans_processes

    def _compiled(self, name: str, placed: Sharding, state: Any, batch: Sharding) -> Any:
        """The step, jitted.

        Args:
            name: the program's.
            placed: where what is the same for all replicas lies.
            state: where the state does.
            batch: where the batch does.
        """
        strategy, step = self._strategy, self._step

        def whole_step(state: Any, batch: Any) -> Any:
            with whole_batch(strategy), collecting() as outbox:
                if strategy._cuts_slots:
                    results, state = self._on_whole_values(state, batch)
                else:
                    results, state = step(self._as_computed_with(state), batch)
                return WithParcels(results, outbox.parcels(placed)), state

        whole_step.__name__ = name
        outputs: Any = None if self._leave_sharded else placed
        return jax.jit(
            whole_step,
            donate_argnums=0,
            in_shardings=(state, batch),
            out_shardings=(WithParcels(outputs, placed), state),  # type: ignore[arg-type]
        )

    def _as_computed_with(self, state: Any) -> Any:
        """The state, its trainable variables as the strategy wants them for computing."""
        (trainables,) = state_variables(self._model, TRAIN_STATE[:1])
        shardings = map(self._strategy._computed_with, trainables)
        values = [
            value if sharding is None else jax.lax.with_sharding_constraint(value, sharding)
            for value, sharding in zip(state[0], shardings, strict=True)
        ]
        return (values, *state[1:])

    def _on_whole_values(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """The step, of a state in which values are cut over the replicas."""
        variables = state_variables(self._model, self._groups)
        whole = [whole_values(*each) for each in zip(variables, state, strict=True)]
        results, new = self._step(tuple(whole), batch)
        replicas = self._strategy.num_replicas_in_sync
        kept = [as_kept(*each, replicas) for each in zip(variables, new, strict=True)]
        return results, tuple(map(_unchanged_as_before, state, whole, new, kept))

    @functools.cached_property
    def _cut(self) -> Any:
        strategy = self._strategy
        state = state_sharding(self._model, strategy, self._groups)
        every = strategy._arrays.program_sharding
        return self._compiled("partitioned_step", every, state, strategy.batch_sharding)

    @functools.cached_property
    def _whole(self) -> Any:
        strategy = self._strategy
        here = state = strategy._arrays.local_sharding
        if not strategy.spans_processes or strategy._cuts_slots:
            here = strategy._arrays.program_sharding
            state = state_sharding(self._model, strategy, self._groups)
        return self._compiled("replicated_step", here, state, here)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the outputs `WithParcels`, and the new state."""
        strategy = self._strategy
        if strategy._planner is not None:
            planned: tuple[Any, Any] = strategy._planner.other_step(self, state, batch)
            return planned
        is_even = splits_evenly(batch, strategy.num_replicas_in_sync)
        recorder = _recorder.active
        if recorder is not None and recorder.is_here():
            recorder.describes(self._cut if is_even else self._whole, (state, batch))
        if is_even:
            return self._cut(state, batch)
        if strategy.spans_processes and strategy._cuts_slots:  # no process has all of the state
            return self._whole(state, jax.tree.map(strategy._arrays.for_program, batch))
        outputs, state = self._whole(jax.tree.map(to_local_array, state), batch)
        return outputs, jax.tree.map(strategy._arrays.for_program, state)

    def lowered(self, state: Any, batch: Any) -> jax.stages.Lowered:
        """The program that a call runs, lowered for the strategy's devices; nothing runs.

        Args:
            state: shapes of what a call takes.
            batch: shapes of the batch.
        """
        even = splits_evenly(batch, self._strategy.num_replicas_in_sync)
        lowered: jax.stages.Lowered = (self._cut if even else self._whole).lower(state, batch)
        return lowered


def _unchanged_as_before(
    before: Sequence[Any], whole: Sequence[Any], after: Sequence[Any], kept: Sequence[Any]
) -> list[Any]:
    """`kept`, with the rows of `before` for the values that a step gave back as it was given."""
    same = [new is old for new, old in zip(after, whole, strict=True)]
    return [old if is_old else new for is_old, old, new in zip(same, before, kept, strict=True)]


@contextlib.contextmanager
def readable_optimizer(model: keras.Model, values: Sequence[Any]) -> Iterator[None]:
    """Let code in a training step read the optimizer's variables, such as ``iterations``.

    Keras takes their values out of them for the time of `fit`, and gives a step those of the model
    alone back. What the optimizer itself reads and writes is in a scope of its own.
    """
    variables = model.optimizer.variables if values else ()
    strategy = strategy_of(model)
    cuts = strategy is not None and (strategy._cuts_slots or strategy._planner is not None)
    before = [held(variable) if cuts else variable._value for variable in variables]
    try:
        for variable, value in zip(variables, values, strict=True):
            variable._value = value
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable._value = value


class ReplicaDivergenceError(RuntimeError):
    """Replicas that must hold the same values do not."""


def disagreement(values: Sequence[jax.Array]) -> jax.Array:
    """Traced on each replica: for each value, whether the replicas' copies differ.

    Returns a bool array with one entry a value. Copies are compared by a checksum of their bits,
    so that one pass over the values and one small exchange suffice, and NaN equals NaN.
    """
    if not values:
        return jnp.zeros((0,), bool)
    sums = jnp.stack([_checksum(value) for value in values])
    return jax.lax.pmax(sums, REPLICA_AXIS) != jax.lax.pmin(sums, REPLICA_AXIS)


def require_agreement(differs: jax.Array, paths: Sequence[str]) -> None:
    """Raise if any entry of `differs` is set.

    Raises:
        ReplicaDivergenceError: naming the variables that differ.
    """
    names = [path for path, differ in zip(paths, np.asarray(differs), strict=True) if differ]
    if names:
        raise ReplicaDivergenceError(
            f"The replicas hold different values of {', '.join(names)} after a training step. "
            "Something writes a different value on each replica: give the variable an "
            "`aggregation`, or reduce the value over the replicas before it is written."
        )


def _checksum(value: jax.Array) -> jax.Array:
    if value.dtype == jnp.bool_:
        value = value.astype(jnp.uint8)
    bits = value.ravel().view(_UNSIGNED[value.dtype.itemsize]).astype(jnp.uint32)
    odd_weights = jnp.arange(bits.size, dtype=jnp.uint32) * jnp.uint32(2654435762) + jnp.uint32(1)
    return jnp.sum(bits * odd_weights, dtype=jnp.uint32)


_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}


def merge_non_trainables(
    trace: ReplicaTrace,
    variables: Sequence[keras.Variable],
    before: Sequence[jax.Array],
    after: Sequence[jax.Array],
) -> list[jax.Array]:
    """Return the values after a step, alike on every replica.

    Variables that were not written stay, and so do those that were written alike.
    """
    merged = list(after)
    differing = [
        place
        for place, (variable, old, new) in enumerate(zip(variables, before, after, strict=True))
        if not (new is old or trace.wrote_alike(variable))
    ]
    written = [(variables[place].aggregation, before[place], after[place]) for place in differing]
    for place, value in zip(differing, merge_written(trace.context, written), strict=True):
        merged[place] = value
    return merged


_log = logging.getLogger("drumline")


class TrainStep:
    """Runs a model's ``train_step`` on a global batch.

    A batch that splits evenly is cut over the replicas and Keras's own step runs on each. A batch
    that does not split, and a step that must see whole batches to give the same numbers (a user's
    own ``train_step``, losses added on activations, outputs such as scores of all rows with all
    others, float8, whose scales follow the largest gradients of the batch's mean loss), goes
    through `GlobalBatchStep`.
    """

    def __init__(self, model: keras.Model, strategy: Strategy) -> None:
        self._model = model
        self._strategy = strategy
        self._uneven = UnevenReporter(strategy.num_replicas_in_sync)
        self._cuts_slots = self._updates_outside = strategy._cuts_slots
        self._whole = GlobalBatchStep(self._whole_step, model, TRAIN_STATE, strategy)
        self._must_see_whole = (
            strategy._partitions
            or overrides(
                model, "train_step", "compute_loss_and_updates", "_update_metrics_variables"
            )
            or any(overwrites(variable) for variable in model.trainable_variables)
        )

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the logs, `WithParcels`, and the new state, which lie alike on every replica."""
        planner = self._strategy._planner
        if planner is not None:
            planned: tuple[Any, Any] = planner.training_step(self, state, batch)
            return planned
        if not splits_evenly(batch, self._strategy.num_replicas_in_sync):
            self._uneven.saw_uneven(batch)
            return self._whole(state, batch)
        self._uneven.saw_even()
        if self._must_see_whole:
            return self._whole(state, batch)
        try:
            inside = is_staged(current_trace())
            step = self._per_replica.inside if inside else self._per_replica.alone
            logs, state, differs, parcels = step(state, batch)
        except NeedsGlobalBatch as reason:
            _log.info("%s: %s", self._model.name, reason)
            self._must_see_whole = True
            return self._whole(state, batch)
        if differs is not None:
            self._require_agreement(state, differs)
        return WithParcels(logs, parcels), state

    def lowered(self, state: Any, batch: Any) -> jax.stages.Lowered:
        """The program that a call runs, lowered for the strategy's devices; nothing runs.

        Args:
            state: shapes of what a call takes.
            batch: shapes of the batch.
        """
        even = splits_evenly(batch, self._strategy.num_replicas_in_sync)
        if even and not self._must_see_whole:
            with contextlib.suppress(NeedsGlobalBatch):
                return self._per_replica.lowered(state, batch)
        return self._whole.lowered(state, batch)

    def _whole_step(self, state: Any, batch: Any) -> Any:
        with readable_optimizer(self._model, state[2]):
            return self._model.train_step(state, batch)

    @functools.cached_property
    def _per_replica(self) -> NumberedPrograms:
        whole, cut = PartitionSpec(), PartitionSpec(REPLICA_AXIS)
        placed = self._strategy._arrays.program_sharding
        state = state_sharding(self._model, self._strategy, TRAIN_STATE)

        def train_step(state: Any, batch: Any) -> Any:
            given = state
            specs: Any = whole
            left: Any = whole
            if self._cuts_slots:
                variables = state_variables(self._model, TRAIN_STATE)
                given = [whole_specs(*each) for each in zip(variables, state, strict=True)]
                specs = tuple(map(row_specs, variables))
                left = ([], specs[1], [], specs[3])  # the others are updated outside
            outputs = whole_batch_outputs(self._model, self._strategy, given, batch)
            body = jax.shard_map(
                functools.partial(self._replica_step, outputs),
                mesh=self._strategy.mesh,
                in_specs=(specs, cut),
                out_specs=(whole, left, cut, whole, cut),
                check_vma=False,
            )
            logs, new, grads, differs, parcels = body(state, batch)
            if self._cuts_slots:
                update = ShardedUpdate(self._model.optimizer, self._strategy)
                trainables, optimizer = update(state[2], grads, state[0])
                new = (trainables, new[1], optimizer, new[3])
            return logs, new, differs, parcels

        return NumberedPrograms(
            train_step,
            compiler_options=options_of_gathers(self._strategy) if self._cuts_slots else None,
            in_shardings=(state, self._strategy.batch_sharding),
            out_shardings=(placed, state, placed, self._strategy.batch_sharding),
        )

    def _replica_step(self, outputs: Any, state: Any, batch: Any) -> Any:
        model = self._model
        with (
            allocate_channels(),
            collecting(of_replicas=True) as outbox,
            tracing(self._strategy) as trace,
        ):
            metrics = ReplicaMetrics(model, trace)
            trainables, before, optimizer, old_metrics = state
            grads: list[jax.Array] = []
            reduced = self._reducing(trace, grads)
            gathered: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
            if self._cuts_slots:
                optimizer = whole_on_replica(model.optimizer.variables, optimizer, self._strategy)
                members = state_variables(model, TRAIN_STATE)
                if any(map(is_cut, [*members[0], *members[1]])):
                    gathered = gathered_weights(model, members[0], members[1], self._strategy)
            with (
                global_loss(model, trace, outputs),
                gathered,
                metrics.updated_globally(),
                reduced,
                readable_optimizer(model, optimizer),
            ):
                logs, (trainables, after, optimizer, new_metrics) = model.train_step(
                    (trainables, before, optimizer, metrics.start(old_metrics)), batch
                )
            variables = model.non_trainable_variables
            after = merge_non_trainables(trace, variables, before, after)
            new_metrics = metrics.merge(new_metrics)
            logs = metrics.logs(logs, new_metrics)
        if self._updates_outside:  # of the replicas' program
            trainables, optimizer = [], []
        state = (trainables, after, optimizer, new_metrics)
        differs = None
        if self._strategy.check_agreement:
            differs = disagreement(jax.tree.leaves(state))
        return logs, state, grads, differs, outbox.parcels()

    def _reducing(
        self, trace: ReplicaTrace, grads: list[jax.Array]
    ) -> contextlib.AbstractContextManager[None]:
        """Within the block gradients are reduced over the replicas, and left in `grads` if the
        update is outside of the replicas' program.
        """
        if self._cuts_slots:
            return scattered_gradients(self._model, grads, self._strategy)
        return averaged_gradients(self._model, trace)

    def _require_agreement(self, state: Any, differs: jax.Array) -> None:
        model = self._model
        groups = (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
        names = (
            "trainable_variables",
            "non_trainable_variables",
            "optimizer_variables",
            "metrics_variables",
        )
        model._jax_state = dict(zip(names, state, strict=True))
        require_agreement(differs, [variable.path for group in groups for variable in group])


class UnevenReporter:
    """Says once when batches that do not split are more than the last one of an epoch."""

    epochs: ClassVar[int] = 0
    """How many epochs of any model have begun: batches of two of them are not in a row."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._last: tuple[int, list[Any]] = (0, [])
        self._said = False

    def saw_even(self) -> None:
        """Note a batch that splits."""
        self._last = (self.epochs, [])

    def saw_uneven(self, batch: Any) -> None:
        """Note a batch that does not; warn at the second in a row of an epoch and of its shapes."""
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(batch)]
        seen = (self.epochs, shapes)
        again, self._last = seen == self._last, seen
        if self._said or not again:
            return
        self._said = True
        warnings.warn(
            f"Batches of shapes {shapes} do not split over {self._replicas} replicas: every "
            "replica computes the whole batch, with the right result but no gain in speed. "
            f"Make the batch size a multiple of {self._replicas}.",
            stacklevel=2,
        )
