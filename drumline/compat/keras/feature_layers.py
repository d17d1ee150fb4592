"""`DenseFeatures`, `SequenceFeatures` and linear models of feature columns.

What columns do with strings, tables and hashes runs before the compiled step: models are given its
results beside the other features, under names that begin with `PREFIX`
(`drumline.keras.layers.host_models`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.compat.composite.sparse import SparseTensor
from drumline.compat.data.features.columns import (
    BucketizedColumn,
    CategoricalColumn,
    DenseColumn,
    EmbeddingColumn,
    IndicatorColumn,
    ModelColumn,
    SequenceCategoricalColumn,
    SequenceNumericColumn,
    SharedEmbeddingColumn,
    normalized,
    weighted_rows,
)
from drumline.compat.data.features.inputs import Categories, categories, raw_feature
from drumline.compat.keras import boundaries
from drumline.compat.v1.variables import default_name, shared
from drumline.compat.values.boundary import from_core, map_structure, unwrap, wrap
from drumline.compat.values.tensor import Tensor
from drumline.estimator.premade.columns import PREFIX

boundaries.install()


class FeatureLayer(keras.Layer):
    """A layer of feature columns.

    Args:
        feature_columns: the columns, in any order.
        trainable: whether its variables are trained.
        name: of the layer.
        options: others of `keras.Layer`.
    """

    def __init__(
        self, feature_columns: Any, trainable: bool = True, name: str | None = None, **options: Any
    ):
        super().__init__(name=name, trainable=trainable, autocast=False, **options)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self._feature_columns = tuple(normalized(feature_columns))
        self._tables: dict[str, Any] = {}
        for column in self._feature_columns:
            self._check(column)
            self._make_variable(column)
        self.built = True

    def _check(self, column: ModelColumn) -> None:
        """Refuse a column that is none of this layer.

        Raises:
            ValueError: it is one.
        """
        raise NotImplementedError

    def _make_variable(self, column: Any) -> None:
        if isinstance(column, EmbeddingColumn):
            self._tables[column.name] = self.add_weight(
                shape=column.table_shape,
                initializer=lambda shape, dtype=None: unwrap(column.initializer(shape, dtype)),
                trainable=column.trainable and self.trainable,
                name=f"{column.name}_weights",
            )
        elif isinstance(column, SharedEmbeddingColumn):
            variable = column.shared_embedding_column_creator.embedding_weights
            self._tables[column.name] = variable

    @property
    def keys(self) -> set[str]:
        """The names of the features that its columns read."""
        return {key for each in self._feature_columns for key in each.parse_example_spec}

    def _weights_of(self, column: ModelColumn) -> Any:
        variable = self._tables.get(column.name)
        return None if variable is None else variable.value

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """What the compiled step is given of features."""
        return self.prepare_columns(self.name, self._feature_columns, unwrap_features(features))

    @classmethod
    def prepare_columns(
        cls, name: str, columns: Iterable[ModelColumn], features: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a layer of this class, name and columns is given in a step, of unwrapped features.

        No layer needs to be there.
        """
        return {
            f"{PREFIX}{name}/{column.name}/{part}": value
            for column in columns
            for part, value in cls._prepared(column, features).items()
        }

    @classmethod
    def _prepared(cls, column: ModelColumn, features: Mapping[str, Any]) -> dict[str, Any]:
        return column.prepare(features)

    def _parts(self, inputs: Mapping[str, Any], column: ModelColumn) -> dict[str, Any]:
        """What was prepared for a column."""
        start = f"{PREFIX}{self.name}/{column.name}/"
        found = {
            name.removeprefix(start): jnp.asarray(value)
            for name, value in inputs.items()
            if name.startswith(start)
        }
        if found:
            return found
        features = unwrap_features(inputs)
        made = self._prepared(column, features)
        return {name: jnp.asarray(value) for name, value in made.items()}

    def __call__(self, features: Any, *args: Any, **kwargs: Any) -> Any:
        """The layer's output, of a dictionary of features."""
        if not isinstance(features, Mapping):
            raise ValueError(
                f"We expected a dictionary here. Instead we got: {type(features).__name__}"
            )
        leaves: list[Any] = []
        map_structure(leaves.append, dict(features))
        if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
            return super().__call__(dict(features), *args, **kwargs)
        is_wrapped = any(isinstance(leaf, (Tensor, SparseTensor)) for leaf in leaves)
        inputs = dict(features)
        if not any(str(name).startswith(PREFIX) for name in inputs):
            inputs = self.prepare(inputs)
        of_tracers = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        made = super().__call__(inputs, *args, **kwargs)
        return made if of_tracers and not is_wrapped else wrap(made)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError(
            f"{type(self).__name__}.get_config: feature columns hold functions and tables, which "
            "no configuration has; save the model's weights (save_weights), or export it."
        )


