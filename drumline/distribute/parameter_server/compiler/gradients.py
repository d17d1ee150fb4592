"""Gradients on their way from a step to the parameter servers.

Variables as a step for workers sees them: symbols, whose values are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from drumline.distribute.parameter_server.compiler.errors import OptimizerError, StepError
from drumline.training import jax_internals
from drumline.training.keras_internals import Variable, clipped_gradients, with_gradients
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


@dataclass(frozen=True)
class Update:
    """One gradient that the servers apply.

    Attributes:
        variable: what it changes.
        gradient: clipped and unscaled, of the variable's shape.
        optimizer: the number of the optimizer that applies it.
    """

    variable: Any
    gradient: Any
    optimizer: int


class Updates:
    """Takes what optimizers are given in a step.

    Args:
        scope: the step's variables.

    Attributes:
        optimizers: those that the step applies, in their order.
        applied: how often each.
        trained: the variables that each was given first, also those without a gradient.
        all: the gradients.
    """

    def __init__(self, scope: StepScope) -> None:
        self._scope = scope
        self.optimizers: list[Any] = []
        self.applied: list[int] = []
        self.trained: list[list[Any]] = []
        self.all: list[Update] = []

    def take(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Note what ``optimizer.apply(gradients, variables)`` is to do on the servers.

        Clipping is part of the step: a norm over all gradients is known here alone.

        Raises:
            OptimizerError: if the optimizer does what servers cannot, or a variable has two.
            StepError: if the gradients belong to a function that JAX traces within the step.
        """
        require_servable(optimizer)
        number = self._number(optimizer)
        self.applied[number] += 1
        if not gradients:
            return
        if len(gradients) != len(variables):
            raise ValueError(
                f"Optimizer {optimizer.name!r} was given {len(gradients)} gradient(s) for "
                f"{len(variables)} variable(s)."
            )
        self.trained[number] = self.trained[number] or list(variables)
        gradients, variables = with_gradients(optimizer, gradients, variables)
        for gradient, variable in zip(gradients, variables, strict=True):
            self._check(optimizer, gradient, variable)
        scale = optimizer.loss_scale_factor
        if scale is not None:
            gradients = [gradient / scale for gradient in gradients]
        gradients = clipped_gradients(optimizer, gradients)
        for gradient, variable in zip(gradients, variables, strict=True):
            gradient = jnp.asarray(gradient).astype(variable._dtype)
            self.all.append(Update(variable, gradient, number))
            self._scope.note_update(variable)

    def _number(self, optimizer: Any) -> int:
        for number, known in enumerate(self.optimizers):
            if known is optimizer:
                return number
        self.optimizers.append(optimizer)
        self.applied.append(0)
        self.trained.append([])
        return len(self.optimizers) - 1

    def _check(self, optimizer: Any, gradient: Any, variable: Any) -> None:
        if any(update.variable is variable for update in self.all):
            raise OptimizerError(
                f"Variable {variable.path!r} is given to an optimizer twice in one step; the "
                f"second time to {optimizer.name!r}. On parameter servers a step updates each "
                "variable once, with one optimizer: add the gradients up, or use two functions."
            )
        if np.shape(gradient) != tuple(variable.shape):
            raise ValueError(
                f"Optimizer {optimizer.name!r} was given a gradient of shape {np.shape(gradient)} "
                f"for variable {variable.path!r} of shape {tuple(variable.shape)}."
            )
        if getattr(variable, "overwrite_with_gradient", False):
            raise OptimizerError(
                f"Variable {variable.path!r} is overwritten with its gradient, as float8 scales "
                "are, which parameter servers do not do. Use another dtype policy."
            )
        if variable.constraint is not None:
            raise OptimizerError(
                f"Variable {variable.path!r} has the constraint "
                f"{type(variable.constraint).__name__}, which parameter servers do not apply. "
                "Leave it out; a regularizer on what the layer returns has a similar effect."
            )
        if not self._scope.is_symbol(gradient):
            raise StepError(
                f"Optimizer {optimizer.name!r} is applied inside a function that JAX traces within "
                "the step (jax.jit, jax.lax.cond, scan or the like). Let that function return the "
                "gradients, and apply them in the step itself."
            )


def require_servable(optimizer: Any) -> None:
    """Refuse optimizers that need more than one variable with its slots at a time.

    Raises:
        OptimizerError: with the remedy.
    """
    name = type(optimizer).__name__
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise OptimizerError(
            f"{name} scales the loss by a state that all gradients of a step share, which workers "
            "that run on their own do not have. Use mixed_bfloat16, which needs no loss scaling, "
            "or the optimizer inside with `loss_scale_factor`."
        )
    if isinstance(optimizer, getattr(keras.optimizers, "MultiOptimizer", ())):
        raise OptimizerError(
            f"{name} cannot run on parameter servers. Give each optimizer its own variables: "
            "`first.apply(...)` and `second.apply(...)` in the step."
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise OptimizerError(
            f"{name} is no keras.optimizers.Optimizer, so its update cannot be sent to parameter "
            "servers. Derive it from that class."
        )
    if optimizer.gradient_accumulation_steps:
        raise OptimizerError(
            f"{name} has gradient_accumulation_steps={optimizer.gradient_accumulation_steps}, "
            "which parameter servers do not do. Leave it out, and use larger batches or a smaller "
            "learning rate."
        )
    if optimizer.use_ema:
        raise OptimizerError(
            f"{name} has use_ema=True, which parameter servers do not do. Leave it out, and "
            "average the weights of saved checkpoints."
        )
