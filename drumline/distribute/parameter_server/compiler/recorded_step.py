"""A user's step as one program over arrays, before tables are split off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.arguments import Form, take_apart
from drumline.distribute.parameter_server.compiler.errors import StepError
from drumline.distribute.parameter_server.compiler.gradients import StepScope, Update, Updates
from drumline.distribute.step_outputs import wrap
from drumline.distribute.updates_elsewhere import updates_go_to
from drumline.training.state_scope import NewVariables, initialize_created, refuse_created

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
    form, arrays = take_apart(*_with_stand_ins((tuple(args), dict(kwargs))))
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


def _discovered(fn: Callable[..., Any], form: Form, specs: Sequence[Any], first: bool) -> list[Any]:
    scopes: list[StepScope] = []

    def trace(arrays: Sequence[Any]) -> Any:
        scopes.append(StepScope())
        return _called(fn, form, arrays, scopes[-1], Updates(scopes[-1]))

    jax.eval_shape(trace, list(specs))
    created = initialize_created()
    if created and not first:
        refuse_created(fn, created)
    return scopes[-1].discovered


def _record_sealed(step: RecordedStep, fn: Callable[..., Any], form: Form) -> None:
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
    form: Form,
    arrays: Sequence[Any],
    scope: StepScope,
    updates: Updates,
) -> Any:
    args, kwargs = form.arguments(arrays)
    with scope, updates_go_to(updates.take, scope.note_state):
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
