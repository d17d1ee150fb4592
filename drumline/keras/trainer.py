"""The step functions and epoch iterators that Keras's trainer asks for, under a strategy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from drumline import _recorder
from drumline._interrupts import signals_held_back
from drumline.distribute import Strategy, get_strategy, has_strategy
from drumline.distribute.global_arrays import to_local_array
from drumline.distribute.input.distributed_iterator import DevicePrefetcher
from drumline.distribute.process_group.host_collectives import broadcast_host
from drumline.distribute.replica import whole_batch
from drumline.distribute.step.compiled_step import NotPlannedError, sends_parcels
from drumline.keras import internals
from drumline.keras.data_adapter import DatasetAdapter
from drumline.keras.internals import overrides
from drumline.keras.resuming.input_position import position_in
from drumline.keras.state import (
    PREDICT_STATE,
    TEST_STATE,
    note_state,
    runs_on_replicas,
    strategy_of,
    updates_at_home,
    weights_stay_home,
)
from drumline.keras.step.central_evaluation import CentralGlobalBatchStep
from drumline.keras.step.central_update import CentralTrainStep
from drumline.keras.step.train_step import (
    GlobalBatchStep,
    TrainStep,
    UnevenReporter,
    move_replicated,
    move_to_devices,
    prefetch_to_devices,
    readable_optimizer,
    shard_or_replicate,
)
from drumline.training.outbox import WithParcels, collecting


def limit_in_flight(step: Callable[..., Any], strategy: Strategy) -> Callable[..., Any]:
    """Let a step start only when the strategy's `InFlight` allows it."""

    def step_when_free(state: Any, batch: Any) -> Any:
        strategy._in_flight.wait()
        if strategy._planner is None:
            batch = (
                shard_or_replicate(batch, strategy)
                if strategy.spans_processes
                else move_to_devices(batch, strategy)
            )
        results, state = step(state, batch)
        outputs = results.outputs
        strategy._in_flight.started(outputs)
        if sends_parcels(strategy):
            results.parcels.send()
        if strategy.spans_processes:
            outputs = jax.tree.map(to_local_array, outputs)
        return outputs, state

    return step_when_free


def identical_batches(adapter: Any, strategy: Strategy) -> Iterator[Any]:
    """The batches of one pass over what `fit` was given: the same in all processes.

    Keras shuffles arrays in an order drawn from numpy's global random state, which all processes
    therefore take over from the first one. Generators and ``PyDataset``s must give the same batches
    in each process.
    """
    if not isinstance(adapter, DatasetAdapter):
        _share_random_state(strategy)
    yield from adapter.get_jax_iterator()


def _share_random_state(strategy: Strategy) -> None:
    name, keys, position, *_ = np.random.get_state()
    shared = broadcast_host(strategy, np.append(keys, np.uint32(position)))
    np.random.set_state((name, shared[:-1], int(shared[-1]), 0, 0.0))


