"""``tf.feature_column``: what of a dictionary of features is an input of a model.

A column has two parts. `prepare` runs before the step, in a dataset's `map` or at once: it gives
arrays of numbers. What a model computes of these (`combine`) is in the compiled step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline import io
from drumline.compat.data.features.inputs import (
    Categories,
    categories,
    crossed,
    hashed,
    raw_feature,
)
from drumline.compat.data.features.tables import (
    KeyValueTensorInitializer,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
    VocabularyTable,
)
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import from_core, unwrap
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import Symbol
from drumline.strings.fingerprints import HASH_KEY

Prepared = Mapping[str, Any]
"""What a column gives to the step: ``values``, or ``ids`` and perhaps ``weights``."""


class ModelColumn:
    """What all columns have in common."""

    @property
    def name(self) -> str:
        """Of the column."""
        raise NotImplementedError

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """What ``tf.io.parse_example`` reads for it."""
        raise NotImplementedError

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """What the step is given, of a dictionary of features."""
        raise NotImplementedError


class CategoricalColumn(ModelColumn):
    """A column of categories, which have numbers."""

    @property
    def num_buckets(self) -> int:
        """How many categories there are."""
        raise NotImplementedError

    def ids(self, features: Mapping[str, Any]) -> Categories:
        """The numbers of the categories (batch, n), -1 for none."""
        raise NotImplementedError

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        ids = self.ids(features).values
        return {"ids": ids.astype(np.int32)}


class DenseColumn(ModelColumn):
    """A column of numbers, of the same shape for each row."""

    @property
    def variable_shape(self) -> TensorShape:
        """Of each row."""
        raise NotImplementedError

    def combine(self, prepared: Prepared, weights: Any) -> Any:
        """The numbers (batch, ...), of what `prepare` gave and the variable's value."""
        raise NotImplementedError


def require_categories(kind: Any, prefix: str) -> None:
    if kind != dtypes.string and not kind.is_integer:
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {kind!r}.")


