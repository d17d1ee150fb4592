"""What ``tf.io.parse_example`` reads for a premade classifier or regressor, the label too."""

from __future__ import annotations

from typing import Any

from drumline.compat.data.features.columns import NumericColumn
from drumline.compat.data.features.constructors import make_parse_example_spec, numeric_column
from drumline.compat.values import dtypes
from drumline.io import FixedLenFeature


def classifier_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = dtypes.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Features by name for a classifier, as ``tf.estimator.classifier_parse_example_spec``.

    Args:
        feature_columns: the model's columns.
        label_key: the label's feature.
        label_dtype: of the label: an integer, or a string.
        label_default: for examples without a label; by default they are an error.
        weight_column: the weights' feature, or its numeric column.

    Raises:
        ValueError: the label or the weights are a feature of the columns.
    """
    label = FixedLenFeature((1,), dtypes.as_dtype(label_dtype).dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = dtypes.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Features by name for a regressor, as ``tf.estimator.regressor_parse_example_spec``.

    Args:
        feature_columns: the model's columns.
        label_key: the label's feature.
        label_dtype: of the label.
        label_default: for examples without a label; by default they are an error.
        label_dimension: how many numbers a label has.
        weight_column: the weights' feature, or its numeric column.

    Raises:
        ValueError: the label or the weights are a feature of the columns.
    """
    kind = dtypes.as_dtype(label_dtype).dtype
    label = FixedLenFeature((label_dimension,), kind, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(columns: Any, key: str, label: Any, weight_column: Any) -> dict[str, Any]:
    found = make_parse_example_spec(columns)
    if key in found:
        raise ValueError(
            f"label should not be used as feature. label_key: {key}, features: {sorted(found)}"
        )
    found[key] = label
    if weight_column is None:
        return found
    if isinstance(weight_column, str):
        weight_column = numeric_column(weight_column)
    if not isinstance(weight_column, NumericColumn):
        raise ValueError(
            "Weight column must be either a string or NumericColumn. Given type: "
            f"{type(weight_column)}."
        )
    if weight_column.key in found:
        raise ValueError(
            f"weight_column should not be used as feature. weight_column: {weight_column.key}, "
            f"features: {sorted(found)}"
        )
    return {**found, **weight_column.parse_example_spec}
