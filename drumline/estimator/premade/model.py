"""`PremadeEstimator`: a head, the logits of a DNN, a linear model or both, and their optimizers."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from drumline.estimator.estimator import Estimator
from drumline.estimator.graph import GraphOp, running
from drumline.estimator.premade import heads
from drumline.estimator.premade.columns import InputColumns, scopes
from drumline.estimator.premade.heads.base import Head, minimize
from drumline.estimator.premade.optimizers import maker_of
from drumline.estimator.spec import EstimatorSpec, ModeKeys
from drumline.training import GradientTape

Updates = list[tuple[Any, list[Any]]]
"""Optimizers, and the variables that each updates."""


class PremadeEstimator(Estimator):
    """An Estimator whose model is known: a base class.

    Args:
        head: what the logits mean.
        model_dir: see `Estimator`.
        config: see `Estimator`.
        warm_start_from: see `Estimator`.
        dense: columns of a DNN.
        linear: columns of a linear model.

    Attributes:
        columns: what columns are, and how values come to JAX.
        heads: the classes of heads.
    """

    columns: InputColumns = InputColumns()
    heads: Any = heads

    def __init__(
        self,
        head: Head,
        model_dir: Any,
        config: Any,
        warm_start_from: Any = None,
        dense: Any = None,
        linear: Any = None,
    ):
        for name in ("loss", "predictions", "create_estimator_spec", "logits_dimension"):
            if not hasattr(type(head), name):
                raise TypeError(f"head must be a Head, such as RegressionHead(), not {head!r}")
        self._head = head
        self._dense = self.columns.check(dense) if dense is not None else ()
        self._linear = self.columns.check(linear) if linear is not None else ()
        super().__init__(self._premade, model_dir, config, None, warm_start_from)

    def _logits(self, features: Any, training: bool) -> tuple[Any, Updates]:
        """The logits of a batch, and what updates the variables if it is for training."""
        raise NotImplementedError

    def _premade(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        """The model_fn."""
        call = running()
        assert call is not None
        training = mode == ModeKeys.TRAIN
        with contextlib.ExitStack() as stack:
            if training and call.tape is None:
                call.tape = stack.enter_context(GradientTape(persistent=True))
            given = self.columns.arrays(features)
            logits, updates = self._logits(given, training)

            def train(loss: Any) -> GraphOp:
                op = self._update(loss, updates)
                if not self.values.counts_steps and not call.building:
                    call.graph.global_step.assign_add(1)
                return op

            own = self.columns.given(given) if isinstance(given, Mapping) else given
            return self._head.create_estimator_spec(
                features=self.columns.values(own),
                mode=mode,
                logits=self.columns.values(logits),
                labels=labels,
                train_op_fn=train if training else None,
            )

    def _update(self, loss: Any, updates: Updates) -> GraphOp:
        return minimize(loss, updates, self._head.loss_reduction)

    def _maker(self, optimizer: Any) -> Callable[[float | None], Any]:
        """See `maker_of`."""
        return maker_of(optimizer)

    def with_prepared_features(self, input_fn: Callable[..., Any]) -> Callable[..., Any]:
        """An input_fn that gives what the step takes: strings are looked up before it."""
        # Without what other processes cannot be sent: workers get it with the chief's input_fn.
        sent = copy.copy(self)
        sent.__dict__.update(_config=None, _model_fn=None, _warm_start=None)

        @functools.wraps(input_fn)
        def prepared_input_fn(*args: Any, **kwargs: Any) -> Any:
            made = input_fn(*args, **kwargs)
            dataset = sent.values.dataset(made)
            return made if dataset is None else dataset.map(sent._prepared)

        return prepared_input_fn

    def _prepared(self, features: Any, labels: Any = None) -> Any:
        """An element of the input as the step takes it."""
        given = features
        if isinstance(features, Mapping):
            given = self.columns.prepare(features, self._dense, self._linear)
        elif self._dense or self._linear:
            raise ValueError(
                "features should be a dictionary of `Tensor`s. Given type: "
                f"{type(features).__name__}"
            )
        if labels is None:
            return given
        return given, self._head.label_ids(self.columns.arrays(labels), self.columns.lookup)

    def _dnn(
        self,
        features: Any,
        training: bool,
        hidden_units: Sequence[int],
        activation: Any,
        dropout: float | None,
        batch_norm: bool,
    ) -> tuple[Any, list[Any]]:
        """The logits of a DNN, and its trainable variables."""
        function = activation if isinstance(activation, str) else self.values.function(activation)
        layers: list[Any] = []
        with scopes("dnn"):
            with scopes("input_from_feature_columns"):
                inputs = self.columns.dense(self._dense, features)
            net = inputs.values
            for number, units in enumerate(hidden_units):
                name = f"hiddenlayer_{number}"
                layers.append(keras.layers.Dense(units, function, name=name))
                net = layers[-1](net)
                if dropout is not None and training:
                    with scopes(name):
                        net = keras.layers.Dropout(dropout, name="dropout")(net, training=True)
                if batch_norm:
                    with scopes(name):
                        # The momentum of TensorFlow's, which is not that of the layer.
                        layers.append(
                            keras.layers.BatchNormalization(
                                momentum=0.999, name=f"batchnorm_{number}"
                            )
                        )
                        net = layers[-1](net, training=training)
            layers.append(keras.layers.Dense(self._head.logits_dimension, name="logits"))
            logits = layers[-1](net)
        own = [each for layer in layers for each in layer.trainable_variables]
        return logits, [*inputs.variables, *own]

    def _linear_model(self, features: Any, combiner: str) -> tuple[Any, list[Any]]:
        """The logits of a linear model, and its variables."""
        with scopes("linear"):
            size = self._head.logits_dimension
            made = self.columns.linear(self._linear, features, size, combiner)
        return made.values, made.variables

    def _baseline(self, features: Any, weight_column: Any) -> tuple[Any, list[Any]]:
        """Logits that are the same for all rows, and their variable."""
        key = getattr(weight_column, "key", weight_column)
        given = features if isinstance(features, Mapping) else {"": features}
        rows = {len(each) for name, each in given.items() if name != key}
        if len(rows) != 1:
            raise ValueError(f"Features must have one number of rows, not {sorted(rows)}")
        size = self._head.logits_dimension
        with scopes("baseline"):
            bias = keras.Variable("zeros", shape=(size,), name="bias")
        return bias.value * jnp.ones((rows.pop(), size), np.float32), [bias]


def add_metrics(estimator: Estimator, metric_fn: Callable[..., Any]) -> Estimator:
    """An Estimator with more metrics, as ``tf.estimator.add_metrics``.

    Args:
        estimator: what it is otherwise, its ``model_dir`` too.
        metric_fn: a function of some of features, labels, predictions and config, that gives
            updated metrics of Keras's by name.

    Raises:
        ValueError: metric_fn takes something else.

    Example:
        ``dl.estimator.add_metrics(estimator, lambda labels, predictions: {"mae": ...})``
    """
    names = set(inspect.signature(metric_fn).parameters)
    extra = sorted(names - {"features", "labels", "predictions", "config"})
    if extra:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {extra}")
    model_fn = estimator.model_fn

    def with_metrics(features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        options = {"labels": labels, "mode": mode, "params": params, "config": config}
        taken = inspect.signature(model_fn).parameters
        spec = model_fn(features, **{key: each for key, each in options.items() if key in taken})
        if mode != ModeKeys.EVAL:
            return spec
        found = {
            "features": features,
            "labels": labels,
            "predictions": spec.predictions,
            "config": config,
        }
        more = metric_fn(**{name: found[name] for name in names})
        more = {name: getattr(each, "metric", each) for name, each in more.items()}
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **more})

    made = copy.copy(estimator)
    made._model_fn = with_metrics
    return made


def linear_rate(columns: Sequence[Any], most: float) -> float:
    """The learning rate of a linear model's optimizer that is named."""
    return min(most, 1.0 / math.sqrt(len(columns)))