def unwrap_features(features: Mapping[str, Any]) -> dict[str, Any]:
    """Features as arrays, symbols and sparse tensors."""
    return {
        str(name): value if isinstance(value, SparseTensor) else unwrap(value)
        for name, value in features.items()
    }


class DenseFeatures(FeatureLayer):
    """Columns side by side in one array, as ``tf.keras.layers.DenseFeatures``.

    Args:
        feature_columns: dense columns; they stand in the order of their names.
        trainable: whether embeddings are trained.
        name: of the layer.
        options: others of `keras.Layer`.

    Raises:
        ValueError: a column is no dense one.

    Example:
        ``tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("age")])``
    """

    def __init__(
        self,
        feature_columns: Any,
        trainable: bool = True,
        name: str | None = None,
        partitioner: Any = None,
        **options: Any,
    ):
        super().__init__(feature_columns, trainable, name, **options)

    def _check(self, column: ModelColumn) -> None:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a DenseColumn. You can wrap a categorical column "
                f"with an embedding_column or indicator_column. Given: {column}"
            )
        inner = getattr(column, "categorical_column", None)
        if isinstance(inner, SequenceCategoricalColumn):
            raise ValueError(
                f"In {column.name}: categorical_column must not be of type "
                "SequenceCategoricalColumn. Suggested fix A: If you wish to use DenseFeatures, use "
                "a non-sequence categorical_column_with_*. Suggested fix B: If you wish to create "
                f"sequence input, use SequenceFeatures instead of DenseFeatures. Given: {inner}"
            )

    def _size(self, column: Any) -> int:
        return int(np.prod(column.variable_shape.as_list()))

    def call(self, features: Any, cols_to_output_tensors: Any = None) -> Any:
        """The columns (batch, total), of features or of what was prepared."""
        made = []
        for column in self._feature_columns:
            assert isinstance(column, DenseColumn)
            array = column.combine(self._parts(features, column), self._weights_of(column))
            flat = array.reshape(array.shape[0], self._size(column))
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = flat
            made.append(flat)
        return jnp.concatenate(made, -1)

    def compute_output_spec(self, features: Any, *_: Any, **__: Any) -> Any:
        first = next(iter(features.values()))
        total = sum(map(self._size, self._feature_columns))
        return keras.KerasTensor((first.shape[0], total), "float32")

    def compute_output_shape(self, input_shape: Any) -> Any:
        """(batch, total), for the shapes of features."""
        first = next(iter(input_shape.values()))
        return (first[0], sum(map(self._size, self._feature_columns)))


