"""A training step whose weights and slots live on another device than its replicas run on.

Two programs: that of the replicas is given copies of what it reads, the weights for the length of
the step, and leaves the gradients, summed over the replicas; the second, where the variables live,
divides the sums and runs the optimizer once. So slots never leave home. XLA computes what it does
in a `MirroredStrategy`'s one program, whose sums are a border for it, too.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import ReduceOp, Strategy
from drumline.distribute.global_arrays import to_local_array
from drumline.distribute.replica import whole_batch
from drumline.distribute.step.central_programs import CentralPrograms
from drumline.distribute.step.looked_up_rows import SUMS, LeanProgram, StepForm
from drumline.keras.internals import shadowed
from drumline.keras.state import TRAIN_STATE, state_variables
from drumline.keras.step.reductions import NeedsGlobalBatch, ReplicaTrace, whole_batch_outputs
from drumline.keras.step.train_step import (
    TrainStep,
    readable_optimizer,
    require_agreement,
    splits_evenly,
)
from drumline.training.jax_internals import current_trace, is_staged
from drumline.training.outbox import WithParcels, collecting

_log = logging.getLogger("drumline")


class UpdatesInside(BaseException):
    """The step's update cannot be separated from the rest of it; says why.

    Raised while a step is traced and caught by the step, as `NeedsGlobalBatch`.
    """


@contextlib.contextmanager
def summed_gradients(
    model: keras.Model, trace: ReplicaTrace, found: list[jax.Array], but: Collection[int]
) -> Iterator[None]:
    """Within the block the optimizer updates nothing; `found` becomes the replicas' sums.

    At the positions `but` it becomes this replica's gradients.
    """
    apply = model.optimizer.stateless_apply

    def stateless_apply(
        optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        if len(grads) != len(model.optimizer._trainable_variables):  # Keras refuses it
            return apply(optimizer_variables, grads, trainable_variables)
        found[:] = [jnp.asarray(grad) for grad in grads]
        summed = [position for position in range(len(found)) if position not in but]
        sums = trace.context.all_reduce(ReduceOp.SUM, [found[position] for position in summed])
        for position, total in zip(summed, sums, strict=True):
            found[position] = total
        return trainable_variables, optimizer_variables

    with shadowed(model.optimizer, "stateless_apply", stateless_apply):
        yield


class TakenUpdate:
    """The one update of a step that is traced for its gradients alone.

    Args:
        optimizer: the model's.
        state: the symbols that the step is given.
        new: symbols that stand for the new values of the trainable variables and of the optimizer.
    """

    def __init__(self, optimizer: Any, state: Any, new: Any) -> None:
        self._optimizer = optimizer
        self._trainables, self._slots = list(state[0]), list(state[2])
        self._new = new
        self._trace = current_trace()
        self.grads: list[Any] | None = None

    @contextlib.contextmanager
    def taking(self) -> Iterator[None]:
        """Within the block the optimizer's update is noted, and not computed.

        Raises:
            UpdatesInside: if there are two, or one of other values than the state's.
        """
        apply = self._optimizer.stateless_apply

        def stateless_apply(slots: Any, grads: Sequence[Any], trainables: Any) -> Any:
            if len(grads) != len(self._optimizer._trainable_variables):  # Keras refuses it
                return apply(slots, grads, trainables)
            if self.grads is not None:
                raise UpdatesInside("it updates twice")
            if current_trace() is not self._trace:
                raise UpdatesInside("it updates within a function that JAX transforms")
            if not (_same(slots, self._slots) and _same(trainables, self._trainables)):
                raise UpdatesInside("it updates other values than those it is given")
            self.grads = [jnp.asarray(grad) for grad in grads]
            return tuple(list(values) for values in self._new)

        with shadowed(self._optimizer, "stateless_apply", stateless_apply):
            yield

    def require_left(self, state: Any) -> None:
        """Check that what the step leaves are the values of the update, unchanged.

        Raises:
            UpdatesInside: if not.
        """
        if self.grads is None:
            raise UpdatesInside("it does not call `optimizer.stateless_apply`")
        if not (_same(state[0], self._new[0]) and _same(state[2], self._new[1])):
            raise UpdatesInside("it changes what the optimizer leaves")


def _same(values: Any, others: Any) -> bool:
    values, others = list(values), list(others)
    pairs = zip(values, others, strict=False)
    return len(values) == len(others) and all(one is other for one, other in pairs)


class CentralTrainStep(TrainStep):
    """A `TrainStep` of a state whose weights and slots lie where variables live.

    The others lie on the replicas' devices. A step of the user's whose update is not one of
    `optimizer.stateless_apply`, from the state it is given to the state it leaves, is one program
    on the replicas, to which slots are copied.
    """

    def __init__(self, model: keras.Model, strategy: Strategy) -> None:
        super().__init__(model, strategy)
        self._updates_outside = True
        self._must_see_whole |= strategy.num_replicas_in_sync == 1
        self._updates_inside = False
        self._unreduced: frozenset[int] = frozenset()
        self._programs = CentralPrograms(strategy, lambda: model.name)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the logs, `WithParcels`, and the new state, which lies as the old one did."""
        if is_staged(current_trace()):
            return self._as_mirrored(state, batch)
        even = splits_evenly(batch, self._strategy.num_replicas_in_sync)
        if even:
            self._uneven.saw_even()
        elif self._strategy.num_replicas_in_sync > 1:
            self._uneven.saw_uneven(batch)
        if even and not self._must_see_whole:
            try:
                return self._of_replicas(state, batch)
            except NeedsGlobalBatch as reason:
                _log.info("%s: %s", self._model.name, reason)
                self._must_see_whole = True
        if not even and self._is_alike_at_home:
            return self._at_home(state, batch)
        if not self._updates_inside:
            try:
                return self._of_whole_batch(state, batch, even)
            except UpdatesInside as reason:
                _log.warning(
                    "%s: its train_step is compiled as one program, to which the optimizer's slots "
                    "are copied in each step, because %s",
                    self._model.name,
                    reason,
                )
                self._updates_inside = True
        return self._in_one_program(state, batch)

    @functools.cached_property
    def _as_mirrored(self) -> TrainStep:
        """The step as part of another program, which cannot be two."""
        return TrainStep(self._model, self._strategy)

    @functools.cached_property
    def _is_alike_at_home(self) -> bool:
        """Whether variables live on a device like those of the replicas, of which there are more.

        Then a batch that each replica would compute as a whole is computed there, and nothing
        travels.
        """
        device: Any
        (device,) = self._strategy.variable_sharding.device_set
        devices: Any = self._strategy.replica_devices
        return bool(len(devices) > 1 and device.device_kind == devices[0].device_kind)

    def _at_home(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """The step over the global batch, as one program where variables live."""
        arrays, home = self._strategy._arrays, self._strategy.variable_sharding
        groups = state_variables(self._model, TRAIN_STATE)
        there = tuple(
            [arrays.from_program(*each) for each in zip(values, variables, strict=True)]
            for values, variables in zip(state, groups, strict=True)
        )
        batch = jax.device_put(jax.tree.map(to_local_array, batch), home)
        results, new = self._home_program(there, batch)
        others = [list(map(arrays.for_program, values)) for values in new[1::2]]
        return results, (new[0], others[0], new[2], others[1])

    @functools.cached_property
    def _home_program(self) -> Any:
        home = self._strategy.variable_sharding
        return self._whole._compiled("step_at_home", home, home, home)

    def _of_replicas(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Keras's own step on each replica."""

        def form() -> StepForm:
            outputs = whole_batch_outputs(self._model, self._strategy, state, batch)

            def body(tables: Collection[int]) -> Callable[..., Any]:
                def step(state: Any, batch: Any) -> Any:
                    self._unreduced = frozenset(tables)
                    logs, new, sums, differs, parcels = self._replica_step(outputs, state, batch)
                    return logs, new[1], new[3], sums, differs, parcels

                return step

            by_rows = self._strategy.batch_sharding
            placed = self._strategy._arrays.program_sharding
            weights = self._model.trainable_variables
            left = (*(placed,) * 5, by_rows)
            return StepForm(
                self._strategy, body, (state, batch), weights, (placed, by_rows), left, True
            )

        results, of_tables = self._programs.compute("on replicas", (state, batch), form)
        logs, after, metrics, _, differs, parcels = results
        sums = self._sums(results, of_tables)
        replicas = self._strategy.num_replicas_in_sync
        state = self._updated(state, after, metrics, sums, replicas)
        if differs is not None:
            self._require_agreement(state, differs)
        return WithParcels(logs, parcels), state

    def _reducing(
        self, trace: ReplicaTrace, grads: list[jax.Array]
    ) -> contextlib.AbstractContextManager[None]:
        return summed_gradients(self._model, trace, grads, self._unreduced)

    def _require_agreement(self, state: Any, differs: jax.Array) -> None:
        """Raise if the replicas differ in what they left: the weights are no copies."""
        self._model._jax_state = dict(zip(TRAIN_STATE, state, strict=True))
        _, fixed, _, metrics = state_variables(self._model, TRAIN_STATE)
        require_agreement(differs, [variable.path for variable in (*fixed, *metrics)])

    def _of_whole_batch(self, state: Any, batch: Any, even: bool) -> tuple[Any, Any]:
        """The model's step, over the global batch."""
        placed = self._strategy._arrays.program_sharding

        def step(state: Any, batch: Any, new: Any) -> Any:
            update = TakenUpdate(self._model.optimizer, state, new)
            with (
                whole_batch(self._strategy),
                collecting() as outbox,
                update.taking(),
                readable_optimizer(self._model, state[2]),
            ):
                logs, after = self._model.train_step(state, batch)
                update.require_left(after)
                return logs, after[1], after[3], update.grads, None, outbox.parcels(placed)

        arguments = (state, batch, (list(state[0]), list(state[2])))
        by_rows = self._strategy.batch_sharding if even else placed

        def form() -> StepForm:
            weights, places = self._model.trainable_variables, (placed, by_rows, placed)
            return StepForm(
                self._strategy, lambda _: step, arguments, weights, places, (placed,) * 6, False
            )

        results, of_tables = self._programs.compute(even, arguments, form, self._require_unread)
        logs, after, metrics, _, _, parcels = results
        grads = self._sums(results, of_tables)
        return WithParcels(logs, parcels), self._updated(state, after, metrics, grads, 1)

    def _require_unread(self, program: LeanProgram) -> None:
        """Check that the program does not read its third argument.

        Raises:
            UpdatesInside: if it does.
        """
        if any(program.reads[program.ends[1] :]):
            raise UpdatesInside("it computes with what the optimizer leaves")

    def _sums(self, results: Any, of_tables: dict[int, jax.Array]) -> list[jax.Array]:
        """The gradients' sums at home, for each of the weights."""
        sums = iter(self._programs.to_home(results[SUMS]))
        count = len(results[SUMS]) + len(of_tables)
        return [
            of_tables[position] if position in of_tables else next(sums)
            for position in range(count)
        ]

    def _updated(self, state: Any, after: Any, metrics: Any, sums: Any, parts: int) -> Any:
        """The state after the update at home; the gradients are sums of `parts`."""
        trainables, slots = self._update(parts)(state[0], state[2], sums)
        return trainables, after, slots, metrics

    @functools.cache  # noqa: B019 - a step lives as long as its model's function
    def _update(self, parts: int) -> Any:
        """The program at home, compiled: the gradients are sums of `parts`."""

        def update(trainables: Any, slots: Any, sums: Any) -> tuple[Any, Any]:
            means = [total / parts for total in sums] if parts > 1 else sums
            with whole_batch(self._strategy):
                new, left = self._model.optimizer.stateless_apply(slots, means, trainables)
            return list(new), list(left)

        home = self._strategy.variable_sharding
        return jax.jit(update, donate_argnums=(0, 1), out_shardings=home)

    def _in_one_program(self, state: Any, batch: Any) -> tuple[Any, Any]:
        arrays = self._strategy._arrays
        variables = state_variables(self._model, TRAIN_STATE)
        results, new = self._whole(jax.tree.map(arrays.for_program, state), batch)
        at_home = [
            [arrays.from_program(*each) for each in zip(values, members, strict=True)]
            for values, members in zip(new[::2], variables[::2], strict=True)
        ]
        return results, (at_home[0], new[1], at_home[1], new[3])
