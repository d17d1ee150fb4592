"""Variables as a step for workers sees them: symbols, whose values are elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp

from drumline.distribute.parameter_server.compiler.errors import StepError
from drumline.training import jax_internals
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import StateScope


class StepScope(StateScope):
    """A `StateScope` that never asks a variable for its value.

    Args:
        variables: the variables whose values are given.
        values: their values.
        sealed: raise `NewVariables` on the use of any other variable.

    Attributes:
        states: by identity, the variables that hold the states of random generators.
    """

    def __init__(
        self,
        variables: Iterable[Variable] = (),
        values: Iterable[Any] = (),
        *,
        sealed: bool = False,
    ) -> None:
        super().__init__(variables, values, sealed=sealed)
        self.states: dict[int, Any] = {}
        self._updated: set[int] = set()

    def note_state(self, variable: Any) -> None:
        """A random generator keeps its state in `variable`."""
        self.states[id(variable)] = variable

    def note_update(self, variable: Any) -> None:
        """An optimizer on the servers will change `variable`."""
        self._updated.add(id(variable))

    def is_symbol(self, value: Any) -> bool:
        """Whether `value` belongs to this very trace, or is an array that exists already."""
        if not isinstance(value, jax_internals.Tracer):
            return True
        return value._trace is self._trace

    def get_current_value(self, variable: Variable) -> Any:
        self._require_not_updated(variable)
        if id(variable) not in self.state_mapping:
            self._discover(variable)
            with jax_internals.under(self._trace):
                zeros = jnp.zeros(tuple(variable.shape), variable._dtype)
            self.state_mapping[id(variable)] = zeros
        return super().get_current_value(variable)

    def value_before(self, variable: Variable) -> Any:
        raise StepError(f"Variable {variable.path!r} has no value here, where a step is traced.")

    def add_update(self, update: tuple[Variable, Any]) -> None:
        self._require_not_updated(update[0])
        super().add_update(update)

    def _require_not_updated(self, variable: Variable) -> None:
        if id(variable) in self._updated:
            raise StepError(
                f"Variable {variable.path!r} is used after an optimizer was given its gradient. "
                "The parameter servers update it after the step, so its new value is not known in "
                "it. Use the variable before, let the step apply one update for each variable, and "
                "schedule the function once for every step."
            )
