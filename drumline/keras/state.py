"""Where the variables of models made under a strategy live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras

from drumline.distribute import Strategy, get_strategy, has_strategy
from drumline.distribute.adoption import owner_of, set_owner
from drumline.distribute.same_start import start_alike
from drumline.keras.ownership import strategy_of

_GROUPS = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)


def place_assigned(assign: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the variable's assignment: what was created in a scope stays where its strategy says."""

    def assign_placed(self: Any, value: Any) -> Any:
        strategy = owner_of(self)
        if strategy is None and has_strategy() and getattr(self, "_value", None) is None:
            strategy = get_strategy()
            set_owner(self, strategy)
        if strategy is not None and not isinstance(value, jax.core.Tracer):
            copies = getattr(self, "has_copies", False)
            value = strategy.place_copies(value) if copies else strategy.place_variable(value)
        return assign(self, value)

    return assign_placed


def place_state(get_state: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_get_jax_state``: all of it lies where the strategy says, and none of it is lost.

    Keras takes the arrays out of the variables before the first step. Noting them as the model's
    state lets `jax_state_sync` put them back if that step's batch never comes.
    """

    def get_placed_state(self: keras.Model, **groups: Any) -> Any:
        purge = groups.get("purge_model_variables", False)
        strategy = strategy_of(self)
        if strategy is not None and strategy.spans_processes:
            start_alike(strategy, _variables(self, groups))
        state = get_state(self, **groups)
        if strategy is not None:
            state = tuple([_placed(strategy, value) for value in part] for part in state)
        if purge:
            names = [name for name in _GROUPS if groups.get(name)]
            self._jax_state = dict(zip(names, state, strict=True))
        return state

    return get_placed_state


def _placed(strategy: Strategy, value: Any) -> jax.Array:
    return strategy.for_program(strategy.place_variable(value))


def _variables(model: keras.Model, groups: dict[str, Any]) -> list[Any]:
    """The variables of the groups of a model's state that are asked for."""
    optimizer = getattr(model, "optimizer", None)
    members = {
        "trainable_variables": model.trainable_variables,
        "non_trainable_variables": model.non_trainable_variables,
        "optimizer_variables": [] if optimizer is None else optimizer.variables,
        "metrics_variables": model.metrics_variables,
    }
    return [variable for name in _GROUPS if groups.get(name) for variable in members[name]]
