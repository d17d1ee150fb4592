"""Premade Estimators: linear models, DNNs, both together, and baselines.

Those of ``tf.estimator`` 2.15, with its learning rates, names of variables and defaults.
"""

from __future__ import annotations

from typing import Any

from drumline.estimator.premade.heads.base import MEAN, Head
from drumline.estimator.premade.heads.classification import binary_or_multi_class
from drumline.estimator.premade.model import PremadeEstimator, Updates, linear_rate

_LINEAR_RATE, _BASELINE_RATE = 0.2, 0.3
_COMBINED_DNN_RATE, _COMBINED_LINEAR_RATE = 0.001, 0.005


class _LinearModel(PremadeEstimator):
    """A linear model."""

    def _set(self, optimizer: Any, combiner: str) -> None:
        if combiner not in ("sum", "mean", "sqrtn"):
            raise ValueError(f"sparse_combiner must be 'sum', 'mean' or 'sqrtn', not {combiner!r}")
        # Without an optimizer the rate depends on the number of columns; with one that is named
        # it does not: so it is in TensorFlow.
        self._rate = _LINEAR_RATE if optimizer else linear_rate(self._linear, _LINEAR_RATE)
        self._optimizer, self._combiner = self._maker(optimizer or "Ftrl"), combiner

    def _logits(self, features: Any, training: bool) -> tuple[Any, Updates]:
        logits, variables = self._linear_model(features, self._combiner)
        if not training:
            return logits, []
        return logits, [(self._optimizer(self._rate), variables)]


class _DNNModel(PremadeEstimator):
    """A DNN."""

    named_rate: float | None = None

    def _set(
        self,
        hidden_units: Any,
        optimizer: Any,
        activation_fn: Any,
        dropout: float | None,
        batch_norm: bool,
    ) -> None:
        self._model = (list(hidden_units), activation_fn or "relu", dropout, batch_norm)
        self._optimizer = self._maker(optimizer)

    def _logits(self, features: Any, training: bool) -> tuple[Any, Updates]:
        logits, variables = self._dnn(features, training, *self._model)
        if not training:
            return logits, []
        return logits, [(self._optimizer(self.named_rate), variables)]


class _CombinedModel(PremadeEstimator):
    """A DNN and a linear model whose logits are added."""

    def _set(
        self,
        linear_optimizer: Any,
        dnn_optimizer: Any,
        dnn_hidden_units: Any,
        dnn_activation_fn: Any,
        dnn_dropout: float | None,
        batch_norm: bool,
        combiner: str,
    ) -> None:
        if not self._dense and not self._linear:
            raise ValueError(
                "Either linear_feature_columns or dnn_feature_columns must be defined."
            )
        if self._dense and not dnn_hidden_units:
            raise ValueError(
                "dnn_hidden_units must be defined when dnn_feature_columns is specified."
            )
        self._linear_optimizer = self._maker(linear_optimizer)
        self._dnn_optimizer = self._maker(dnn_optimizer)
        self._model = (
            list(dnn_hidden_units or ()),
            dnn_activation_fn or "relu",
            dnn_dropout,
            batch_norm,
        )
        self._combiner = combiner

    def _logits(self, features: Any, training: bool) -> tuple[Any, Updates]:
        logits, updates = None, []
        if self._dense:
            logits, variables = self._dnn(features, training, *self._model)
            if training:
                updates.append((self._dnn_optimizer(_COMBINED_DNN_RATE), variables))
        if self._linear:
            found, variables = self._linear_model(features, self._combiner)
            logits = found if logits is None else logits + found
            if training:
                rate = linear_rate(self._linear, _COMBINED_LINEAR_RATE)
                updates.append((self._linear_optimizer(rate), variables))
        return logits, updates


class _BaselineModel(PremadeEstimator):
    """A model that predicts the same for all rows: what others are to surpass."""

    def _set(self, optimizer: Any, weight_column: Any = None) -> None:
        self._optimizer, self._weight_column = self._maker(optimizer), weight_column

    def _logits(self, features: Any, training: bool) -> tuple[Any, Updates]:
        logits, variables = self._baseline(features, self._weight_column)
        if not training:
            return logits, []
        return logits, [(self._optimizer(_BASELINE_RATE), variables)]


