"""Gradients meet once, on their way into the model's optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import keras

from drumline.distribute import ReduceOp
from drumline.distribute.strategy import REPLICA_AXIS
from drumline.keras.patching import shadowed
from drumline.keras.replica_trace import ReplicaTrace


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
        grads = _average(trace, grads, model.optimizer._trainable_variables)
        with trace.same_draws():
            return apply(optimizer_variables, grads, trainable_variables)

    with shadowed(model.optimizer, "stateless_apply", stateless_apply):
        yield


def _average(
    trace: ReplicaTrace, grads: Sequence[Any], variables: Sequence[keras.Variable]
) -> list[Any]:
    averaged = list(grads)
    real = [
        index
        for index, (grad, variable) in enumerate(zip(grads, variables, strict=True))
        if grad is not None and not _overwrites(variable)
    ]
    means = trace.context.all_reduce(ReduceOp.MEAN, [grads[index] for index in real])
    for index, mean in zip(real, means, strict=True):
        averaged[index] = mean
    for index, (grad, variable) in enumerate(zip(grads, variables, strict=True)):
        if grad is not None and _overwrites(variable):
            averaged[index] = jax.lax.pmax(grad, REPLICA_AXIS)
    return averaged


def _overwrites(variable: keras.Variable) -> bool:
    """Whether the "gradient" is the variable's next value: float8 scales, which take maxima."""
    return bool(getattr(variable, "overwrite_with_gradient", False))
