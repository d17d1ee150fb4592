"""`model_to_estimator`: an Estimator of a compiled Keras model."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from drumline.estimator.config import RunConfig
from drumline.estimator.estimator import Estimator
from drumline.estimator.export.outputs import PredictOutput
from drumline.estimator.graph import running
from drumline.estimator.model_run import ModelRun
from drumline.estimator.premade.heads.base import DEFAULT_SERVING_KEY, MEAN, minimize
from drumline.estimator.premade.optimizers import maker_of
from drumline.estimator.spec import EstimatorSpec, ModeKeys
from drumline.training import GradientTape


class _ResultOf(keras.Metric):
    """One of the numbers that a model's compiled metrics give together."""

    def __init__(self, metrics: Any, key: str, name: str):
        super().__init__(name=name.replace("/", "_"))
        self._metrics_of_model = (metrics,)  # in a tuple: they are not this metric's own
        self._key = key

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the model's metrics are updated together."""

    def result(self) -> Any:
        """The number."""
        (metrics,) = self._metrics_of_model
        return metrics.result()[self._key]


class KerasModelEstimator(Estimator):
    """An Estimator of a compiled Keras model, which begins with its weights.

    Args:
        model: the model; it stays as it is.
        custom_objects: classes and functions by the names in its configuration.
        config: a `RunConfig`, or None.
        model_dir: see `Estimator`.
        metric_names: other names of metrics, by their own.
        export_outputs: `ExportOutput` classes by the model's outputs.
    """

    def __init__(
        self,
        model: Any,
        custom_objects: Mapping[str, Any] | None,
        config: Any,
        model_dir: Any,
        metric_names: Mapping[str, str] | None,
        export_outputs: Mapping[str, Any] | None,
    ):
        self._model = model
        self._custom_objects = dict(custom_objects or {})
        self._optimizer = maker_of(model.optimizer)
        self._model_config = model.get_config()
        self._compiled = model.get_compile_config()
        self._metric_names = dict(metric_names or {})
        self._export_outputs = dict(export_outputs or {})
        self._weights = [np.array(each.value) for each in model.weights]
        self._names: list[str] = []
        super().__init__(self._of_model, model_dir, config)

    def _clone(self) -> Any:
        """A new model like it, compiled."""
        with keras.saving.custom_object_scope(self._custom_objects):
            made = type(self._model).from_config(copy.deepcopy(self._model_config))
            metrics = {
                name: keras.saving.deserialize_keras_object(self._compiled.get(name))
                for name in ("metrics", "weighted_metrics")
            }
        made.compile(
            optimizer=self._optimizer(None),
            loss=self._model.loss,
            loss_weights=self._compiled.get("loss_weights"),
            **metrics,
        )
        return made

    def _of_model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """The model_fn."""
        call = running()
        assert call is not None
        training = mode == ModeKeys.TRAIN
        with contextlib.ExitStack() as stack:
            if training and call.tape is None:
                call.tape = stack.enter_context(GradientTape(persistent=True))
            model = self._clone()
            inputs = _inputs_of(model, self.values.map(self.values.array, features))
            labels = self.values.map(self.values.array, labels) if labels is not None else None
            outputs = self.values.map(self.values.array, model(inputs, training=training))
            if call.building:
                self._names = [each.path for each in model.weights]
            predictions = _by_name(model, outputs)
            if mode == ModeKeys.PREDICT:
                exported = {DEFAULT_SERVING_KEY: PredictOutput(predictions)}
                for key, kind in self._export_outputs.items():
                    if key not in predictions:
                        raise ValueError(
                            f"export_outputs names {key!r}, and the model's outputs are "
                            f"{sorted(predictions)}"
                        )
                    exported[key] = kind(predictions[key])
                return EstimatorSpec(mode, predictions, export_outputs=exported)
            loss = model.compute_loss(x=inputs, y=labels, y_pred=outputs, training=training)
            loss = self.values.array(loss)
            metrics = self._updated_metrics(model, inputs, labels, outputs) if not training else {}
            op = None
            if training:
                op = minimize(loss, [(model.optimizer, model.trainable_variables)], MEAN)
                if not self.values.counts_steps and not call.building:
                    call.graph.global_step.assign_add(1)
            return EstimatorSpec(mode, predictions, loss, op, eval_metric_ops=metrics)

    def _updated_metrics(
        self, model: Any, inputs: Any, labels: Any, outputs: Any
    ) -> dict[str, keras.Metric]:
        found = model.compute_metrics(inputs, labels, outputs)
        compiled = [each for each in model.metrics if type(each).__name__ == "CompileMetrics"]
        made: dict[str, keras.Metric] = {}
        for each in compiled:
            for key in each.result():
                if key in found:
                    name = self._metric_names.get(key, key)
                    made[name] = _ResultOf(each, key, name)
        return made

    def _begin(self, run: ModelRun) -> None:
        if len(self._weights) == len(self._names):
            run.assign(dict(zip(self._names, self._weights, strict=True)))