def make_train_function(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``make_train_function``: under several replicas, a `TrainStep`."""

    def make_for_strategy(self: keras.Model, force: bool = False) -> Any:
        strategy = runs_on_replicas(self)
        if strategy is None:
            _require_no_plan(self)
            with _delivering(self, "train_step"):
                return make(self, force)
        if _has_to_be_made(self, "train_function", strategy) or force:
            kind = CentralTrainStep if updates_at_home(self) else TrainStep
            step = _one_form(self, "train_step", kind(self, strategy))
            step = limit_in_flight(step, strategy)
            self.train_function = self._make_function(step)
        return None

    return make_for_strategy


def make_test_function(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``make_test_function``: under several replicas, a `GlobalBatchStep`."""

    def make_for_strategy(self: keras.Model, force: bool = False) -> Any:
        strategy = runs_on_replicas(self)
        if strategy is None:
            with _delivering(self, "test_step"):
                return make(self, force)
        if _has_to_be_made(self, "test_function", strategy) or force:
            kind = CentralGlobalBatchStep if weights_stay_home(self) else GlobalBatchStep
            step = _one_form(self, "test_step", kind(self.test_step, self, TEST_STATE, strategy))
            step = limit_in_flight(step, strategy)
            self.test_function = self._make_function(step)
        return None

    return make_for_strategy


def make_predict_function(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``make_predict_function``: under several replicas, a `GlobalBatchStep`."""

    def make_for_strategy(self: keras.Model, force: bool = False) -> Any:
        strategy = runs_on_replicas(self)
        if strategy is None:
            return make(self, force)
        if _has_to_be_made(self, "predict_function", strategy) or force:
            kind = CentralGlobalBatchStep if weights_stay_home(self) else GlobalBatchStep
            step: Callable[..., Any] = kind(
                _predict_step(self), self, PREDICT_STATE, strategy, sharded_outputs=True
            )
            step = limit_in_flight(step, strategy)
            self.predict_function = self._make_function(step, concatenate_outputs=True)
        return self.predict_function

    return make_for_strategy


_MADE_FOR = "_drumline_made_for"


def _has_to_be_made(model: keras.Model, name: str, strategy: Strategy) -> bool:
    """Whether there is no function `name` of `model`, or one for other groups of variables.

    Without a new `compile`, ``trainable`` moves weights from one group to the other, and another
    optimizer may be set. `jax.jit` traces such a state again; a step that says where each variable
    lies has to be made again.
    """
    if strategy._cuts_slots or strategy._partitions or strategy._arrays.has_home:
        made_for = vars(model).setdefault(_MADE_FOR, {})
        optimizer = getattr(model, "optimizer", None)
        found = (optimizer, *map(id, model.trainable_variables))
        before, made_for[name] = made_for.get(name), found
        if before != found:
            return True
    return getattr(model, name) is None


def keep_state(make_function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_make_function``: what a compiled step leaves is the model's state at once.

    Keras notes it when the step has returned. An interrupt in between would lose the variables'
    values, whose buffers the step was given.
    """

    def make_function_that_keeps(
        self: keras.Model, step_function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        if self.run_eagerly or not self.jit_compile:
            return make_function(self, recorded_step(self, step_function), *args, **kwargs)

        def step(state: Any, batch: Any) -> Any:
            with signals_held_back:
                outputs, state = step_function(state, batch)
                note_state(self, state)
            if isinstance(outputs, WithParcels):
                outputs.parcels.send()
                outputs = outputs.outputs
            return outputs, state

        recorded = recorded_step(self, step, step_function)
        return make_function(self, recorded, *args, **kwargs)

    return make_function_that_keeps


def recorded_step(
    model: keras.Model, step: Callable[..., Any], compiled: Any = None
) -> Callable[..., Any]:
    """A step that a step profile knows of, if one is being made.

    Args:
        model: whose step it is.
        step: takes a state and a batch, and returns outputs and a state.
        compiled: the program that it runs, if `jax.jit` made it.
    """

    is_described = hasattr(compiled, "trace")

    def step_if_profiled(state: Any, batch: Any) -> Any:
        recorder = _recorder.active
        if recorder is None or not recorder.is_here():
            return step(state, batch)
        began = recorder.begins(_recorder.rows_of(batch), strategy_of(model))
        try:
            if is_described and id(compiled) not in recorder.programs_seen:
                recorder.describes(compiled, (state, batch))
            outputs, state = step(state, batch)
            recorder.returned((outputs, state), began)
        finally:
            recorder.leave()
        return outputs, state

    return step_if_profiled


def interruptible_logs(pythonify: Callable[..., Any]) -> Callable[..., Any]:
    """Return Keras's ``pythonify_logs`` without its bare ``except``.

    It waits for the results of steps, so most signals of a training arrive there. An interrupt, or
    what another handler raises, would be taken for a value that is no number, and be lost.
    """

    def numbers(logs: dict[str, Any] | None) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in sorted((logs or {}).items()):
            if isinstance(value, dict):
                result.update(numbers(value))
                continue
            with contextlib.suppress(Exception):  # as Keras: what is no number stays what it is
                if keras.ops.is_tensor(value):
                    value = keras.ops.convert_to_numpy(value)
                value = float(value)
            result[key] = value
        return result

    return numbers


def place_batches(make_function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_make_function``: Keras's own steps take batches that lie on any devices."""

    def make_function_for_strategy(
        self: keras.Model, step_function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        strategy = strategy_of(self)
        if strategy is None or runs_on_replicas(self):
            return make_function(self, step_function, *args, **kwargs)

        def step(state: Any, batch: Any) -> Any:
            with whole_batch(strategy):
                return step_function(state, move_replicated(batch, strategy))

        return make_function(self, step, *args, **kwargs)

    return make_function_for_strategy


def iterate_on_devices(get_iterator: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the epoch iterator's: off the CPU, batches travel to their replicas one step early."""

    def get_placed_iterator(self: Any) -> Any:
        recorder = _recorder.active
        if recorder is None or not recorder.is_here():
            return get_unrecorded(self)
        with recorder.at(_recorder.INPUT):
            return RecordedInput(get_unrecorded(self), recorder)

    def get_unrecorded(self: Any) -> Any:
        planner = get_strategy()._planner if has_strategy() else None
        if planner is not None:
            adapter = self.data_adapter
            planner.saw_input(adapter.dataset if isinstance(adapter, DatasetAdapter) else None)
        position = position_in(self)
        if position is not None and position.is_kept:
            strategy = get_strategy() if has_strategy() else None
            return position.iteration(
                lambda: _batches_of_all(self.data_adapter, strategy),
                lambda batches: _placed_ahead(batches, strategy),
            )
        if not has_strategy() or get_strategy().num_replicas_in_sync == 1:
            return get_iterator(self)
        UnevenReporter.epochs += 1
        if get_strategy().spans_processes:
            return identical_batches(self.data_adapter, get_strategy())
        batches = self.data_adapter.get_jax_iterator()
        if get_strategy().replica_devices[0].platform == "cpu" or get_strategy()._planner:
            return batches
        return prefetch_to_devices(batches, get_strategy())

    return get_placed_iterator


_INPUT = (_recorder.INPUT, "")


class RecordedInput:
    """Batches of an epoch, the wait for which a step profile knows of.

    Args:
        batches: an iterable of them.
        recorder: of the profile.
    """

    def __init__(self, batches: Any, recorder: _recorder.StepRecorder) -> None:
        self._batches = iter(batches)
        self._recorder = recorder

    def __iter__(self) -> RecordedInput:
        return self

    def __next__(self) -> Any:
        self._recorder.enter(_INPUT)
        try:
            return next(self._batches)
        finally:
            self._recorder.leave()


def _batches_of_all(adapter: Any, strategy: Strategy | None) -> Any:
    if strategy is None or not strategy.spans_processes or isinstance(adapter, DatasetAdapter):
        return adapter.get_jax_iterator()
    return identical_batches(adapter, strategy)


def _placed_ahead(batches: Any, strategy: Strategy | None) -> Any:
    """The batches, with their position, placed as without a backup."""
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        UnevenReporter.epochs += 1
        if strategy.spans_processes or strategy.replica_devices[0].platform == "cpu":
            return batches
        if strategy._planner is not None:
            return batches
        place = functools.partial(shard_or_replicate, strategy=strategy)
        return DevicePrefetcher(batches, batches, place, 2)
    if internals.keras_distribution() is not None:
        return DevicePrefetcher(batches, batches, internals.distribute_data, 1)
    if jax.default_backend() == "cpu":
        return batches
    return DevicePrefetcher(batches, batches, internals.distribute_data, 2)


def _one_form(model: keras.Model, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
    """Give Keras's own step ``(x, y, None)``, as `train_on_batch` makes it, in the form ``(x, y)``
    that `fit` gives: one compilation serves both. A user's step gets what Keras would give it.
    """
    if overrides(model, name):
        return step

    def step_on_one_form(state: Any, batch: Any) -> Any:
        if isinstance(batch, tuple) and len(batch) == 3 and batch[2] is None:
            batch = batch[:2]
        return step(state, batch)

    return step_on_one_form


@contextlib.contextmanager
def _delivering(model: keras.Model, name: str) -> Iterator[None]:
    """Within the block, the step of `model` that Keras is to compile returns `WithParcels`."""
    compiled = model.jit_compile and not model.run_eagerly
    step = getattr(model, name)

    @functools.wraps(step)
    def delivering_step(state: Any, batch: Any) -> Any:
        optimizer = state[2] if name == "train_step" else ()
        with readable_optimizer(model, optimizer):
            if not compiled:
                return step(state, batch)
            with collecting() as outbox:
                results, state = step(state, batch)
                return WithParcels(results, outbox.parcels()), state

    given = vars(model).get(name)
    vars(model)[name] = delivering_step
    try:
        yield
    finally:
        del vars(model)[name]
        if given is not None:
            vars(model)[name] = given


def _predict_step(model: keras.Model) -> Callable[..., Any]:
    def predict_step(state: Any, batch: Any) -> Any:
        outputs, non_trainables = model.predict_step(state, batch)
        return outputs, (state[0], non_trainables)

    return predict_step


def _require_no_plan(model: keras.Model) -> None:
    """Refuse to train for real, here, while a script is planned for other hardware.

    Raises:
        NotPlannedError: if one is.
    """
    if Strategy._stand_in is not None:
        eager = model.run_eagerly or not model.jit_compile
        raise NotPlannedError(
            f"Model {model.name!r} trains "
            + ("step by step as Python (run_eagerly, or jit_compile=False)." if eager else "")
            + ("" if eager else "in no strategy's scope: make it inside `with strategy.scope():`.")
        )
