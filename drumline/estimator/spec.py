"""What a model_fn is called for, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras


class ModeKeys:
    """What a model_fn is called for, as ``tf.estimator.ModeKeys``."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """What a model_fn returns, as ``tf.estimator.EstimatorSpec``.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor, or a dictionary of tensors.
        loss: a scalar tensor.
        train_op: what an optimizer's ``minimize`` returned.
        eval_metric_ops: metrics of Keras by name, which were updated.
        export_outputs: what models for serving give; kept.
        training_chief_hooks: hooks of the first worker.
        training_hooks: hooks of all workers.
        scaffold: must be None: there is no graph.
        evaluation_hooks: hooks of `Estimator.evaluate`.
        prediction_hooks: hooks of `Estimator.predict`.

    Raises:
        ValueError: what the mode needs is missing, or the loss is no scalar.
        TypeError: a metric is none of Keras's, or something else has a wrong type.
        NotImplementedError: with a scaffold.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            raise ValueError(f"EstimatorSpec: mode {mode!r} is none of tf.estimator.ModeKeys")
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError(
                "Missing train_op: in ModeKeys.TRAIN give what updates the variables: "
                "optimizer.apply_gradients(...) of a Keras optimizer, or, with tf.estimator, "
                "optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())."
            )
        if mode != ModeKeys.PREDICT and loss is None:
            raise ValueError(f"Missing loss: the mode {mode!r} needs one.")
        if mode == ModeKeys.PREDICT and predictions is None:
            raise ValueError("Missing predictions: ModeKeys.PREDICT needs them.")
        if loss is not None:
            loss = _scalar(loss)
        if scaffold is not None:
            raise NotImplementedError(
                "EstimatorSpec(scaffold=): there is no graph to finalize; give variables their "
                "values in model_fn, or by RunConfig and model_dir."
            )
        metrics = dict(eval_metric_ops or {})
        for name, metric in metrics.items():
            if not isinstance(metric, keras.Metric):
                raise TypeError(
                    f"EstimatorSpec: eval_metric_ops[{name!r}] must be a metric of "
                    f"tf.keras.metrics whose update_state was called, not {type(metric).__name__}"
                )
        hooks = (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        chief, train, evaluation, prediction = (tuple(each or ()) for each in hooks)
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            metrics,
            export_outputs,
            chief,
            train,
            None,
            evaluation,
            prediction,
        )


def hooks_of(spec: EstimatorSpec) -> tuple[Any, ...]:
    """The hooks that a model_fn returned for its mode."""
    if spec.mode == ModeKeys.TRAIN:
        return (*spec.training_hooks, *spec.training_chief_hooks)
    return spec.evaluation_hooks if spec.mode == ModeKeys.EVAL else spec.prediction_hooks


def _scalar(loss: Any) -> Any:
    if not hasattr(loss, "shape") or not hasattr(loss, "dtype"):
        raise TypeError(f"EstimatorSpec: loss must be a tensor, not {type(loss).__name__}")
    if tuple(loss.shape) == (1,):
        return loss[0]
    if tuple(loss.shape) != ():
        raise ValueError(f"Loss must be scalar, given: {loss}")
    return loss


def prediction_rows(predictions: Any, keys: Any) -> Any:
    """Predictions without those that were not asked for.

    Raises:
        ValueError: none of the keys is there, or there are no keys.
    """
    if not keys:
        return predictions
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = {key: value for key, value in predictions.items() if key in wanted}
    if not found:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}: {wanted}.")
    return found