def _inputs_of(model: Any, features: Any) -> Any:
    """Features as the model takes them: in the order of its inputs, by their names."""
    inputs = getattr(model, "inputs", None)
    if not isinstance(features, Mapping) or not inputs:
        return features
    if len(inputs) == 1 and len(features) == 1:
        (found,) = features.values()
        return found
    names = [str(each.name).split(":")[0] for each in inputs]
    missing = [name for name in names if name not in features]
    if missing:
        raise ValueError(
            f"The model's inputs are {names}, and the features have no {missing}: they are "
            f"{sorted(features)}"
        )
    return [features[name] for name in names]


def _by_name(model: Any, outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, Mapping):
        return dict(outputs)
    listed = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    names = list(getattr(model, "output_names", None) or ())
    if isinstance(model, keras.Sequential):
        names = [model.layers[-1].name]
    if len(names) != len(listed):
        names = [f"output_{number + 1}" for number in range(len(listed))]
    return dict(zip(names, listed, strict=True))


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: Any = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: Any = None,
    config: Any = None,
    checkpoint_format: str | None = "checkpoint",
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Mapping[str, Any] | None = None,
    kind: type[KerasModelEstimator] = KerasModelEstimator,
) -> KerasModelEstimator:
    """An Estimator of a compiled Keras model: ``tf.keras.estimator.model_to_estimator``.

    It begins with the model's weights, and trains a copy: the model stays as it is.

    Args:
        keras_model: the model.
        keras_model_path: a file that it is loaded from, in its place.
        custom_objects: classes and functions by the names in its configuration.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        config: a `RunConfig`.
        checkpoint_format: ``"checkpoint"`` or ``"saver"``: both are drumline's checkpoints.
        metric_names_map: other names of metrics, by their own.
        export_outputs: classes of ``export`` by the model's outputs, for more signatures.
        kind: the class of the Estimator.

    Raises:
        ValueError: no model is given, or two, or it is not compiled.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> dl.estimator.model_to_estimator(model).config.keep_checkpoint_max
        5
    """
    if keras_model is None and not keras_model_path:
        raise ValueError("Either `keras_model` or `keras_model_path` needs to be provided.")
    if keras_model is not None and keras_model_path:
        raise ValueError("Please specity either `keras_model` or `keras_model_path`, but not both.")
    if checkpoint_format not in (None, "checkpoint", "saver"):
        raise ValueError(
            f'Checkpoint format must be one of "checkpoint" or "saver". Got {checkpoint_format}'
        )
    if keras_model is None:
        path = os.fspath(keras_model_path)
        keras_model = keras.saving.load_model(path, custom_objects=custom_objects)
    if getattr(keras_model, "optimizer", None) is None:
        raise ValueError(
            "The given keras model has not been compiled yet. Please compile the model with "
            "`model.compile()` before calling `model_to_estimator()`."
        )
    if isinstance(config, Mapping):
        config = RunConfig(**config)
    return kind(keras_model, custom_objects, config, model_dir, metric_names_map, export_outputs)
