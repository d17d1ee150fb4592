"""Premade Estimators of ``tf.estimator``: those of `drumline.estimator`, of tensors and columns."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np

from drumline import strings
from drumline.compat.composite.sparse import SparseTensor
from drumline.compat.data.features.columns import (
    EmbeddingColumn,
    SharedEmbeddingColumn,
    normalized,
)
from drumline.compat.data.features.tables import KeyValueTensorInitializer, StaticHashTable
from drumline.compat.keras.feature_layers import (
    DenseFeatures,
    FeatureLayer,
    LinearOfColumns,
    unwrap_features,
)
from drumline.compat.v1.estimators.estimator import TensorEstimator
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import from_core, register, unwrap, wrap
from drumline.compat.values.tensor import Tensor
from drumline.estimator import premade
from drumline.estimator.premade import heads
from drumline.estimator.premade import model as premade_model
from drumline.estimator.premade.columns import InputColumns, Inputs, is_text, scopes
from drumline.estimator.premade.keras_model import KerasModelEstimator
from drumline.estimator.values import ClassNames

DENSE_LAYER, LINEAR_LAYER = "input_layer", "linear_model"


class _NamedVariables(FeatureLayer):
    """A layer of columns whose variables have the names that Estimators' have in TensorFlow."""

    def _variable(self, column: Any, name: str, shape: tuple[int, ...], given: Any) -> Any:
        with scopes(self.name, column.name):
            trainable = getattr(column, "trainable", True)
            return keras.Variable(given, shape=shape, trainable=trainable, name=name)

    def _make_variable(self, column: Any) -> None:
        if isinstance(column, SharedEmbeddingColumn):
            # The column's own variable would be that of all Estimators.
            common = column.shared_embedding_column_creator
            for other in self._feature_columns:
                if getattr(other, "shared_embedding_column_creator", None) is common:
                    if other.name in self._tables:
                        self._tables[column.name] = self._tables[other.name]
                        return
            with scopes(self.name):
                self._tables[column.name] = keras.Variable(
                    _of_tensors(common._initializer),
                    shape=common.shape,
                    trainable=common._trainable,
                    name=common.name.replace("/", "_"),
                )
        elif isinstance(column, EmbeddingColumn):
            self._tables[column.name] = self._variable(
                column, "embedding_weights", column.table_shape, _of_tensors(column.initializer)
            )


class _DenseColumns(_NamedVariables, DenseFeatures):
    """The input of a DNN."""


class _LinearColumns(_NamedVariables, LinearOfColumns):
    """A linear model."""

    def _make_variable(self, column: Any) -> None:
        _NamedVariables._make_variable(self, column)
        shape = (self._weights_size(column), self._units)
        with scopes(self.name, column.name):
            weights = keras.Variable("zeros", shape=shape, name="weights")
        self._tables[f"{column.name}/weights"] = weights


