"""Premade Estimators of ``tf.compat.v1.estimator``, with TensorFlow 1's defaults.

Losses are summed over a batch, an optimizer's name means that of TensorFlow 1, and one of
``tf.compat.v1.train`` can be given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from drumline.compat.v1.estimators import premade
from drumline.compat.v1.losses import WeightedReduction
from drumline.compat.v1.optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    FormerOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    RMSPropOptimizer,
)
from drumline.estimator.graph import GraphOp, running
from drumline.estimator.premade.heads.base import minimize
from drumline.estimator.premade.model import PremadeEstimator, Updates
from drumline.estimator.premade.optimizers import maker_of

SUM = WeightedReduction.SUM
_RATE = 0.05
_NAMES: dict[str, Callable[..., FormerOptimizer]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}


class FormerEstimator(PremadeEstimator):
    """A premade Estimator that takes the optimizers of ``tf.compat.v1.train``, too."""

    def _maker(self, optimizer: Any) -> Callable[[float | None], Any]:
        if isinstance(optimizer, str) and optimizer in _NAMES:
            kind = _NAMES[optimizer]
            return lambda rate: kind(_RATE if rate is None else rate)
        if isinstance(optimizer, FormerOptimizer):
            return lambda rate: optimizer.fresh()
        if callable(optimizer) and not isinstance(optimizer, keras.optimizers.Optimizer):
            return lambda rate: _checked(optimizer())
        return maker_of(optimizer)

    def _update(self, loss: Any, updates: Updates) -> GraphOp:
        call = running()
        assert call is not None
        of_keras = [each for each in updates if not isinstance(each[0], FormerOptimizer)]
        op = minimize(loss, of_keras, self._head.loss_reduction)
        call.sums_loss = self._head.loss_reduction == "sum"
        for optimizer, variables in updates:
            if isinstance(optimizer, FormerOptimizer):
                optimizer.minimize(loss, var_list=variables)
        return op


def _checked(made: Any) -> Any:
    if not isinstance(made, (FormerOptimizer, keras.optimizers.Optimizer)):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made!r}")
    return made


def _refuse(partitioner: Any) -> None:
    if partitioner is not None:
        raise NotImplementedError(
            "Premade Estimators do not divide variables; leave the partitioner out, or give it to "
            "a ParameterServerStrategy."
        )


class FormerLinearClassifier(premade.LinearClassifier, FormerEstimator):
    """`LinearClassifier` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        _refuse(partitioner)
        premade.LinearClassifier.__init__(
            self,
            feature_columns,
            model_dir,
            n_classes,
            weight_column,
            label_vocabulary,
            optimizer,
            config,
            warm_start_from,
            loss_reduction,
            sparse_combiner,
        )


class FormerLinearRegressor(premade.LinearRegressor, FormerEstimator):
    """`LinearRegressor` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        _refuse(partitioner)
        premade.LinearRegressor.__init__(
            self,
            feature_columns,
            model_dir,
            label_dimension,
            weight_column,
            optimizer,
            config,
            warm_start_from,
            loss_reduction,
            sparse_combiner,
        )


class FormerLinearEstimator(premade.LinearEstimator, FormerEstimator):
    """`LinearEstimator` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        head: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        _refuse(partitioner)
        premade.LinearEstimator.__init__(
            self,
            head,
            feature_columns,
            model_dir,
            optimizer,
            config,
            sparse_combiner,
            warm_start_from,
        )


class FormerDNNClassifier(premade.DNNClassifier, FormerEstimator):
    """`DNNClassifier` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
    ) -> None:
        _refuse(input_layer_partitioner)
        premade.DNNClassifier.__init__(
            self,
            hidden_units,
            feature_columns,
            model_dir,
            n_classes,
            weight_column,
            label_vocabulary,
            optimizer,
            activation_fn,
            dropout,
            config,
            warm_start_from,
            loss_reduction,
            batch_norm,
        )


class FormerDNNRegressor(premade.DNNRegressor, FormerEstimator):
    """`DNNRegressor` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
    ) -> None:
        _refuse(input_layer_partitioner)
        premade.DNNRegressor.__init__(
            self,
            hidden_units,
            feature_columns,
            model_dir,
            label_dimension,
            weight_column,
            optimizer,
            activation_fn,
            dropout,
            config,
            warm_start_from,
            loss_reduction,
            batch_norm,
        )


class FormerDNNEstimator(premade.DNNEstimator, FormerEstimator):
    """`DNNEstimator` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        head: Any,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ) -> None:
        _refuse(input_layer_partitioner)
        premade.DNNEstimator.__init__(
            self,
            head,
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            config,
            warm_start_from,
            batch_norm,
        )


class FormerDNNLinearCombinedClassifier(premade.DNNLinearCombinedClassifier, FormerEstimator):
    """`DNNLinearCombinedClassifier` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        _refuse(input_layer_partitioner)
        premade.DNNLinearCombinedClassifier.__init__(
            self,
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            n_classes,
            weight_column,
            label_vocabulary,
            config,
            warm_start_from,
            loss_reduction,
            batch_norm,
            linear_sparse_combiner,
        )


class FormerDNNLinearCombinedRegressor(premade.DNNLinearCombinedRegressor, FormerEstimator):
    """`DNNLinearCombinedRegressor` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        _refuse(input_layer_partitioner)
        premade.DNNLinearCombinedRegressor.__init__(
            self,
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            label_dimension,
            weight_column,
            config,
            warm_start_from,
            loss_reduction,
            batch_norm,
            linear_sparse_combiner,
        )


class FormerDNNLinearCombinedEstimator(premade.DNNLinearCombinedEstimator, FormerEstimator):
    """`DNNLinearCombinedEstimator` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        head: Any,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        _refuse(input_layer_partitioner)
        premade.DNNLinearCombinedEstimator.__init__(
            self,
            head,
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
        )


class FormerBaselineClassifier(premade.BaselineClassifier, FormerEstimator):
    """`BaselineClassifier` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = SUM,
    ) -> None:
        premade.BaselineClassifier.__init__(
            self,
            model_dir,
            n_classes,
            weight_column,
            label_vocabulary,
            optimizer,
            config,
            loss_reduction,
        )


class FormerBaselineRegressor(premade.BaselineRegressor, FormerEstimator):
    """`BaselineRegressor` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = SUM,
    ) -> None:
        premade.BaselineRegressor.__init__(
            self,
            model_dir,
            label_dimension,
            weight_column,
            optimizer,
            config,
            loss_reduction,
        )


class FormerBaselineEstimator(premade.BaselineEstimator, FormerEstimator):
    """`BaselineEstimator` of ``tf.estimator``, with TensorFlow 1's defaults."""

    def __init__(
        self,
        head: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
    ) -> None:
        premade.BaselineEstimator.__init__(
            self,
            head,
            model_dir,
            optimizer,
            config,
        )


for _kind in (
    FormerLinearClassifier,
    FormerLinearRegressor,
    FormerLinearEstimator,
    FormerDNNClassifier,
    FormerDNNRegressor,
    FormerDNNEstimator,
    FormerDNNLinearCombinedClassifier,
    FormerDNNLinearCombinedRegressor,
    FormerDNNLinearCombinedEstimator,
    FormerBaselineClassifier,
    FormerBaselineRegressor,
    FormerBaselineEstimator,
):
    _kind.__name__ = _kind.__qualname__ = _kind.__name__.removeprefix("Former")
