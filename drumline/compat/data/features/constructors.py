"""The functions of ``tf.feature_column`` that make columns, and check what they are given."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from drumline.compat.data.features.columns import (
    BucketizedColumn,
    CategoricalColumn,
    CrossedColumn,
    EmbeddingColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    IndicatorColumn,
    ModelColumn,
    NumericColumn,
    SequenceCategoricalColumn,
    SequenceNumericColumn,
    SharedEmbeddingColumn,
    SharedEmbeddings,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
    require_categories,
)
from drumline.compat.values import dtypes
from drumline.compat.values.shape import TensorShape


def _refuse_key(key: Any) -> None:
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def _shape(shape: Any, key: str) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (list, tuple, TensorShape)) else (shape,)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"shape dimensions must be integer. shape: {sizes}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {sizes}, key: {key}")
    return sizes


def _default(shape: tuple[int, ...], value: Any, kind: Any, key: str) -> Any:
    """A default as nested tuples of the shape."""
    if value is None:
        return None
    value = value.tolist() if hasattr(value, "tolist") else value
    array = np.asarray(value)
    fits = array.dtype.kind in "iub" or (array.dtype.kind == "f" and kind.is_floating)
    if not fits:
        raise TypeError(
            "default_value must be compatible with dtype. "
            f"default_value: {value}, dtype: {kind!r}, key: {key}"
        )
    if array.ndim and array.shape != shape:
        raise ValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {value}, shape: {shape}, key: {key}"
        )
    return _nested(np.broadcast_to(array, shape).tolist())


def _nested(value: Any) -> Any:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


def _numeric(kind: Any, key: str, normalizer: Any) -> Any:
    found = dtypes.as_dtype(kind)
    if not (found.is_integer or found.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {found!r}, key: {key}")
    if normalizer is not None and not callable(normalizer):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer}")
    return found


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[..., Any] | None = None,
) -> NumericColumn:
    """A column of numbers, as ``tf.feature_column.numeric_column``.

    Args:
        key: the feature.
        shape: of each row.
        default_value: for rows without one, when examples are parsed.
        dtype: of the feature, when examples are parsed.
        normalizer_fn: a function of tensors that changes the values.
    """
    kind, sizes = _numeric(dtype, key, normalizer_fn), _shape(shape, key)
    _refuse_key(key)
    return NumericColumn(key, sizes, _default(sizes, default_value, kind, key), kind, normalizer_fn)


def bucketized_column(source_column: Any, boundaries: Any) -> BucketizedColumn:
    """The ranges that numbers are in, as ``tf.feature_column.bucketized_column``.

    Args:
        source_column: of `numeric_column`, with at most one dimension.
        boundaries: ascending; each is the first number of a bucket.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            "source_column must be a column generated with numeric_column(). "
            f"Given: {source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    in_order = isinstance(boundaries, (list, tuple)) and all(
        a < b for a, b in itertools.pairwise(boundaries)
    )
    if not in_order:
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> HashedCategoricalColumn:
    """Buckets by a hash, as ``tf.feature_column.categorical_column_with_hash_bucket``."""
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    _refuse_key(key)
    kind = dtypes.as_dtype(dtype)
    require_categories(kind, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, kind)