class LinearClassifier(_LinearModel):
    """A linear model of classes, as ``tf.estimator.LinearClassifier``.

    Args:
        feature_columns: the columns of ``tf.feature_column``; of ``dl.estimator`` names of features
            that are numbers, and `CategoryColumn`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        n_classes: how many classes there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        label_vocabulary: the labels, if they are strings.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        sparse_combiner: of several categories of a row: ``"sum"``, ``"mean"`` or ``"sqrtn"``.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> dl.estimator.LinearClassifier(feature_columns=["age"]).config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = MEAN,
        sparse_combiner: str = "sum",
    ):
        head = binary_or_multi_class(
            self.heads,
            n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
        )
        super().__init__(head, model_dir, config, warm_start_from, linear=feature_columns)
        self._set(optimizer, sparse_combiner)


class LinearRegressor(_LinearModel):
    """A linear model of numbers, as ``tf.estimator.LinearRegressor``.

    Args:
        feature_columns: the columns of ``tf.feature_column``; of ``dl.estimator`` names of features
            that are numbers, and `CategoryColumn`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        label_dimension: how many numbers a row's label has.
        weight_column: the feature of the rows' weights, or its numeric column.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        sparse_combiner: of several categories of a row: ``"sum"``, ``"mean"`` or ``"sqrtn"``.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> dl.estimator.LinearRegressor(feature_columns=["age"]).config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = MEAN,
        sparse_combiner: str = "sum",
    ):
        head = self.heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, config, warm_start_from, linear=feature_columns)
        self._set(optimizer, sparse_combiner)


class LinearEstimator(_LinearModel):
    """A linear model with a head of your choice, as ``tf.estimator.LinearEstimator``.

    Args:
        head: what the logits mean, such as `RegressionHead`.
        feature_columns: the columns of ``tf.feature_column``; of ``dl.estimator`` names of features
            that are numbers, and `CategoryColumn`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        config: a `RunConfig`.
        sparse_combiner: of several categories of a row: ``"sum"``, ``"mean"`` or ``"sqrtn"``.
        warm_start_from: see `Estimator`.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.RegressionHead()
        >>> dl.estimator.LinearEstimator(head, feature_columns=["age"]).config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        head: Head,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ):
        super().__init__(head, model_dir, config, warm_start_from, linear=feature_columns)
        self._set(optimizer, sparse_combiner)


class DNNClassifier(_DNNModel):
    """A DNN of classes, as ``tf.estimator.DNNClassifier``.

    Args:
        hidden_units: of each hidden layer.
        feature_columns: the columns of ``tf.feature_column``; of ``dl.estimator`` names of features
            that are numbers, and `CategoryColumn`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        n_classes: how many classes there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        label_vocabulary: the labels, if they are strings.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        activation_fn: of the hidden layers: a function, or a name of Keras's.
        dropout: the share of each hidden layer's outputs that are 0 in training; None for none.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: whether a batch normalization follows each hidden layer.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> dl.estimator.DNNClassifier([16, 8], ["age"]).config.keep_checkpoint_max
        5
    """

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
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = MEAN,
        batch_norm: bool = False,
    ):
        head = binary_or_multi_class(
            self.heads,
            n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
        )
        super().__init__(head, model_dir, config, warm_start_from, dense=feature_columns)
        self._set(hidden_units, optimizer, activation_fn, dropout, batch_norm)


class DNNRegressor(_DNNModel):
    """A DNN of numbers, as ``tf.estimator.DNNRegressor``.

    Args:
        hidden_units: of each hidden layer.
        feature_columns: the columns of ``tf.feature_column``; of ``dl.estimator`` names of features
            that are numbers, and `CategoryColumn`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        label_dimension: how many numbers a row's label has.
        weight_column: the feature of the rows' weights, or its numeric column.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        activation_fn: of the hidden layers: a function, or a name of Keras's.
        dropout: the share of each hidden layer's outputs that are 0 in training; None for none.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: whether a batch normalization follows each hidden layer.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> dl.estimator.DNNRegressor([16, 8], ["age"]).config.keep_checkpoint_max
        5
    """

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
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = MEAN,
        batch_norm: bool = False,
    ):
        head = self.heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, config, warm_start_from, dense=feature_columns)
        self._set(hidden_units, optimizer, activation_fn, dropout, batch_norm)


class DNNEstimator(_DNNModel):
    """A DNN with a head of your choice, as ``tf.estimator.DNNEstimator``.

    Args:
        head: what the logits mean, such as `RegressionHead`.
        hidden_units: of each hidden layer.
        feature_columns: the columns of ``tf.feature_column``; of ``dl.estimator`` names of features
            that are numbers, and `CategoryColumn`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        activation_fn: of the hidden layers: a function, or a name of Keras's.
        dropout: the share of each hidden layer's outputs that are 0 in training; None for none.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        batch_norm: whether a batch normalization follows each hidden layer.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.RegressionHead()
        >>> dl.estimator.DNNEstimator(head, [16, 8], ["age"]).config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        head: Head,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = "relu",
        dropout: float | None = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ):
        super().__init__(head, model_dir, config, warm_start_from, dense=feature_columns)
        self._set(hidden_units, optimizer, activation_fn, dropout, batch_norm)


