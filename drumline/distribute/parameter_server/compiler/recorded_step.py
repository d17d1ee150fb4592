"""A user's step as one program over arrays, before tables are split off.

`record` traces the step: first to find the variables that it uses, and then with all of them as
inputs. In it, variables are symbols (`StepScope`), and what optimizers are given is noted and not
applied (`Updates`), as the servers apply it; clipping is part of the step. The outcome is a
`RecordedStep`: results, gradients and new values of variables as outputs of one jaxpr.

`split.trace_step` calls it on the chief, in the thread that traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.distribute.parameter_server.errors import OptimizerError, StepError
from drumline.distribute.step.arguments import ArgumentSpec, flatten_arguments
from drumline.distribute.step.outputs import wrap
from drumline.training import jax_internals
from drumline.training.keras_internals import Variable, clipped_gradients, with_gradients
from drumline.training.optimizer_hooks import intercept_optimizer_updates
from drumline.training.state_scope import (
    NewVariables,
    StateScope,
    initialize_created,
    refuse_created,
)


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
                kind = jax.dtypes.canonicalize_dtype(variable._dtype)  # steps compute with 32 bits
                zeros = jnp.zeros(tuple(variable.shape), kind)
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


_MOST_TRACES = 5


@dataclass
class RecordedStep:
    """What a step does, in terms of arrays.

    Attributes:
        arguments: the specifications of the arguments' arrays.
        variables: those that it uses; the first inputs of `program`, before the arguments.
        program: gives the results, then the gradients, then the written variables' new values.
        results: the structure of what the step returns.
        updates: the gradients, whose values are only of use while tracing.
        written: the variables that it assigns.
        states: by identity, the variables that hold random generators' states.
        optimizers: those that it applies.
        applied: how often each.
        trained: the variables that each is given.
    """

    arguments: list[jax.ShapeDtypeStruct]
    variables: list[Any] = field(default_factory=list)
    program: Any = None
    results: Any = None
    updates: list[Update] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)
    states: dict[int, Any] = field(default_factory=dict)
    optimizers: list[Any] = field(default_factory=list)
    applied: list[int] = field(default_factory=list)
    trained: list[list[Any]] = field(default_factory=list)


def record(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> RecordedStep:
    """Trace `fn` twice: to find the variables that it uses, and with all of them as inputs.

    Variables that it creates the first time get their values in between.

    Args:
        fn: the step.
        args: its arguments, in which arrays may be `jax.ShapeDtypeStruct`.
        kwargs: those with names.

    Raises:
        StepError: if it does what cannot be done on workers.
        ValueError: if it creates variables when it is traced again.
    """
    form, arrays = flatten_arguments(*_with_stand_ins((tuple(args), dict(kwargs))))
    specs = [jax.ShapeDtypeStruct(each.shape, _dtype(each)) for each in arrays]
    step = RecordedStep(specs)
    for attempt in range(_MOST_TRACES):
        step.variables = _discovered(fn, form, specs, first=attempt == 0)
        try:
            _record_sealed(step, fn, form)
        except NewVariables:
            continue
        return step
    raise StepError(
        f"{getattr(fn, '__qualname__', fn)} uses other variables each time it is traced, so it "
        "cannot become one program. Let it use the same variables in every call."
    )


def _discovered(
    fn: Callable[..., Any], form: ArgumentSpec, specs: Sequence[Any], first: bool
) -> list[Any]:
    scopes: list[StepScope] = []

    def trace(arrays: Sequence[Any]) -> Any:
        scopes.append(StepScope())
        return _called(fn, form, arrays, scopes[-1], Updates(scopes[-1]))

    jax.eval_shape(trace, list(specs))
    created = initialize_created()
    if created and not first:
        refuse_created(fn, created)
    return scopes[-1].discovered


def _record_sealed(step: RecordedStep, fn: Callable[..., Any], form: ArgumentSpec) -> None:
    def trace(values: Sequence[Any], arrays: Sequence[Any]) -> Any:
        scope = StepScope(step.variables, values, sealed=True)
        updates = Updates(scope)
        results = _called(fn, form, arrays, scope, updates)
        step.results = jax.tree.structure(results)
        step.updates, step.written, step.states = updates.all, scope.written, scope.states
        step.optimizers, step.applied = updates.optimizers, updates.applied
        step.trained = updates.trained
        new = [scope.state_mapping[id(variable)] for variable in scope.written]
        return jax.tree.leaves(results), [update.gradient for update in updates.all], new

    given = [
        jax.ShapeDtypeStruct(tuple(variable.shape), variable._dtype) for variable in step.variables
    ]
    step.program = jax.make_jaxpr(trace)(given, step.arguments)
    for update in step.updates:
        if any(update.variable is variable for variable in step.written):
            raise StepError(
                f"Variable {update.variable.path!r} is assigned in a step that also gives its "
                "gradient to an optimizer; the parameter servers could do both in either order. "
                "Do one of them in another function."
            )


def _called(
    fn: Callable[..., Any],
    form: ArgumentSpec,
    arrays: Sequence[Any],
    scope: StepScope,
    updates: Updates,
) -> Any:
    args, kwargs = form.arguments(arrays)
    with scope, intercept_optimizer_updates(updates.take, scope.note_state):
        return wrap(fn(*args, **kwargs), jnp.asarray)


def _with_stand_ins(tree: Any) -> Any:
    """`tree` with arrays in the place of specifications, which take no memory."""
    return jax.tree.map(
        lambda leaf: (
            np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)
            if isinstance(leaf, jax.ShapeDtypeStruct)
            else leaf
        ),
        tree,
    )


def _dtype(array: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(array.dtype)
