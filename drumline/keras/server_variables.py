"""Variables that Keras makes in a parameter-server strategy's scope go to the servers."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from drumline.distribute import ParameterServerStrategy, get_strategy, has_strategy
from drumline.distribute.parameter_server.server_variable import ServerVariable, make_slot

_slot_of: contextvars.ContextVar[tuple[Any, str] | None] = contextvars.ContextVar(
    "drumline_slot_of", default=None
)
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


def stay_on_the_chief(make: Callable[..., Any]) -> Callable[..., Any]:
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


def keep_beside_reference(add: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an optimizer's ``add_variable_from_reference``: servers keep it beside the variable."""

    def add_beside(
        self: Any, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Any:
        if not isinstance(reference_variable, ServerVariable):
            return add(self, reference_variable, name, initializer)
        token = _slot_of.set((reference_variable, name or "var"))
        try:
            return add(self, reference_variable, name, initializer)
        finally:
            _slot_of.reset(token)

    return add_beside