class DNNLinearCombinedClassifier(_CombinedModel):
    """A DNN and a linear model of classes, as ``tf.estimator.DNNLinearCombinedClassifier``.

    Args:
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        linear_feature_columns: columns of the linear model.
        linear_optimizer: of the linear model; see `LinearClassifier`.
        dnn_feature_columns: columns of the DNN.
        dnn_optimizer: of the DNN; see `DNNClassifier`.
        dnn_hidden_units: of each hidden layer.
        dnn_activation_fn: of the hidden layers.
        dnn_dropout: see `DNNClassifier`.
        n_classes: how many classes there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        label_vocabulary: the labels, if they are strings.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: whether a batch normalization follows each hidden layer.
        linear_sparse_combiner: see `LinearClassifier`.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> model = dl.estimator.DNNLinearCombinedClassifier(linear_feature_columns=["age"])
        >>> model.config.keep_checkpoint_max
        5
    """

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
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = MEAN,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ):
        head = binary_or_multi_class(
            self.heads,
            n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
        )
        super().__init__(
            head,
            model_dir,
            config,
            warm_start_from,
            dense=dnn_feature_columns or None,
            linear=linear_feature_columns or None,
        )
        self._set(
            linear_optimizer,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
            linear_sparse_combiner,
        )


class DNNLinearCombinedRegressor(_CombinedModel):
    """A DNN and a linear model of numbers, as ``tf.estimator.DNNLinearCombinedRegressor``.

    Args:
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        linear_feature_columns: columns of the linear model.
        linear_optimizer: of the linear model; see `LinearClassifier`.
        dnn_feature_columns: columns of the DNN.
        dnn_optimizer: of the DNN; see `DNNClassifier`.
        dnn_hidden_units: of each hidden layer.
        dnn_activation_fn: of the hidden layers.
        dnn_dropout: see `DNNClassifier`.
        label_dimension: how many numbers a row's label has.
        weight_column: the feature of the rows' weights, or its numeric column.
        config: a `RunConfig`.
        warm_start_from: see `Estimator`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        batch_norm: whether a batch normalization follows each hidden layer.
        linear_sparse_combiner: see `LinearClassifier`.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> model = dl.estimator.DNNLinearCombinedRegressor(linear_feature_columns=["age"])
        >>> model.config.keep_checkpoint_max
        5
    """

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
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = MEAN,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ):
        head = self.heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(
            head,
            model_dir,
            config,
            warm_start_from,
            dense=dnn_feature_columns or None,
            linear=linear_feature_columns or None,
        )
        self._set(
            linear_optimizer,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
            linear_sparse_combiner,
        )


class DNNLinearCombinedEstimator(_CombinedModel):
    """A DNN and a linear model with a head: ``tf.estimator.DNNLinearCombinedEstimator``.

    Args:
        head: what the logits mean, such as `RegressionHead`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        linear_feature_columns: columns of the linear model.
        linear_optimizer: of the linear model; see `LinearClassifier`.
        dnn_feature_columns: columns of the DNN.
        dnn_optimizer: of the DNN; see `DNNClassifier`.
        dnn_hidden_units: of each hidden layer.
        dnn_activation_fn: of the hidden layers.
        dnn_dropout: see `DNNClassifier`.
        config: a `RunConfig`.
        batch_norm: whether a batch normalization follows each hidden layer.
        linear_sparse_combiner: see `LinearClassifier`.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> kinds = dl.estimator
        >>> head, columns = kinds.RegressionHead(), ["age"]
        >>> model = kinds.DNNLinearCombinedEstimator(head, linear_feature_columns=columns)
        >>> model.config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = "relu",
        dnn_dropout: float | None = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ):
        super().__init__(
            head,
            model_dir,
            config,
            None,
            dense=dnn_feature_columns or None,
            linear=linear_feature_columns or None,
        )
        self._set(
            linear_optimizer,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
            linear_sparse_combiner,
        )


class BaselineClassifier(_BaselineModel):
    """The classes' frequencies, as ``tf.estimator.BaselineClassifier``.

    Args:
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        n_classes: how many classes there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        label_vocabulary: the labels, if they are strings.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        config: a `RunConfig`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> dl.estimator.BaselineClassifier().config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = MEAN,
    ):
        head = binary_or_multi_class(
            self.heads,
            n_classes,
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
        )
        super().__init__(head, model_dir, config, None)
        self._set(optimizer, weight_column)


class BaselineRegressor(_BaselineModel):
    """The labels' mean, as ``tf.estimator.BaselineRegressor``.

    Args:
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        label_dimension: how many numbers a row's label has.
        weight_column: the feature of the rows' weights, or its numeric column.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        config: a `RunConfig`.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> dl.estimator.BaselineRegressor().config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = MEAN,
    ):
        head = self.heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, config, None)
        self._set(optimizer, weight_column)


class BaselineEstimator(_BaselineModel):
    """A bias alone, with a head of your choice, as ``tf.estimator.BaselineEstimator``.

    Args:
        head: what the logits mean, such as `RegressionHead`.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        optimizer: ``"Adagrad"``, ``"Adam"``, ``"Ftrl"``, ``"RMSProp"`` or ``"SGD"``, an optimizer
            of Keras's, which is copied, or a function that makes one.
        config: a `RunConfig`.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.RegressionHead()
        >>> dl.estimator.BaselineEstimator(head).config.keep_checkpoint_max
        5
    """

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
    ):
        super().__init__(head, model_dir, config, None)
        self._set(optimizer)
