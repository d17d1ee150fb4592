"""What all heads have in common: checks of shapes, weights, the mean or sum of a loss, the update.

A head says what a model's logits mean: its loss, metrics and predictions. As in TensorFlow 2.15's
``tf.estimator.Head``; the arrays here are JAX's, and the look-alike derives heads of tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.estimator.export.outputs import (
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
)
from drumline.estimator.graph import GraphOp, running
from drumline.estimator.spec import EstimatorSpec, ModeKeys
from drumline.estimator.values import ClassNames

MEAN, SUM = "sum_over_batch_size", "sum"
_REDUCTIONS = {
    "auto": MEAN,
    MEAN: MEAN,
    SUM: SUM,
    # Those of tf.compat.v1.losses.Reduction.
    "weighted_sum": SUM,
    "weighted_sum_over_batch_size": MEAN,
    "weighted_mean": "weighted_mean",
    "weighted_sum_by_nonzero_weights": "weighted_sum_by_nonzero_weights",
}

DEFAULT_SERVING_KEY = "serving_default"


class Head:
    """What a model's logits mean, as ``tf.estimator.Head``; the base of users' own heads, too.

    Derived classes have `loss`, `predictions`, `metrics` and `update_metrics`, and the properties.
    """

    @property
    def name(self) -> str | None:
        """Of the head; it ends its metrics' names."""
        raise NotImplementedError("Calling an abstract method.")

    @property
    def logits_dimension(self) -> int:
        """The last dimension of the logits."""
        raise NotImplementedError("Calling an abstract method.")

    @property
    def loss_reduction(self) -> str:
        """``"sum_over_batch_size"`` or ``"sum"``."""
        raise NotImplementedError("Calling an abstract method.")

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        """The loss of a batch, a scalar: with the sum of `regularization_losses`, if given."""
        raise NotImplementedError("Calling an abstract method.")

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        """What is predicted, by name; of these names alone, if some are given."""
        raise NotImplementedError("Calling an abstract method.")

    def metrics(self, regularization_losses: Any = None) -> dict[str, keras.Metric]:
        """New metrics by name."""
        raise NotImplementedError("Calling an abstract method.")

    def update_metrics(
        self,
        eval_metrics: dict[str, keras.Metric],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, keras.Metric]:
        """Update metrics that `metrics` made, with a batch, and return them."""
        raise NotImplementedError("Calling an abstract method.")

    def label_ids(self, labels: Any, lookup: Callable[[Sequence[str], Any], Any]) -> Any:
        """Labels as a step takes them: numbers in place of the words of a vocabulary.

        It is called before the step, on the host.

        Args:
            labels: those that the input has.
            lookup: gives the numbers of labels in a vocabulary; -1 for what it has not.
        """
        return labels

    def export_outputs(self, predictions: Mapping[Any, Any]) -> dict[str, Any]:
        """What a model for serving gives, by the names of its signatures."""
        return {DEFAULT_SERVING_KEY: PredictOutput(predictions)}

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Any = None,
        regularization_losses: Any = None,
    ) -> EstimatorSpec:
        """What a model_fn returns.

        Args:
            features: of the batch.
            mode: one of `ModeKeys`.
            logits: what the model gives.
            labels: of the batch; not for predictions.
            optimizer: one of Keras's, which minimizes the loss.
            trainable_variables: for the optimizer: a list.
            train_op_fn: a function of the loss in the place of an optimizer.
            update_ops: of no effect: layers have updated their variables when they were called.
            regularization_losses: scalars to add to the loss.

        Raises:
            ValueError: optimizer and train_op_fn are both given, or none for training.
        """
        predictions = self.predictions(logits)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=self.export_outputs(predictions))
        loss = self.loss(
            labels=labels,
            logits=logits,
            features=features,
            mode=mode,
            regularization_losses=regularization_losses,
        )
        if mode == ModeKeys.EVAL:
            found = self.update_metrics(
                self.metrics(regularization_losses=regularization_losses),
                features=features,
                logits=logits,
                labels=labels,
                regularization_losses=regularization_losses,
            )
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops=found)
        if update_ops is not None and not isinstance(update_ops, (list, tuple)):
            raise ValueError(f"update_ops should be a list or a tuple. Given type: {update_ops!r}")
        op = self._train_op(loss, optimizer, trainable_variables, train_op_fn)
        return EstimatorSpec(mode, predictions, loss, train_op=op)

    def _train_op(
        self, loss: Any, optimizer: Any, variables: Any, function: Callable[[Any], Any] | None
    ) -> Any:
        if optimizer is None:
            if function is None:
                raise ValueError("train_op_fn and optimizer cannot both be None.")
            return function(loss)
        if function is not None:
            raise ValueError("train_op_fn and optimizer cannot both be set.")
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(
                "The given optimizer is not a tf.keras.optimizers.Optimizer instance. Given: "
                f"{optimizer!r}"
            )
        if not isinstance(variables, (list, tuple)):
            raise ValueError(
                f"trainable_variables should be a list or a tuple. Given: {variables!r}"
            )
        return minimize(loss, [(optimizer, variables)], self.loss_reduction)

    def _named(self, key: str) -> str:
        return f"{key}/{self.name}" if self.name else key


