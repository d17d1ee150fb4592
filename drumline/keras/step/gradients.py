"""Reducing gradients over the replicas, once, before an optimizer applies them."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import keras

from drumline.distribute import ReduceOp, ReplicaContext
from drumline.distribute.replica import running_replica
from drumline.keras.internals import shadowed
from drumline.keras.step.replica_trace import ReplicaTrace
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.optimizer_hooks import update_interceptor
from drumline.training.state_scope import StateScope


@contextlib.contextmanager
def averaged_gradients(model: keras.Model, trace: ReplicaTrace) -> Iterator[None]:
    """Within the block the model's optimizer is given the mean of the replicas' gradients.

    Whatever the optimizer does with them (clipping, accumulation, loss scaling, inner optimizers)
    comes after. Its own random draws are the same on every replica: it updates one model.
    """
    apply = model.optimizer.stateless_apply

    def stateless_apply(
        optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        variables = model.optimizer._trainable_variables
        if len(grads) == len(variables):  # else Keras refuses: the model was changed
            grads = _reduce(trace.context, ReduceOp.MEAN, grads, variables)
        with trace.context.agreeing():
            return apply(optimizer_variables, grads, trainable_variables)

    with shadowed(model.optimizer, "stateless_apply", stateless_apply):
        yield


def sum_over_replicas(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an optimizer's ``apply``: in a replica's step it sums gradients over the replicas.

    As ``tf.keras.optimizers.Optimizer.apply_gradients`` does under ``tf.distribute``. Only the
    outermost optimizer does it, once; an optimizer inside another is given the sums. In a step for
    parameter servers the gradients go to them, and nothing is updated here.
    """

    def apply_summed(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        if len(variables) != len(grads):
            return apply(self, grads, trainable_variables)  # Keras refuses it
        taker = update_interceptor()
        if taker is not None:
            taker(self, grads, variables)
            return None
        update = functools.partial(_apply, functools.partial(apply, self), self)
        context = running_replica()
        if context is None or context.agreed:
            return update(grads, variables)
        if _aggregates.get():
            grads = _reduce(context, ReduceOp.SUM, grads, variables)
        with context.agreeing():
            return update(grads, variables)

    return apply_summed


_aggregates = contextvars.ContextVar("drumline_aggregates", default=True)


def aggregate_if_asked(apply_gradients: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``apply_gradients``: let it take TensorFlow's switches for the aggregation.

    ``experimental_aggregate_gradients=False``, or ``skip_gradients_aggregation=True``, leaves
    the sum over the replicas to the user.
    """

    def apply_gradients_as_asked(
        self: Any,
        grads_and_vars: Any,
        name: str | None = None,
        *,
        skip_gradients_aggregation: bool = False,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        del name  # as in Keras 2, where it names an operation of a graph
        token = _aggregates.set(experimental_aggregate_gradients and not skip_gradients_aggregation)
        try:
            return apply_gradients(self, grads_and_vars)
        finally:
            _aggregates.reset(token)

    return apply_gradients_as_asked


def _apply(apply: Callable[..., Any], optimizer: Any, grads: list[Any], variables: Any) -> None:
    """Keras's update; that of loss scaling without side effects in branches that JAX traces."""
    scope = get_stateless_scope()
    own_scope = scope is None or isinstance(scope, StateScope)
    if not (own_scope and isinstance(optimizer, keras.optimizers.LossScaleOptimizer)):
        apply(grads, variables)
        return
    if not optimizer.built:
        optimizer.build(variables)
    own = optimizer.variables
    new, new_own = optimizer.stateless_apply(
        [variable.value for variable in own], grads, [variable.value for variable in variables]
    )
    for variable, value in zip([*variables, *own], [*new, *new_own], strict=True):
        optimizer.inner_optimizer.assign(variable, value)


def _reduce(
    context: ReplicaContext,
    op: ReduceOp,
    grads: Sequence[Any],
    variables: Sequence[keras.Variable],
) -> list[Any]:
    reduced = list(grads)
    real = [
        index
        for index, (grad, variable) in enumerate(zip(grads, variables, strict=True))
        if grad is not None and not overwrites(variable)
    ]
    totals = context.all_reduce(op, [jnp.asarray(grads[index]) for index in real])
    for index, total in zip(real, totals, strict=True):
        reduced[index] = total
    for index, (grad, variable) in enumerate(zip(grads, variables, strict=True)):
        if grad is not None and overwrites(variable):
            reduced[index] = jnp.max(context.all_gather(jnp.asarray(grad)[None]), 0)
    return reduced


def overwrites(variable: keras.Variable) -> bool:
    """Whether the "gradient" is the variable's next value: float8 scales, which take maxima."""
    return bool(getattr(variable, "overwrite_with_gradient", False))
