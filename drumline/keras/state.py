"""A model's variables under a strategy: who owns them, where they live, and how they are created.

A model belongs to the strategy in whose scope it was made, and runs in that scope wherever its
methods are called. Each function here but `strategy_of`, `is_on_servers` and `coordinator_of` wraps
a method of Keras; `drumline.keras.hooks` says which and when.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline._changes import full_name, note
from drumline._interrupts import signals_held_back
from drumline.distribute import ParameterServerStrategy, Strategy, get_strategy, has_strategy
from drumline.distribute.parameter_server.coordinator import ClusterCoordinator
from drumline.distribute.parameter_server.server_variable import ServerVariable, make_slot
from drumline.distribute.variable import (
    Variable,
    broadcast_initial_values,
    set_strategy,
    strategy_of_variable,
)
from drumline.keras import internals
from drumline.training.cut_values import cut_from_now_on, held, is_cut, reading_rows
from drumline.training.jax_internals import current_trace, is_staged
from drumline.training.keras_internals import (
    get_stateless_scope,
    note_taken_values,
    thread_state,
)
from drumline.training.layouts import note_slot
from drumline.training.state_scope import StateScope

_STRATEGY = "_drumline_strategy"


def remember_strategy(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the trainer's ``__init__``: note the strategy in force."""

    def init_in_scope(self: keras.Model, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        vars(self)[_STRATEGY] = get_strategy() if has_strategy() else None

    return init_in_scope


def strategy_of(model: keras.Model) -> Strategy | None:
    """The strategy in whose scope the model was made; None if there was none."""
    strategy: Strategy | None = vars(model).get(_STRATEGY)
    return strategy


def run_in_model_scope(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a trainer's method: run it in the scope of the model's strategy.

    If it fails, the model gets back the values that Keras had taken out of its variables.

    Raises:
        RuntimeError: if it is called in the scope of another strategy than the model's.
    """

    def call_in_scope(strategy: Strategy, args: Any, kwargs: Any) -> Any:
        with strategy.scope():
            return method(*args, **kwargs)

    def call_in_own_scope(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        strategy = _own_strategy(self, method.__name__)
        try:
            if strategy is None:
                return method(self, *args, **kwargs)
            # A context of its own: an interrupt may come between the scope's entry and its block.
            own = contextvars.copy_context()
            return own.run(call_in_scope, strategy, (self, *args), kwargs)
        except BaseException:
            self.jax_state_sync()
            raise

    return call_in_own_scope


def _own_strategy(model: keras.Model, method: str) -> Strategy | None:
    own = strategy_of(model)
    if has_strategy() and get_strategy() is not own:
        made = "outside any strategy's scope" if own is None else f"in the scope of {own!r}"
        raise RuntimeError(
            f"Model {model.name!r} was made {made}, but `{method}` is called in the scope of "
            f"{get_strategy()!r}. Make the model inside `with strategy.scope():`, or call "
            f"`{method}` outside of the scope."
        )
    if own is not None and internals.keras_distribution() is not None:
        raise RuntimeError(
            f"Model {model.name!r} belongs to {own!r}, but a keras.distribution is set as well. "
            "Use one of them: keras.distribution.set_distribution(None) removes the other."
        )
    return own


_GROUPS = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)
TRAIN_STATE = _GROUPS
"""What a training step takes and gives of a model."""
TEST_STATE = (*_GROUPS[:2], _GROUPS[3])
"""What a step of `evaluate` takes and gives."""
PREDICT_STATE = _GROUPS[:2]
"""What a step of `predict` takes and gives."""


def place_assigned(assign: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the variable's assignment: what was created in a scope stays where its strategy says."""

    def assign_placed(self: Any, value: Any) -> Any:
        strategy = strategy_of_variable(self)
        is_new = strategy is None and getattr(self, "_value", None) is None
        if is_new:
            strategy = get_strategy() if has_strategy() else _slot_strategy()
            if strategy is not None:
                set_strategy(self, strategy)
            reference = _beside.get()
            if reference is not None:
                note_slot(self, reference)
            if strategy is not None and np.size(value) and _is_to_be_cut(self, strategy):
                cut_from_now_on(self)
        if strategy is not None and not isinstance(value, jax.core.Tracer):
            arrays = strategy._arrays
            if getattr(self, "has_copies", False):
                value = arrays.place_copies(value)
            else:
                if is_new and strategy.spans_processes and is_cut(self):
                    self.kept_by = strategy._cut_store
                value = arrays.held_value(value, self, is_new=is_new)
        return assign(self, value)

    return assign_placed


def _slot_strategy() -> Strategy | None:
    """That of the slot that is being made outside of every scope, where it is no copy."""
    reference = _beside.get()
    return _cuts_slot.get() if reference is None else strategy_of_variable(reference)


def _is_to_be_cut(variable: Any, strategy: Strategy) -> bool:
    if strategy is _cuts_slot.get():
        return True
    weight = variable.trainable and not isinstance(variable, Variable)
    return strategy._cuts_weights and weight


def place_state(get_state: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_get_jax_state``: all of it lies where the strategy says, and none of it is lost.

    Keras takes the arrays out of the variables before the first step. Noting them as the model's
    state lets `jax_state_sync` put them back if that step's batch never comes.
    """

    def get_placed_state(self: keras.Model, **groups: Any) -> Any:
        purge = groups.get("purge_model_variables", False)
        names = [name for name in _GROUPS if groups.get(name)]
        strategy = strategy_of(self)
        if strategy is not None and strategy.spans_processes:
            variables = itertools.chain.from_iterable(state_variables(self, names))
            broadcast_initial_values(strategy, list(variables))
        on_replicas = runs_on_replicas(self)
        reads_rows = on_replicas is not None and _holds_rows(on_replicas)
        as_it_lies = reading_rows() if reads_rows else contextlib.nullcontext()
        with signals_held_back if purge else contextlib.nullcontext():
            with as_it_lies:
                state = _with_step_variables(self, groups, get_state(self, **groups))
            if strategy is not None:
                members = state_variables(self, names)
                place = _placed_whole if on_replicas is None else _placed
                groups_at_home = [name for name in _AT_HOME if name in names]
                at_home = groups_at_home if _stays_at_home(self, groups_at_home) else ()
                state = tuple(
                    [
                        (_placed_home if name in at_home else place)(strategy, *each)
                        for each in zip(part, variables, strict=True)
                    ]
                    for name, part, variables in zip(names, state, members, strict=True)
                )
            state = _each_its_own(state, _arrays_of_others(self, names))
            if purge:
                note_taken_values(self)
                self._jax_state = dict(zip(names, state, strict=True))
                self._jax_state_synced = False
            elif self._jax_state_synced:
                # What was put back is put back once: variables may be assigned before a step fails.
                self._jax_state = None
        return state

    return get_placed_state


def _each_its_own(state: Sequence[Any], of_others: Collection[int]) -> tuple[list[Any], ...]:
    """The state, copies in the place of arrays that it holds twice: a step gives its buffers away.

    At the end of `fit` Keras assigns the averages of an optimizer with ``use_ema`` to the weights.

    Args:
        state: the groups of arrays.
        of_others: the ids of arrays that variables outside of the state hold.
    """
    seen = set(of_others)

    def own(value: Any) -> Any:
        if id(value) in seen:
            return jnp.copy(value)
        seen.add(id(value))
        return value

    return tuple([own(value) for value in part] for part in state)


def _arrays_of_others(model: keras.Model, names: Collection[str]) -> set[int]:
    """The ids of the arrays of an optimizer with ``use_ema`` that is not in the state."""
    optimizer = getattr(model, "optimizer", None)
    if "optimizer_variables" in names or optimizer is None:
        return set()
    if not getattr(optimizer, "inner_optimizer", optimizer).use_ema:
        return set()
    return {id(held(variable)) for variable in optimizer.variables}


def note_state(model: keras.Model, state: Sequence[Any]) -> None:
    """Note what a step left of the model's state, for `jax_state_sync` to put back."""
    trainable, fixed, *rest = _GROUPS
    names = (trainable, fixed, *rest[len(rest) - len(state) + 2 :])
    model._jax_state = dict(zip(names, state, strict=True))


def _with_step_variables(model: keras.Model, groups: dict[str, Any], state: Any) -> Any:
    """The state, the values of `step_variables` after those of the non-trainable variables."""
    extra = [variable.value for variable in step_variables(model)]
    if not extra or not groups.get("non_trainable_variables"):
        return state
    position = sum(bool(groups.get(name)) for name in _GROUPS[:1])
    return (*state[:position], [*state[position], *extra], *state[position + 1 :])


def sync_step_variables(sync: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``jax_state_sync``: the values of `step_variables` go back to them, too.

    And so do the rows of variables that are cut, which Keras would take for values.
    """

    def sync_all(self: keras.Model) -> None:
        state = getattr(self, "_jax_state", None)
        if not state or self._jax_state_synced:
            return
        with signals_held_back:
            extra = step_variables(self)
            values = state.get("non_trainable_variables") or []
            if extra and len(values) > len(self.non_trainable_variables):
                for variable, value in zip(extra, values[-len(extra) :], strict=True):
                    variable._direct_assign(value)
            self._jax_state = _without_rows(self, state)
            sync(self)
            self._jax_state = state

    return sync_all


def _without_rows(model: keras.Model, state: dict[str, Any]) -> dict[str, Any]:
    """The state without the groups in which variables are cut, whose values are put back here."""
    strategy = strategy_of(model)
    if strategy is None or not _holds_rows(strategy):
        return state
    left = dict(state)
    for name in _GROUPS:
        values = state.get(name)
        if not values:
            continue
        (variables,) = state_variables(model, (name,))
        if strategy._planner is not None or any(map(is_cut, variables)):
            for variable, value in zip(variables, values, strict=True):
                variable._direct_assign(value)
            left[name] = None
    return left


def _holds_rows(strategy: Strategy) -> bool:
    """Whether variables may hold rows of their values, or shapes alone, in place of values."""
    return strategy._cuts_slots or strategy._planner is not None


def runs_on_replicas(model: keras.Model) -> Strategy | None:
    """The strategy over whose replicas the model's steps run; None where Keras runs them.

    Steps that are not compiled are Keras's: each replica computes the whole batch.
    """
    strategy = strategy_of(model)
    if strategy is None:
        return None
    alone = strategy.num_replicas_in_sync == 1 and not strategy._partitions
    if alone and strategy._planner is None and not strategy._arrays.variables_away:
        return None
    return strategy if model.jit_compile and not model.run_eagerly else None


_AT_HOME = ("trainable_variables", "optimizer_variables")


def updates_at_home(model: keras.Model) -> bool:
    """Whether the model's compiled training steps leave weights and slots where variables live.

    That is away from the replicas; a single device has all of them.
    """
    return _stays_at_home(model, _AT_HOME)


def weights_stay_home(model: keras.Model) -> bool:
    """Whether the model's steps of `evaluate` and `predict` take weights where variables live."""
    return _stays_at_home(model, _AT_HOME[:1])


def _stays_at_home(model: keras.Model, groups: Collection[str]) -> bool:
    strategy = runs_on_replicas(model)
    if strategy is None or strategy._planner is not None or not strategy._arrays.has_home:
        return False
    home = strategy.variable_sharding
    members = itertools.chain.from_iterable(state_variables(model, groups))
    return all(strategy.sharding_of(variable) == home for variable in members)


_STEP_VARIABLES = "_drumline_step_variables"


def step_variables(model: keras.Model) -> list[Any]:
    """The variables that the model's steps use besides the model's own, in order."""
    found: list[Any] = vars(model).get(_STEP_VARIABLES, [])
    return found


def set_step_variables(model: keras.Model, variables: list[Any]) -> None:
    """Let the state of the model's steps hold the values of `variables`, too.

    The hook for steps that use more than a model tracks, as a second optimizer: their values are
    behind those of the non-trainable variables in the state that a step takes and gives, lie where
    the strategy says, and go back to the variables when the model's do.
    """
    vars(model)[_STEP_VARIABLES] = list(variables)


def _placed(strategy: Strategy, value: Any, variable: Any) -> jax.Array:
    placed = strategy._arrays.place_variable(value, variable)
    return strategy._arrays.for_program(placed)


def _placed_home(strategy: Strategy, value: Any, variable: Any) -> jax.Array:
    """The value where the variable lives."""
    return strategy._arrays.place_variable(value, variable)


def _placed_whole(strategy: Strategy, value: Any, variable: Any) -> jax.Array:
    """As `_placed`, for Keras's own steps, which take values that are cut as copies."""
    if strategy._cuts_slots and is_cut(variable):
        return strategy._arrays.for_program(strategy._arrays.place_replicated(value))
    return _placed(strategy, value, variable)


def state_variables(model: keras.Model, groups: Collection[str]) -> list[list[Any]]:
    """The variables of a model's state, a list for each group, in the order of the state.

    Args:
        model: the model.
        groups: their names, as ``_get_jax_state`` calls them.
    """
    optimizer = getattr(model, "optimizer", None)
    members = {
        "trainable_variables": model.trainable_variables,
        "non_trainable_variables": [*model.non_trainable_variables, *step_variables(model)],
        "optimizer_variables": [] if optimizer is None else optimizer.variables,
        "metrics_variables": model.metrics_variables,
    }
    return [members[name] for name in _GROUPS if name in groups]


def state_sharding(model: keras.Model, strategy: Strategy, groups: Collection[str]) -> Any:
    """Where a step on all replicas finds a model's state.

    One sharding, or one for each group, or for each variable of a group.

    Args:
        model: the model.
        strategy: its strategy.
        groups: see `state_variables`.
    """
    strategy._check_variables()
    everywhere = strategy._arrays.program_sharding
    each = [
        list(map(strategy._arrays.program_sharding_of, variables))
        for variables in state_variables(model, groups)
    ]
    found = tuple(
        everywhere if all(sharding == everywhere for sharding in group) else group for group in each
    )
    return everywhere if all(group is everywhere for group in found) else found


def create_eagerly(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a variable's ``__init__``: where a `StateScope` creates, as outside of any scope.

    In a stateless scope Keras puts the initial value off, which is right in a trace.
    """

    def init_at_once(self: Any, *args: Any, **kwargs: Any) -> None:
        scope = get_stateless_scope()
        if not isinstance(scope, StateScope) or not scope.creates:
            init(self, *args, **kwargs)
            return
        thread_state()["stateless_scope"] = None
        try:
            init(self, *args, **kwargs)
        finally:
            thread_state()["stateless_scope"] = scope

    return init_at_once


_STATE = "_jax_state"


def leave_state_untracked() -> None:
    """Let models take ``_jax_state`` as it is.

    Keras's trainer sets it after each step to a dict of the lists of all arrays. A layer wraps
    every container it is given, to find the layers and variables inside: with 20 arrays that took
    0.26 ms a step, 7 % of a step of the tutorial's convnet.
    """
    if "__setattr__" in vars(internals.JAXTrainer):
        return

    def __setattr__(self: keras.Model, name: str, value: Any) -> None:
        if name == _STATE:
            object.__setattr__(self, name, value)
        else:
            super(internals.JAXTrainer, self).__setattr__(name, value)

    internals.JAXTrainer.__setattr__ = __setattr__
    note(
        "Keras",
        full_name(internals.JAXTrainer, "__setattr__"),
        "Keras would look for layers among all arrays of a step's state, after every step",
        internals.NO_SETTING,
    )


_slot_of: contextvars.ContextVar[tuple[Any, str] | None] = contextvars.ContextVar(
    "drumline_slot_of", default=None
)
_cuts_slot: contextvars.ContextVar[Strategy | None] = contextvars.ContextVar(
    "drumline_cuts_slot", default=None
)
"""The strategy that cuts the slot that is being made, in its scope or outside of it."""
_beside: contextvars.ContextVar[Any] = contextvars.ContextVar("drumline_beside", default=None)
"""The variable of a `ModelParallelStrategy` as which the slot that is being made lies."""
_SEED = "seed_generator_state"
_stays = contextvars.ContextVar("drumline_variable_stays", default=False)


def create_on_servers(initialize: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a variable's initialization: in the strategy's scope the servers keep the value."""

    def initialize_in_scope(self: Any, initial: Any) -> None:
        slot = _slot_of.get()
        if slot is not None:
            make_slot(self, *slot, initial)
            return
        stays = _stays.get() or self.name == _SEED
        strategy = get_strategy() if has_strategy() and not stays else None
        if not isinstance(strategy, ParameterServerStrategy):
            initialize(self, initial)
            return
        if not callable(initial):
            self._shape = tuple(initial.shape)
        strategy.create_variable(self, initial)

    return initialize_in_scope


_FILLS: dict[type, int] = {keras.initializers.Zeros: 0, keras.initializers.Ones: 1}
_FILLED = frozenset({"float32", "bfloat16", "float16", "int32", "uint32"})
_by_size = contextvars.ContextVar("drumline_draws_by_size", default=False)

_BY_POSITION = "jax_threefry_partitionable"
MOST_DRAWN = 1 << 24
"""Up to so many numbers are drawn by a program for a larger size."""
VECTOR = 16
"""How many float32 the widest registers of CPUs hold (512 bits)."""


def initialize_by_few_programs(initialize: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a variable's initialization by an initializer: in a scope, the same bits sooner.

    JAX compiles a program for each shape that zeros or random numbers are made of, which took 9 of
    the 27 s up to the first step of a ResNet-50. Zeros, ones and constants are made without one
    for their shape, and random numbers by a program for few sizes (`draw_by_size`).
    """

    def initialize_sooner(self: Any, initializer: Any) -> None:
        if not has_strategy() or is_staged(current_trace()):
            initialize(self, initializer)
            return
        if get_strategy()._arrays.has_shape_alone(self):
            self._direct_assign(jax.ShapeDtypeStruct(tuple(self._shape), self._dtype))
            return
        fill = _fill_of(initializer, self.dtype)
        if fill is not None:
            initialize(self, functools.partial(_filled, fill))
            return
        token = _by_size.set(True)
        try:
            initialize(self, initializer)
        finally:
            _by_size.reset(token)

    return initialize_sooner


def _fill_of(initializer: Any, dtype: Any) -> Any:
    """The number that all of a variable's are; None if they are not known to be alike."""
    if str(dtype) not in _FILLED:
        return None
    if type(initializer) is keras.initializers.Constant and np.ndim(initializer.value) == 0:
        return np.asarray(initializer((), dtype))  # as Keras rounds it
    return _FILLS.get(type(initializer))


def _filled(fill: Any, shape: Sequence[int], dtype: Any) -> jax.Array:
    return jax.device_put(np.full(shape, fill, jnp.dtype(dtype)), may_alias=False)


def draw_by_size(draw: Callable[..., Any], *, whole_vectors: bool = False) -> Callable[..., Any]:
    """Wrap a function that draws numbers: while a variable is initialized, for few sizes.

    A number that threefry draws depends on its position alone, so the first ones of more are those
    of fewer. Sizes are powers of four up to a million, and of two beyond.

    Args:
        draw: Keras's ``uniform``, ``normal`` or ``truncated_normal`` for JAX.
        whole_vectors: Draw as ever where the last dimension is not a multiple of `VECTOR`. The
            function behind normal numbers is an approximation, which some releases of XLA compute
            otherwise, by one unit in the last place, for the end of a row that fills no vector.

    Returns:
        A function with the same arguments and bits.
    """

    def draw_more(shape: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        size = math.prod(shape)
        if not (
            _by_size.get()
            and 1 < size <= MOST_DRAWN
            and not (whole_vectors and shape[-1] % VECTOR)
            and _draws_by_position()
        ):
            return draw(shape, *args, **kwargs)
        exponent = (size - 1).bit_length()
        drawn = draw((1 << exponent + (exponent % 2 if size < 1 << 20 else 0),), *args, **kwargs)
        return jax.device_put(np.asarray(drawn)[:size].reshape(shape), may_alias=False)

    return draw_more


def _draws_by_position() -> bool:
    return bool(getattr(jax.config, _BY_POSITION))


def create_on_chief(make: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method in which variables are made that are the chief's own.

    An optimizer's counters and learning rate, and the seeds of random generators: the servers and
    workers keep theirs.
    """

    def make_here(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _stays.set(True)
        try:
            return make(self, *args, **kwargs)
        finally:
            _stays.reset(token)

    return make_here


def colocate_with_reference(add: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an optimizer's ``add_variable_from_reference``: what it makes is known as a slot.

    Servers keep it beside the variable, and strategies that cut slots cut it.
    """

    def add_beside(
        self: Any, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Any:
        if not isinstance(reference_variable, ServerVariable):
            owner = strategy_of_variable(reference_variable)
            cuts = owner is not None and owner._cuts_slots
            before = _cuts_slot.set(owner if cuts else None)
            lies = owner is not None and owner._partitions
            beside = _beside.set(reference_variable if lies else None)
            try:
                slot = add(self, reference_variable, name, initializer)
            finally:
                _beside.reset(beside)
                _cuts_slot.reset(before)
            if cuts and vars(slot).get("_value") is None:  # made in a step, which refuses it
                cut_from_now_on(slot)
            return slot
        token = _slot_of.set((reference_variable, name or "var"))
        try:
            return add(self, reference_variable, name, initializer)
        finally:
            _slot_of.reset(token)

    return add_beside


def is_on_servers(model: keras.Model) -> bool:
    """Whether the model was made in the scope of a `ParameterServerStrategy`."""
    return isinstance(strategy_of(model), ParameterServerStrategy)


def coordinator_of(model: keras.Model) -> ClusterCoordinator:
    """The coordinator of the strategy in whose scope the model was made.

    Raises:
        TypeError: if that is no `ParameterServerStrategy`.
    """
    strategy = strategy_of(model)
    if not isinstance(strategy, ParameterServerStrategy):
        raise TypeError(f"Model {model.name!r} belongs to {strategy!r}.")
    return ClusterCoordinator(strategy)