def minimize(loss: Any, updates: Sequence[tuple[Any, Sequence[Any]]], reduction: str) -> GraphOp:
    """Update variables in a model_fn, whose tape gives the gradients of the loss.

    Args:
        loss: of this replica.
        updates: optimizers of Keras's, and their variables.
        reduction: whether replicas' losses are summed, or are parts of a mean.

    Raises:
        RuntimeError: there is no tape.
    """
    call = running()
    if call is None or call.tape is None:
        raise RuntimeError(
            "An optimizer of Keras's needs the tape of an Estimator: pass train_op_fn, a function "
            "of the loss that takes gradients by your own dl.GradientTape and applies them."
        )
    if call.training:
        for optimizer, variables in updates:
            if not optimizer.built:
                optimizer.build(list(variables))
        if not call.building:
            if reduction != SUM and call.replicas > 1:
                loss = loss / call.replicas
            with call.tape.stop_recording():
                lists = [list(variables) for _, variables in updates]
                gradients = call.tape.gradient(loss, lists)
            for (optimizer, _), variables, slopes in zip(updates, lists, gradients, strict=True):
                slopes = [call.graph.values.array(each) for each in slopes]
                optimizer.apply_gradients(zip(slopes, variables, strict=True))
    return GraphOp("training")


def check_reduction(reduction: Any) -> str:
    """The reduction that a name stands for.

    Raises:
        ValueError: it is none.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"Invalid loss_reduction: {reduction}. See `tf.losses.Reduction` for valid options."
        )
    return _REDUCTIONS[reduction]


def check_loss_fn(function: Callable[..., Any] | None) -> None:
    """Refuse a user's loss function of other arguments.

    Raises:
        ValueError: it does not take labels and logits, or more than features and loss_reduction.
    """
    if function is None:
        return
    names = list(inspect.signature(function).parameters)
    for required in ("labels", "logits"):
        if required not in names:
            raise ValueError(f"loss_fn must contain argument: {required}. Given arguments: {names}")
    extra = sorted(set(names) - {"labels", "logits", "features", "loss_reduction"})
    if extra:
        raise ValueError(f"loss_fn has unexpected args: {extra}")


def user_loss(
    function: Callable[..., Any], labels: Any, logits: Any, features: Any, size: int
) -> Any:
    """A user's loss of each row, checked.

    Raises:
        ValueError: it has another shape than (..., size).
    """
    more = {"features": features} if "features" in inspect.signature(function).parameters else {}
    found = function(labels=labels, logits=logits, **more)
    if tuple(found.shape) != (*logits.shape[:-1], size):
        raise ValueError(
            f"loss_fn must return Tensor of shape [D0, D1, ... DN, {size}]. logits_shape: "
            f"{tuple(logits.shape)}, loss_shape: {tuple(found.shape)}"
        )
    return found


def reduced(losses: Any, weights: Any, reduction: str) -> Any:
    """The loss of a batch, of those of its rows and their weights, or None for 1."""
    losses = jnp.asarray(losses)
    if weights is None:
        weights = jnp.ones((), losses.dtype)
    total = (losses * weights).sum()
    if reduction == SUM:
        return total
    each = jnp.broadcast_to(weights, losses.shape)
    if reduction == MEAN:
        count = jnp.asarray(losses.size, losses.dtype)
    elif reduction == "weighted_mean":
        count = each.sum()
    else:
        count = (each != 0).sum().astype(losses.dtype)
    return jnp.where(count == 0, 0, total / jnp.where(count == 0, 1, count))


def check_logits(logits: Any, size: int) -> Any:
    """Logits as float32 of the last dimension `size`.

    Raises:
        ValueError: they are not.
    """
    logits = jnp.asarray(logits).astype(np.float32)
    if logits.ndim < 2:
        raise ValueError(
            f"logits must have rank at least 2.  Received rank {logits.ndim}, shape {logits.shape}"
        )
    if logits.shape[-1] != size:
        raise ValueError(
            f"logits shape must be [D0, D1, ... DN, logits_dimension], got {logits.shape}; "
            f"logits_dimension is {size}."
        )
    return logits


def check_labels(labels: Any, logits: Any, size: int) -> Any:
    """Labels of the shape (..., size), a last dimension of 1 may be missing.

    Raises:
        ValueError: there are none, or they have another shape.
    """
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check "
            "that your data contains your label feature. Check that your input_fn properly parses "
            "and returns labels."
        )
    if isinstance(labels, Mapping):
        raise ValueError(f"labels must be one Tensor, not a dictionary of {sorted(labels)}.")
    if np.dtype(labels.dtype).kind in "OSU":
        raise ValueError(
            "Labels are strings: give the head a label_vocabulary, and, in a model_fn of your own, "
            "numbers in place of its words."
        )
    labels = jnp.asarray(labels)
    if labels.ndim == logits.ndim - 1:
        labels = labels[..., None]
    if labels.ndim < 2:
        raise ValueError(
            f"labels must have rank at least 2.  Received rank {labels.ndim}, shape {labels.shape}"
        )
    if labels.shape[-1] != size:
        raise ValueError(
            f"Mismatched label shape. Expected labels dimension={size}.  Received "
            f"{labels.shape[-1]}. Suggested Fix: If your classifier expects one-hot encoding "
            "label, check your n_classes argument to the estimator and/or the shape of your label. "
            "Otherwise, check the shape of your label."
        )
    if labels.shape != (*logits.shape[:-1], size):
        raise ValueError(
            f"labels shape must be [D0, D1, ... DN, {size}]. Suggested Fix: check your n_classes "
            "argument to the head and/or the shape of your label., expected_labels_shape: "
            f"{(*logits.shape[:-1], size)}. labels_shape: {labels.shape}."
        )
    return labels


def check_range(labels: Any, classes: int, message: str | None = None) -> Any:
    """Labels from 0 to ``classes - 1``; in compiled steps others' losses are NaN, which ends them.

    Raises:
        ValueError: a label is out of range, where the values are known.
    """
    outside = (labels < 0) | (labels > classes - 1)
    if not isinstance(labels, jax.core.Tracer):
        if bool(np.any(np.asarray(outside))):
            raise ValueError(
                message
                or f"Labels must be >= 0 and <= {classes} - 1, and are from "
                f"{np.asarray(labels).min()} to {np.asarray(labels).max()}"
            )
        return labels
    if np.dtype(labels.dtype).kind == "f":
        return jnp.where(outside, jnp.nan, labels)
    return labels


def weights_of(features: Any, column: Any, logits: Any, per_logit: bool = False) -> Any:
    """The weights (..., 1) of rows, or of each logit; None if there is no column.

    Raises:
        TypeError: the column is neither a name nor has one.
        ValueError: they have another shape, or are not there.
    """
    if column is None:
        return None
    key = column if isinstance(column, str) else getattr(column, "key", None)
    if not isinstance(key, str):
        raise TypeError(
            f"Weight column must be either a string or NumericColumn. Given type: {type(column)}."
        )
    if key not in features:
        raise ValueError(f"Feature {key} is not in features dictionary: it is the weight_column.")
    weights = jnp.asarray(features[key])
    if weights.dtype.kind not in "iufb":
        raise ValueError(f"Weight column should be castable to float. Given dtype: {weights.dtype}")
    weights = weights.astype(np.float32)
    if getattr(column, "normalizer_fn", None) is not None:
        weights = jnp.asarray(column.normalizer_fn(weights))
    if weights.ndim == logits.ndim - 1:
        weights = weights[..., None]
    shapes = [(*logits.shape[:-1], 1)] + ([tuple(logits.shape)] if per_logit else [])
    if weights.shape not in shapes:
        also = " or [D0, D1, ... DN, logits_dimension]" if per_logit else ""
        raise ValueError(
            f"weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1]{also}, logits_shape: "
            f"{logits.shape}. weights_shape: {weights.shape}."
        )
    return weights


def mean(metric: keras.Metric, values: Any, weights: Any) -> None:
    """Update a mean with values and their weights; None for 1."""
    values = jnp.asarray(values).astype(np.float32)
    if weights is not None:
        weights = jnp.broadcast_to(weights, values.shape)
    metric.update_state(values, sample_weight=weights)


def compare(metric: keras.Metric, labels: Any, predicted: Any, weights: Any) -> None:
    """Update a metric of labels and predictions, with weights or None."""
    if weights is not None:
        weights = jnp.broadcast_to(weights, predicted.shape)
    metric.update_state(labels, predicted, sample_weight=weights)


def total(losses: Any) -> Any:
    """The sum of regularization losses; None if there are none."""
    return None if losses is None else sum(jnp.asarray(each) for each in losses)


def check_keys(keys: Any, known: Sequence[str]) -> Sequence[str]:
    """The predictions to make.

    Raises:
        ValueError: one is not known.
    """
    for key in keys or ():
        if key not in known:
            raise ValueError(
                f"Prediction key must be in PredictionKeys, given: {key}.Valid prediction keys "
                f"include {list(known)}."
            )
    return list(keys) if keys else known


def check_vocabulary(vocabulary: Any, classes: int | None) -> tuple[str, ...] | None:
    """A vocabulary of labels as a tuple.

    Raises:
        ValueError: it is no list, or has not as many words as there are classes.
    """
    if vocabulary is None:
        return None
    if not isinstance(vocabulary, (list, tuple)):
        raise ValueError(
            f"label_vocabulary should be a list or a tuple. Given type: {type(vocabulary)}"
        )
    if classes is not None and len(vocabulary) != classes:
        raise ValueError(
            '"label_vocabulary" does not have "n_classes" items. '
            f"len(label_vocabulary)={len(vocabulary)}, n_classes={classes}, "
            f"label_vocabulary={vocabulary}"
        )
    return tuple(each.decode() if isinstance(each, bytes) else str(each) for each in vocabulary)


def check_thresholds(thresholds: Any) -> tuple[float, ...]:
    """Thresholds as a tuple.

    Raises:
        ValueError: one is not between 0 and 1.
    """
    found = tuple(thresholds or ())
    for each in found:
        if not 0.0 < each < 1.0:
            raise ValueError(f"thresholds not in (0, 1): {(found,)}.")
    return found


def class_names(ids: Any, classes: int, vocabulary: tuple[str, ...] | None) -> ClassNames:
    """The names of classes: words of the vocabulary, or their numbers."""
    return ClassNames(ids, vocabulary or tuple(map(str, range(classes))))


def all_classes(logits: Any, classes: int) -> Any:
    """The numbers of all classes for each row, int32."""
    return jnp.broadcast_to(jnp.arange(classes, dtype=np.int32), (logits.shape[0], classes))


def classification_outputs(
    predictions: Mapping[Any, Any], scores: Any, classes: Any
) -> dict[str, Any]:
    """What a classifier's model for serving gives, by signatures."""
    made = ClassificationOutput(scores=scores, classes=classes)
    return {
        DEFAULT_SERVING_KEY: made,
        "classification": made,
        "predict": PredictOutput(predictions),
    }


def regression_outputs(predictions: Mapping[Any, Any], values: Any) -> dict[str, Any]:
    """What a regressor's model for serving gives, by signatures."""
    made = RegressionOutput(values)
    return {DEFAULT_SERVING_KEY: made, "regression": made, "predict": PredictOutput(predictions)}