@dataclasses.dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """See `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: Any
    normalizer_fn: Any

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: io.FixedLenFeature(self.shape, self.dtype.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def values(self, features: Mapping[str, Any]) -> Any:
        """The feature, float32."""
        given = raw_feature(features, self.key)
        if not hasattr(given, "astype") and not isinstance(given, Symbol):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is "
                f"not supported. key: {self.key}"
            )
        if self.normalizer_fn is not None:
            given = from_core(self.normalizer_fn)(given)
        made = unwrap(given).astype(np.float32)
        return made

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {"values": self.values(features)}

    def combine(self, prepared: Prepared, weights: Any) -> Any:
        return prepared["values"]


@dataclasses.dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """See `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape((*self.source_column.shape, len(self.boundaries) + 1))

    @property
    def num_buckets(self) -> int:
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def _buckets(self, features: Mapping[str, Any]) -> Any:
        values = self.source_column.values(features)
        xp = jnp if isinstance(values, jax.Array) else np
        # Not searchsorted of JAX's, nor >=: NaN belongs to the last bucket, as in TensorFlow.
        return (~(values[..., None] < xp.asarray(self.boundaries, np.float32))).sum(-1)

    def ids(self, features: Mapping[str, Any]) -> Categories:
        buckets = self._buckets(features)
        places = np.arange(self.source_column.shape[0]) * (len(self.boundaries) + 1)
        return Categories(buckets + places)

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        return {"ids": self._buckets(features).astype(np.int32)}

    def combine(self, prepared: Prepared, weights: Any) -> Any:
        return jax.nn.one_hot(prepared["ids"], len(self.boundaries) + 1, dtype=np.float32)


@dataclasses.dataclass(frozen=True)
class HashedCategoricalColumn(CategoricalColumn):
    """See `categorical_column_with_hash_bucket`."""

    key: str
    hash_bucket_size: int
    dtype: Any

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: io.VarLenFeature(self.dtype.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def ids(self, features: Mapping[str, Any]) -> Categories:
        return Categories(hashed(_of_kind(self, features), self.hash_bucket_size))


def _of_kind(column: Any, features: Mapping[str, Any]) -> Categories:
    given = categories(raw_feature(features, column.key))
    kind = dtypes.of_array(np.dtype(given.values.dtype))
    require_categories(kind, f"column_name: {column.key} input_tensor")
    if column.dtype.is_integer != kind.is_integer:
        raise ValueError(
            "Column dtype and SparseTensors dtype must be compatible. "
            f"key: {column.key}, column dtype: {column.dtype!r}, tensor dtype: {kind!r}"
        )
    return given


class _VocabularyColumn(CategoricalColumn):
    """What columns with a vocabulary have in common."""

    key: str
    dtype: Any
    default_value: int
    num_oov_buckets: int

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: io.VarLenFeature(self.dtype.dtype)}

    @property
    def _pairs(self) -> Any:
        raise NotImplementedError

    @functools.cached_property
    def _table(self) -> Any:
        if self.num_oov_buckets:
            return VocabularyTable(self._pairs, self.num_oov_buckets)
        return StaticHashTable(self._pairs, np.int64(self.default_value))

    def ids(self, features: Mapping[str, Any]) -> Categories:
        given = _of_kind(self, features)
        values = given.values
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            values = values.astype(np.int64)
        return Categories(given.or_none(unwrap(self._table.lookup(Tensor(values)))))


@dataclasses.dataclass(frozen=True)
class VocabularyFileCategoricalColumn(_VocabularyColumn):
    """See `categorical_column_with_vocabulary_file`."""

    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: Any
    default_value: int
    file_format: str | None = None

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    @property
    def _pairs(self) -> Any:
        kind = dtypes.int64 if self.dtype.is_integer else dtypes.string
        return TextFileInitializer(
            self.vocabulary_file,
            kind,
            TextFileIndex.WHOLE_LINE,
            dtypes.int64,
            TextFileIndex.LINE_NUMBER,
            self.vocabulary_size,
        )


@dataclasses.dataclass(frozen=True)
class VocabularyListCategoricalColumn(_VocabularyColumn):
    """See `categorical_column_with_vocabulary_list`."""

    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: Any
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    @property
    def _pairs(self) -> Any:
        kind = dtypes.int64 if self.dtype.is_integer else dtypes.string
        keys = np.asarray(self.vocabulary_list)
        count = np.arange(len(self.vocabulary_list))
        return KeyValueTensorInitializer(keys.tolist(), count, kind, dtypes.int64)


@dataclasses.dataclass(frozen=True)
class IdentityCategoricalColumn(CategoricalColumn):
    """See `categorical_column_with_identity`."""

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: io.VarLenFeature(np.dtype(np.int64))}

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    def ids(self, features: Mapping[str, Any]) -> Categories:
        given = categories(raw_feature(features, self.key))
        kind = dtypes.of_array(np.dtype(given.values.dtype))
        if not kind.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {kind!r}")
        values = given.values
        if self.default_value is not None:
            xp = jnp if isinstance(values, jax.Array) else np
            outside = (values < 0) | (values >= self.number_buckets)
            values = xp.where(outside, self.default_value, values)
        return Categories(given.or_none(values))


@dataclasses.dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """See `weighted_categorical_column`."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: Any

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec = self.categorical_column.parse_example_spec
        if self.weight_feature_key in spec:
            raise ValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for "
                f"{self.weight_feature_key}."
            )
        return {**spec, self.weight_feature_key: io.VarLenFeature(self.dtype.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def ids(self, features: Mapping[str, Any]) -> Categories:
        return self.categorical_column.ids(features)

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        ids = self.ids(features).values
        given = categories(raw_feature(features, self.weight_feature_key), 0)
        kind = dtypes.of_array(np.dtype(given.values.dtype))
        if kind.is_floating != self.dtype.is_floating:
            raise ValueError(f"Bad dtype, expected {self.dtype!r}, but got {kind!r}.")
        xp = jnp if any(isinstance(each, jax.Array) for each in (ids, given.values)) else np
        width = max(ids.shape[-1], given.values.shape[-1])
        weights = given.values if given.there is None else xp.where(given.there, given.values, 0)
        made = {"ids": (ids, -1), "weights": (weights, 0)}
        padded = {
            name: xp.pad(each, ((0, 0), (0, width - each.shape[-1])), constant_values=fill)
            for name, (each, fill) in made.items()
        }
        return {
            "ids": padded["ids"].astype(np.int32),
            "weights": padded["weights"].astype(np.float32),
        }


@dataclasses.dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """See `crossed_column`."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    def _leaves(self) -> list[Any]:
        found: list[Any] = []
        for key in self.keys:
            found += key._leaves() if isinstance(key, CrossedColumn) else [key]
        return found

    @property
    def name(self) -> str:
        names = (key if isinstance(key, str) else key.name for key in self._leaves())
        return "_X_".join(sorted(names))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for key in self.keys:
            text = {key: io.VarLenFeature(object)} if isinstance(key, str) else {}
            spec.update(text or key.parse_example_spec)
        return spec

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def ids(self, features: Mapping[str, Any]) -> Categories:
        # TensorFlow hashes sparse features first, then the dense ones.
        sparse, dense = [], []
        for key in self._leaves():
            if not isinstance(key, str):
                ids = key.ids(features).values
                # Of a vocabulary, -1 is a value of unknown strings: it is crossed, too.
                sparse.append(Categories(ids, _there(key, features)))
                continue
            value = raw_feature(features, key)
            if hasattr(value, "places") or hasattr(value, "flat_values"):
                sparse.append(categories(value))
            else:
                dense.append(Categories(value))
        key = HASH_KEY if not self.hash_key else self.hash_key
        return Categories(crossed([*sparse, *dense], self.hash_bucket_size, key))


def _there(column: Any, features: Mapping[str, Any]) -> Any:
    """Where a categorical column has values; None for everywhere."""
    if isinstance(column, WeightedCategoricalColumn):
        raise ValueError(
            "crossed_column does not support weight_tensor, but the given column populates "
            f"weight_tensor. Given column: {column.name}"
        )
    key = getattr(column, "key", None)
    return None if key is None else categories(raw_feature(features, key)).there


@dataclasses.dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """Categories that follow one another: see ``sequence_categorical_column_with_identity``."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def ids(self, features: Mapping[str, Any]) -> Categories:
        return self.categorical_column.ids(features)


class _OfCategories(DenseColumn):
    """A dense column of a categorical one."""

    categorical_column: CategoricalColumn

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        # Not that of bucketized columns, which are dense ones, too.
        return (
            CategoricalColumn.prepare(self.categorical_column, features)
            if isinstance(self.categorical_column, BucketizedColumn)
            else self.categorical_column.prepare(features)
        )


@dataclasses.dataclass(frozen=True)
class IndicatorColumn(_OfCategories):
    """See `indicator_column`."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([1, self.categorical_column.num_buckets])

    def combine(self, prepared: Prepared, weights: Any) -> Any:
        depth = self.categorical_column.num_buckets
        each = jax.nn.one_hot(prepared["ids"], depth, dtype=np.float32)
        if "weights" in prepared:
            each = each * prepared["weights"][..., None]
        return each.sum(-2)

    def sequence(self, prepared: Prepared, weights: Any) -> Any:
        """Each category of a sequence (batch, n, buckets)."""
        return jax.nn.one_hot(
            prepared["ids"], self.categorical_column.num_buckets, dtype=np.float32
        )


@dataclasses.dataclass(frozen=True)
class EmbeddingColumn(_OfCategories):
    """See `embedding_column`."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: Any
    tensor_name_in_ckpt: Any
    max_norm: Any
    trainable: bool
    use_safe_embedding_lookup: bool = True

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([self.dimension])

    @property
    def table_shape(self) -> tuple[int, int]:
        """Of the variable."""
        return self.categorical_column.num_buckets, self.dimension

    def combine(self, prepared: Prepared, weights: Any) -> Any:
        return weighted_rows(weights, prepared, self.combiner, self.max_norm)

    def sequence(self, prepared: Prepared, weights: Any) -> Any:
        """The rows of each category of a sequence (batch, n, dimension)."""
        alone = {name: each[..., None] for name, each in prepared.items()}
        return weighted_rows(weights, alone, self.combiner, self.max_norm)


class SharedEmbeddings:
    """The variable of columns that share one, made when a layer first needs it.

    Args:
        name: of the variable.
        shape: of the variable.
        initializer: of its values.
        trainable: whether it is trained.
    """

    def __init__(self, name: str, shape: tuple[int, int], initializer: Any, trainable: bool):
        self.name, self.shape = name, shape
        self._initializer, self._trainable = initializer, trainable

    @functools.cached_property
    def embedding_weights(self) -> keras.Variable:
        """The variable."""
        values = unwrap(self._initializer(self.shape, "float32"))
        return keras.Variable(
            np.asarray(values, np.float32), trainable=self._trainable, name=self.name
        )


@dataclasses.dataclass(frozen=True)
class SharedEmbeddingColumn(_OfCategories):
    """See `shared_embeddings`."""

    categorical_column: CategoricalColumn
    shared_embedding_column_creator: SharedEmbeddings
    combiner: str
    max_norm: Any
    use_safe_embedding_lookup: bool = True

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([self.shared_embedding_column_creator.shape[1]])

    combine = EmbeddingColumn.combine
    sequence = EmbeddingColumn.sequence


def weighted_rows(table: Any, prepared: Prepared, combiner: str, max_norm: Any = None) -> Any:
    """Rows of a variable, weighted and combined over the last dimension; 0 where there is none.

    Args:
        table: (buckets, dimension).
        prepared: ``ids`` (..., n), negative for none, and perhaps ``weights`` of this shape.
        combiner: ``"mean"``, ``"sqrtn"`` or ``"sum"``.
        max_norm: rows are cut to it.
    """
    ids = jnp.asarray(prepared["ids"])
    there = ids >= 0
    rows = jnp.take(jnp.asarray(table), jnp.where(there, ids, 0), axis=0, mode="fill")
    if max_norm is not None:
        norms = jnp.sqrt(jnp.square(rows).sum(-1, keepdims=True))
        rows = rows * (max_norm / jnp.maximum(norms, max_norm))
    weights = there.astype(rows.dtype)
    if "weights" in prepared:
        given = jnp.asarray(prepared["weights"])
        if combiner != "sum":
            given = jnp.where(given > 0, given, 0)
        weights = weights * given
    # Before the product: 0 times what is out of range is not 0.
    rows = jnp.where(weights[..., None] == 0, 0, rows)
    total = (rows * weights[..., None]).sum(-2)
    if combiner == "sum":
        return total
    size = weights.sum(-1) if combiner == "mean" else jnp.sqrt(jnp.square(weights).sum(-1))
    return total / jnp.where(size == 0, 1, size)[..., None]


@dataclasses.dataclass(frozen=True)
class SequenceNumericColumn(ModelColumn):
    """See `sequence_numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: Any
    normalizer_fn: Any

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: io.VarLenFeature(self.dtype.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        """Of each step of the sequence."""
        return TensorShape(self.shape)


def normalized(feature_columns: Any) -> list[ModelColumn]:
    """Columns as a list, sorted by their names.

    Raises:
        ValueError: there is none, one is no column, or two have one name.
    """
    if isinstance(feature_columns, ModelColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(feature_columns)
    for column in columns:
        if not isinstance(column, ModelColumn):
            raise ValueError(
                "Items of feature_columns must be a FeatureColumn. "
                f"Given (type {type(column)}): {column}."
            )
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    by_name: dict[str, ModelColumn] = {}
    for column in columns:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and "
                f"{by_name[column.name]}. This usually means that these columns refer to same base "
                "feature. Either one must be discarded or a duplicated but renamed item must be "
                "inserted in features dict."
            )
        by_name[column.name] = column
    return sorted(columns, key=lambda column: column.name)