def _check_unknown(buckets: Any, default_value: Any, unset: Any, key: str) -> None:
    if not buckets:
        return
    if default_value != unset:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {buckets} in {key}.")


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: Any,
    vocabulary_size: int | None = None,
    dtype: Any = dtypes.string,
    default_value: int | None = None,
    num_oov_buckets: int | None = None,
    file_format: str | None = None,
) -> VocabularyFileCategoricalColumn:
    """Lines of a file, as ``tf.feature_column.categorical_column_with_vocabulary_file``.

    Args:
        key: the feature.
        vocabulary_file: a text file with a category a line.
        vocabulary_size: how many lines are used; by default all.
        dtype: of the feature.
        default_value: the number of others; by default none.
        num_oov_buckets: how many buckets others share.
        file_format: must be None: text.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if file_format is not None or str(vocabulary_file).endswith("tfrecord.gz"):
        raise NotImplementedError(
            f"categorical_column_with_vocabulary_file({key!r}): vocabularies are text files here; "
            "write the records' strings to one, a line each."
        )
    if vocabulary_size is None:
        try:
            with open(vocabulary_file, "rb") as file:
                vocabulary_size = sum(1 for _ in file)
        except FileNotFoundError:
            raise ValueError(f"vocabulary_file in {key} does not exist.") from None
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_unknown(num_oov_buckets, default_value, None, key)
    kind = dtypes.as_dtype(dtype)
    require_categories(kind, f"column_name: {key}")
    _refuse_key(key)
    return VocabularyFileCategoricalColumn(
        key,
        vocabulary_file,
        vocabulary_size,
        num_oov_buckets or 0,
        kind,
        -1 if default_value is None else default_value,
    )


def former_vocabulary_file(
    key: str,
    vocabulary_file: Any,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = dtypes.string,
) -> VocabularyFileCategoricalColumn:
    """`categorical_column_with_vocabulary_file`, with TensorFlow 1's order of arguments."""
    return categorical_column_with_vocabulary_file(
        key, vocabulary_file, vocabulary_size, dtype, default_value, num_oov_buckets
    )


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """Categories of a list, as ``tf.feature_column.categorical_column_with_vocabulary_list``."""
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    array = np.array(vocabulary_list)
    own = dtypes.string if array.dtype.kind in "SUO" else dtypes.of_array(array.dtype)
    _check_unknown(num_oov_buckets, default_value, -1, key)
    require_categories(own, f"column_name: {key} vocabulary")
    kind = own if dtype is None else dtypes.as_dtype(dtype)
    if kind.is_integer != own.is_integer:
        raise ValueError(
            f"dtype {kind!r} and vocabulary dtype {own!r} do not match, column_name: {key}"
        )
    require_categories(kind, f"column_name: {key}")
    _refuse_key(key)
    return VocabularyListCategoricalColumn(
        key, tuple(vocabulary_list), kind, default_value, num_oov_buckets
    )


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Numbers of categories, as ``tf.feature_column.categorical_column_with_identity``.

    Numbers out of range are `default_value` if there is one. Else negative ones count as none, and
    embeddings of others are NaN.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    _refuse_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def weighted_categorical_column(
    categorical_column: Any, weight_feature_key: str, dtype: Any = dtypes.float32
) -> WeightedCategoricalColumn:
    """Categories with weights of another feature, as in ``tf.feature_column``."""
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if kind is None or not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {kind!r} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, kind)