def _of_tensors(initializer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda shape, dtype=None: unwrap(initializer(shape, dtype))


class TensorColumns(InputColumns):
    """Columns of ``tf.feature_column``."""

    def check(self, columns: Any) -> tuple[Any, ...]:
        return tuple(normalized(columns))

    def prepare(self, features: Any, dense: Sequence[Any], linear: Sequence[Any]) -> dict[str, Any]:
        given = unwrap_features(features)
        made = {
            name: each
            for name, each in given.items()
            if isinstance(wrap(each), Tensor) and not is_text(each)
        }
        made |= _DenseColumns.prepare_columns(DENSE_LAYER, dense, given)
        made |= _LinearColumns.prepare_columns(LINEAR_LAYER, linear, given)
        return made or super().prepare(given, (), ())

    def rows(self, text: Any) -> Any:
        if isinstance(text, SparseTensor):
            return np.zeros(int(text.sizes[0]), np.int32)
        return strings.length(unwrap(text))

    def lookup(self, vocabulary: Sequence[str], labels: Any) -> Any:
        count = np.arange(len(vocabulary))
        pairs = KeyValueTensorInitializer(list(vocabulary), count, dtypes.string, dtypes.int64)
        return unwrap(StaticHashTable(pairs, np.int64(-1)).lookup(Tensor(labels)))

    def arrays(self, nested: Any) -> Any:
        return unwrap(nested)

    def values(self, nested: Any) -> Any:
        return wrap(nested)

    def dense(self, columns: Sequence[Any], features: Mapping[str, Any]) -> Inputs:
        layer = _DenseColumns(columns, name=DENSE_LAYER)
        return Inputs(unwrap(layer(features)), layer.trainable_variables)

    def linear(
        self, columns: Sequence[Any], features: Mapping[str, Any], units: int, combiner: str
    ) -> Inputs:
        layer = _LinearColumns(columns, units, combiner, name=LINEAR_LAYER)
        return Inputs(unwrap(layer(features)), layer.trainable_variables)


def _class_strings(names: ClassNames) -> Any:
    """The strings of a vocabulary as a tensor; in a compiled step as they are."""
    return names if isinstance(names.ids, jax.core.Tracer) else Tensor(names.numpy())


register(ClassNames, _class_strings, None, None)


class HeadOfTensors(heads.Head):
    """A head whose methods take and give tensors, before one of arrays in a class's bases."""

    _loss_fn: Any = None
    _inverse_link_fn: Any = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for name in ("_loss_fn", "_inverse_link_fn"):
            function = getattr(self, name)
            if function is not None:
                setattr(self, name, from_core(function))

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        given = unwrap((labels, logits, features))
        labels, logits, features = given
        extra = unwrap(regularization_losses)
        return wrap(super().loss(labels, logits, features, mode, extra))

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        made: dict[Any, Any] = wrap(super().predictions(unwrap(logits), keys))
        return made

    def update_metrics(
        self,
        eval_metrics: dict[str, keras.Metric],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, keras.Metric]:
        features, logits, labels = unwrap((features, logits, labels))
        extra = unwrap(regularization_losses)
        return super().update_metrics(eval_metrics, features, logits, labels, mode, extra)


def _head(core: type[Any]) -> type[Any]:
    """A head of tensors, which is made as that of arrays."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        HeadOfTensors.__init__(self, *args, **kwargs)

    about = {
        "__doc__": core.__doc__,
        "__module__": __name__,
        "__init__": functools.wraps(core.__init__)(__init__),
    }
    return type(core.__name__, (HeadOfTensors, core), about)


BinaryClassHead = _head(heads.BinaryClassHead)
MultiClassHead = _head(heads.MultiClassHead)
MultiLabelHead = _head(heads.MultiLabelHead)
RegressionHead = _head(heads.RegressionHead)
PoissonRegressionHead = _head(heads.PoissonRegressionHead)
LogisticRegressionHead = _head(heads.LogisticRegressionHead)
MultiHead = heads.MultiHead

_HEADS = types.SimpleNamespace(
    BinaryClassHead=BinaryClassHead, MultiClassHead=MultiClassHead, RegressionHead=RegressionHead
)


class _OfColumns(premade_model.PremadeEstimator):
    """What exports ask premade Estimators for."""

    def host_columns(self) -> list[Any]:
        """The columns that are prepared before a saved model's program."""
        from drumline.compat.v1.estimators import export

        return export.columns_of(self._dense, self._linear)

    def features_of_program(self) -> set[str] | None:
        """The features that a saved model's program takes; None for all numbers."""
        from drumline.compat.v1.estimators import export

        return export.features_of_program(self._dense, self._linear)


def _estimator(core: type[Any]) -> type[Any]:
    """A premade Estimator of tensors."""
    about = {
        "__doc__": core.__doc__,
        "__module__": __name__,
        "columns": TensorColumns(),
        "heads": _HEADS,
    }
    return type(core.__name__, (core, _OfColumns, TensorEstimator), about)


LinearClassifier = _estimator(premade.LinearClassifier)
LinearRegressor = _estimator(premade.LinearRegressor)
LinearEstimator = _estimator(premade.LinearEstimator)
DNNClassifier = _estimator(premade.DNNClassifier)
DNNRegressor = _estimator(premade.DNNRegressor)
DNNEstimator = _estimator(premade.DNNEstimator)
DNNLinearCombinedClassifier = _estimator(premade.DNNLinearCombinedClassifier)
DNNLinearCombinedRegressor = _estimator(premade.DNNLinearCombinedRegressor)
DNNLinearCombinedEstimator = _estimator(premade.DNNLinearCombinedEstimator)
BaselineClassifier = _estimator(premade.BaselineClassifier)
BaselineRegressor = _estimator(premade.BaselineRegressor)
BaselineEstimator = _estimator(premade.BaselineEstimator)


class TensorModelEstimator(KerasModelEstimator, TensorEstimator):
    """An Estimator of a Keras model, of tensors."""


@functools.wraps(premade.model_to_estimator)
def model_to_estimator(*args: Any, **kwargs: Any) -> TensorModelEstimator:
    kwargs["kind"] = TensorModelEstimator
    made = premade.model_to_estimator(*args, **kwargs)
    assert isinstance(made, TensorModelEstimator)
    return made
