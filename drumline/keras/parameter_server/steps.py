"""The steps of a model's `fit`, `evaluate` and `predict`, as functions that workers run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import Strategy
from drumline.keras.internals import overrides
from drumline.training import GradientTape
from drumline.training.keras_internals import get_stateless_scope


@contextlib.contextmanager
def added_losses() -> Iterator[None]:
    """Within the block the scope in force collects them, so that ``model.losses`` has them."""
    scope = get_stateless_scope()
    if scope is None:
        yield
        return
    before = scope.collect_losses, scope.losses
    scope.collect_losses, scope.losses = True, []
    try:
        yield
    finally:
        scope.collect_losses, scope.losses = before


Step = Callable[[Any], Any]


class Steps:
    """One step, in the two forms in which it is scheduled.

    Args:
        step: what to do with a batch.
        strategy: whose workers do it.

    Attributes:
        on_batch: takes a batch that the chief sends.
        on_next: takes a per-worker iterator.
    """

    def __init__(self, step: Step, strategy: Strategy) -> None:
        def on_batch(batch: Any) -> Any:
            return strategy.run(step, args=(batch,))

        def on_next(iterator: Any) -> Any:
            return strategy.run(step, args=(next(iterator),))

        self.on_batch = on_batch
        self.on_next = on_next


def train_step(model: keras.Model, class_weight: Mapping[int, float] | None) -> Step:
    """A step of training; it returns the batch's loss.

    Args:
        model: a compiled model.
        class_weight: weights by class, for batches that the chief has not weighed.

    Raises:
        NotImplementedError: if the model's class has a ``train_step`` of its own, or steps are
            to run eagerly.
    """
    _require_compiled(model)
    _require_keras_own(model, "train_step", "compute_loss_and_updates")

    def step(batch: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        if class_weight:
            sample_weight = _weights_of(y, class_weight)
        variables = model.trainable_variables
        with GradientTape() as tape:
            loss, y_pred = _loss(model, x, y, sample_weight, training=True)
            scaled = model.optimizer.scale_loss(loss)
        model.optimizer.apply(tape.gradient(scaled, variables), variables)
        _update_metrics(model, loss, x, y, y_pred, sample_weight)
        return loss

    return step


def test_step(model: keras.Model) -> Step:
    """A step of evaluation; it returns the batch's loss.

    Raises:
        NotImplementedError: if the model's class has a ``test_step`` of its own.
    """
    _require_keras_own(model, "test_step", "compute_loss_and_updates")

    def step(batch: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        loss, y_pred = _loss(model, x, y, sample_weight, training=False)
        _update_metrics(model, loss, x, y, y_pred, sample_weight)
        return loss

    return step


def predict_step(model: keras.Model) -> Step:
    """A step of prediction; it returns the model's outputs.

    Raises:
        NotImplementedError: if the model's class has a ``predict_step`` of its own.
    """
    _require_keras_own(model, "predict_step")

    def step(batch: Any) -> Any:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        return _call(model, x, training=False)

    return step


def _call(model: keras.Model, x: Any, training: bool) -> Any:
    return model(x, training=training) if model._call_has_training_arg else model(x)


def _loss(
    model: keras.Model, x: Any, y: Any, sample_weight: Any, training: bool
) -> tuple[Any, Any]:
    with added_losses():
        y_pred = _call(model, x, training)
        loss = model._compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )
    return loss, y_pred


def _update_metrics(
    model: keras.Model, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any
) -> None:
    """Add a batch to the metrics. Their results, which a worker has no use for, are not computed
    unless the user's own method does."""
    rows = next(leaf for leaf in jax.tree.leaves(x)).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=rows)
    if overrides(model, "compute_metrics"):
        model.compute_metrics(x, y, y_pred, sample_weight)
    elif model._compile_metrics is not None:
        model._compile_metrics.update_state(y, y_pred, sample_weight)


def _weights_of(y: Any, class_weight: Mapping[int, float]) -> jax.Array:
    (targets,) = jax.tree.leaves(y)
    classes = jnp.asarray(targets)
    if classes.ndim > 1:
        one_hot = classes.shape[-1] != 1
        classes = jnp.argmax(classes, axis=-1) if one_hot else jnp.squeeze(classes, axis=-1)
    classes = jnp.round(classes).astype(jnp.int32)
    weights = jnp.ones(classes.shape, keras.backend.floatx())
    for number, weight in class_weight.items():
        weights = jnp.where(classes == number, jnp.asarray(weight, weights.dtype), weights)
    return weights


def _require_compiled(model: keras.Model) -> None:
    if model.run_eagerly:
        raise NotImplementedError(
            f"Model {model.name!r} was compiled with run_eagerly=True, and workers run compiled "
            "programs only. To debug a step, call the model itself, or train it without a strategy."
        )


def _require_keras_own(model: keras.Model, *names: str) -> None:
    for name in names:
        if overrides(model, name):
            raise NotImplementedError(
                f"Model {model.name!r} of class {type(model).__name__} has its own `{name}`, which "
                "takes and returns the whole state of the model; on parameter servers no worker "
                "has it. Override `compute_loss` or `compute_metrics` instead, or write the step "
                "as a function and give it to `ClusterCoordinator.schedule`."
            )