def crossed_column(
    keys: Sequence[Any], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Combinations of features by their hash, as ``tf.feature_column.crossed_column``.

    Args:
        keys: features' names, and categorical columns that do not hash.
        hash_bucket_size: how many buckets there are.
        hash_key: with which hashes begin; by default as in TensorFlow.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column "
                f"except HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before "
                "crossing will increase probability of collision. Instead, use the feature name as "
                f"a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)


def indicator_column(categorical_column: Any) -> IndicatorColumn:
    """How often each category is there, as ``tf.feature_column.indicator_column``."""
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(
            "Unsupported input type. Input must be a CategoricalColumn. "
            f"Given: {categorical_column}"
        )
    return IndicatorColumn(categorical_column)


def _initializer(given: Any, dimension: Any, name: str) -> Any:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if given is not None and not callable(given):
        raise ValueError(
            f"initializer must be callable if specified. Embedding of column_name: {name}"
        )
    if given is not None:
        return given
    return keras.initializers.TruncatedNormal(0.0, 1 / math.sqrt(dimension))


def _refuse_checkpoint(path: Any, tensor: Any) -> None:
    if (path is None) != (tensor is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none.")
    if path is not None:
        raise NotImplementedError(
            "ckpt_to_load_from: TensorFlow's checkpoints are not read; give the values by "
            "initializer=tf.constant_initializer(values)"
        )


def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: Any = None,
    max_norm: Any = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Rows of a variable for categories, as ``tf.feature_column.embedding_column``.

    Args:
        categorical_column: the categories.
        dimension: how long a row is.
        combiner: ``"mean"``, ``"sqrtn"`` or ``"sum"``, of several categories.
        initializer: of the variable.
        ckpt_to_load_from: must be None.
        tensor_name_in_ckpt: must be None.
        max_norm: the largest norm that a row may have.
        trainable: whether the variable is trained.
        use_safe_embedding_lookup: of no effect: rows without a category are 0.
    """
    made = _initializer(initializer, dimension, getattr(categorical_column, "name", ""))
    _refuse_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
    _require_combiner(combiner)
    return EmbeddingColumn(
        categorical_column, dimension, combiner, made, None, None, max_norm, trainable
    )


def _require_combiner(combiner: str) -> None:
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")


def shared_embeddings(
    categorical_columns: Sequence[Any],
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: Any = None,
    max_norm: Any = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Columns that share one variable, as ``tf.feature_column.shared_embeddings``.

    Raises:
        ValueError: they have not as many buckets, or are not of one kind.
    """
    _refuse_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
    _require_combiner(combiner)
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    first = ordered[0]
    made = _initializer(initializer, dimension, first.name)
    for column in ordered[1:]:
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number "
                f"of buckets. Given column: {first} with buckets: {first.num_buckets} does  not "
                f"match column: {column} with buckets: {column.num_buckets}"
            )
        if type(_unweighted(column)) is not type(_unweighted(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, "
                "or be weighted_categorical_column or sequence column of the same type. Given "
                f"column: {first} of type: {type(first)} does not match given column: {column} of "
                f"type: {type(column)}"
            )
    name = shared_embedding_collection_name
    if not name:
        name = "_".join(column.name for column in ordered) + "_shared_embedding"
    variable = SharedEmbeddings(name, (first.num_buckets, dimension), made, trainable)
    return [
        SharedEmbeddingColumn(column, variable, combiner, max_norm)
        for column in categorical_columns
    ]


def _unweighted(column: Any) -> Any:
    kinds = (WeightedCategoricalColumn, SequenceCategoricalColumn)
    return column.categorical_column if isinstance(column, kinds) else column


def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """What ``tf.io.parse_example`` reads for columns: a dictionary of features.

    Raises:
        ValueError: one is no column, or two read a feature in different ways.
    """
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, ModelColumn):
            raise ValueError(
                f"All feature_columns must be FeatureColumn instances. Given: {column}"
            )
        for key, spec in column.parse_example_spec.items():
            if found.setdefault(key, spec) != spec:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {spec} "
                    f"and {found[key]}"
                )
    return found


def _sequence(make: Callable[..., Any], name: str) -> Callable[..., SequenceCategoricalColumn]:
    @functools.wraps(make)
    def column(*args: Any, **kwargs: Any) -> SequenceCategoricalColumn:
        return SequenceCategoricalColumn(make(*args, **kwargs))

    column.__name__ = column.__qualname__ = name
    column.__doc__ = f"`{make.__name__}`, of categories that follow one another."
    return column


sequence_categorical_column_with_hash_bucket = _sequence(
    categorical_column_with_hash_bucket, "sequence_categorical_column_with_hash_bucket"
)
sequence_categorical_column_with_identity = _sequence(
    categorical_column_with_identity, "sequence_categorical_column_with_identity"
)
sequence_categorical_column_with_vocabulary_list = _sequence(
    categorical_column_with_vocabulary_list, "sequence_categorical_column_with_vocabulary_list"
)
sequence_categorical_column_with_vocabulary_file = _sequence(
    former_vocabulary_file, "sequence_categorical_column_with_vocabulary_file"
)


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: float = 0.0,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[..., Any] | None = None,
) -> SequenceNumericColumn:
    """Numbers that follow one another, as ``tf.feature_column.sequence_numeric_column``."""
    kind = _numeric(dtype, key, normalizer_fn)
    return SequenceNumericColumn(key, _shape(shape, key), default_value, kind, normalizer_fn)