class SequenceFeatures(FeatureLayer):
    """Sequences of columns side by side, as ``tf.keras.experimental.SequenceFeatures``.

    Its output is a pair: the array (batch, n, total), and the length of each sequence, (batch,).

    Args:
        feature_columns: of ``sequence_numeric_column``, and embeddings and indicators of other
            sequences.
        trainable: whether embeddings are trained.
        name: of the layer.
        options: others of `keras.Layer`.

    Raises:
        ValueError: a column is none of a sequence.
    """

    def _check(self, column: ModelColumn) -> None:
        inner = getattr(column, "categorical_column", None)
        if not isinstance(column, SequenceNumericColumn) and not isinstance(
            inner, SequenceCategoricalColumn
        ):
            raise ValueError(
                f"In {column.name}: categorical_column must be of type SequenceCategoricalColumn "
                "to use SequenceFeatures. Suggested fix: Use one of "
                f"sequence_categorical_column_with_*. Given: {inner or column}"
            )

    @classmethod
    def _prepared(cls, column: ModelColumn, features: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(column, SequenceNumericColumn):
            return cls._numbers(column, features)
        assert isinstance(column, (EmbeddingColumn, IndicatorColumn, SharedEmbeddingColumn))
        inner = column.categorical_column
        assert isinstance(inner, SequenceCategoricalColumn)
        key = getattr(inner.categorical_column, "key", None)
        there = None if key is None else categories(raw_feature(features, key)).there
        return {**column.prepare(features), "length": _lengths(Categories(0, there))}

    @staticmethod
    def _numbers(column: SequenceNumericColumn, features: Any) -> dict[str, Any]:
        given = raw_feature(features, column.key)
        if not isinstance(given, SparseTensor):
            given = categories(given, None) if column.default_value else Categories(given)
        else:
            given = categories(given)
        values = given.values
        if column.normalizer_fn is not None:
            values = unwrap(from_core(column.normalizer_fn)(values))
        if given.there is not None:
            values = np.where(given.there, values, column.default_value)
        size = int(np.prod(column.shape))
        lengths = -(-_lengths(given, values) // size)
        width = -(-values.shape[1] // size) * size
        values = np.pad(
            np.asarray(values, np.float32),
            ((0, 0), (0, width - values.shape[1])),
            constant_values=column.default_value,
        )
        return {"values": values.reshape(len(values), -1, *column.shape), "length": lengths}

    def call(self, features: Any) -> Any:
        """The columns and the lengths."""
        made, lengths = [], None
        for column in self._feature_columns:
            parts = self._parts(features, column)
            lengths = parts.pop("length")
            if isinstance(column, SequenceNumericColumn):
                array = parts["values"]
            else:
                array = column.sequence(parts, self._weights_of(column))  # type: ignore[attr-defined]
            made.append(array.reshape(*array.shape[:2], -1))
        steps = max(each.shape[1] for each in made)
        padded = [jnp.pad(x, ((0, 0), (0, steps - x.shape[1]), (0, 0))) for x in made]
        return jnp.concatenate(padded, -1), lengths


def _lengths(given: Categories, values: Any = None) -> np.ndarray:
    """How many places of each row there are, up to the last value."""
    if given.there is None:
        return np.full(len(values), values.shape[1], np.int64)
    places = np.where(np.asarray(given.there), np.arange(given.there.shape[1]) + 1, 0)
    found: np.ndarray = places.max(1, initial=0)
    return found


class LinearOfColumns(FeatureLayer):
    """A sum of weighted columns and a bias, for ``tf.compat.v1.feature_column.linear_model``.

    Args:
        feature_columns: dense and categorical columns.
        units: how many sums there are.
        sparse_combiner: of several categories of a row.
        trainable: whether its variables are trained.
        name: of the layer.
    """

    def __init__(
        self,
        feature_columns: Any,
        units: int = 1,
        sparse_combiner: str = "sum",
        trainable: bool = True,
        name: str | None = None,
    ):
        self._units, self._combiner = units, sparse_combiner
        super().__init__(feature_columns, trainable, name)
        self.bias = self.add_weight(shape=(units,), initializer="zeros", name="bias_weights")

    def _check(self, column: ModelColumn) -> None:
        if not isinstance(column, (DenseColumn, CategoricalColumn)):
            raise ValueError(
                "Items of feature_columns must be either a DenseColumn or CategoricalColumn. "
                f"Given: {column}"
            )

    def _make_variable(self, column: Any) -> None:
        super()._make_variable(column)
        self._tables[f"{column.name}/weights"] = self.add_weight(
            shape=(self._weights_size(column), self._units),
            initializer="zeros",
            name=f"{column.name}_linear_weights",
        )

    @staticmethod
    def _weights_size(column: Any) -> int:
        """How many weights a column has for each sum."""
        if isinstance(column, CategoricalColumn):
            return int(column.num_buckets)
        return int(np.prod(column.variable_shape.as_list()))

    @classmethod
    def _prepared(cls, column: ModelColumn, features: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(column, BucketizedColumn):
            return CategoricalColumn.prepare(column, features)
        return column.prepare(features)

    def call(self, features: Any) -> Any:
        """The sums (batch, units)."""
        total = self.bias.value
        for column in self._feature_columns:
            parts, table = self._parts(features, column), self._tables[f"{column.name}/weights"]
            if isinstance(column, CategoricalColumn):
                total = total + weighted_rows(table.value, parts, self._combiner)
                continue
            assert isinstance(column, DenseColumn)
            array = column.combine(parts, self._weights_of(column))
            total = total + array.reshape(array.shape[0], -1) @ table.value
        return total

    def variables_by_column(self) -> dict[Any, list[Any]]:
        """The variables of each column, and of ``"bias"``."""
        found: dict[Any, list[Any]] = {"bias": [self.bias]}
        for column in self._feature_columns:
            names = (f"{column.name}/weights", column.name)
            found[column] = [self._tables[name] for name in names if name in self._tables]
        return found


def input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: Any = None,
    cols_to_output_tensors: Any = None,
) -> Any:
    """Columns side by side, as ``tf.compat.v1.feature_column.input_layer``.

    Its variables are new at each call, but in a template of ``tf.compat.v1.make_template`` and in a
    scope that reuses.

    Args:
        features: a dictionary.
        feature_columns: dense columns.
        weight_collections: must be empty: there are no collections.
        trainable: whether embeddings are trained.
        cols_to_vars: a dictionary that gets the variables of each column.
        cols_to_output_tensors: a dictionary that gets the output of each column.
    """
    _refuse_collections(weight_collections)
    name = default_name("input_layer")
    layer = shared(
        "layer", name, lambda: DenseFeatures(feature_columns, trainable, name.replace("/", "_"))
    )
    if cols_to_vars is not None:
        for column in layer._feature_columns:
            variable = layer._tables.get(column.name)
            cols_to_vars[column] = [] if variable is None else [variable]
    found: dict[Any, Any] = {}
    made = layer(features, cols_to_output_tensors=found)
    if cols_to_output_tensors is not None:
        cols_to_output_tensors.update({column: wrap(each) for column, each in found.items()})
    return made


def linear_model(
    features: Any,
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: Any = None,
) -> Any:
    """Sums of weighted columns, as ``tf.compat.v1.feature_column.linear_model``.

    Its variables begin with 0; they are new at each call, as those of `input_layer`.

    Args:
        features: a dictionary.
        feature_columns: dense and categorical columns.
        units: how many sums there are.
        sparse_combiner: of several categories of a row: ``"sum"``, ``"mean"`` or ``"sqrtn"``.
        weight_collections: must be empty: there are no collections.
        trainable: whether the variables are trained.
        cols_to_vars: a dictionary that gets the variables of each column, and of ``"bias"``.
    """
    _refuse_collections(weight_collections)
    name = default_name("linear_model")
    layer = shared(
        "layer",
        name,
        lambda: LinearOfColumns(
            feature_columns, units, sparse_combiner, trainable, name.replace("/", "_")
        ),
    )
    if cols_to_vars is not None:
        cols_to_vars.update(layer.variables_by_column())
    return layer(features)


def _refuse_collections(given: Any) -> None:
    if given:
        raise NotImplementedError(
            "weight_collections: there are no collections; take the variables by cols_to_vars="
        )
