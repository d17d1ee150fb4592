"""``tf.compat.v1.metrics``: metrics of a model_fn.

In a graph a metric is two operations: one gives its value, one takes a batch into it. Here it is a
metric of Keras's that has taken the batch, with both as its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.compat.values.boundary import unwrap
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.estimator.graph import running


class MetricOps(tuple[Any, Any]):
    """A metric's value and update operation, for ``eval_metric_ops``: the value twice.

    Attributes:
        metric: that of Keras's, whose `update_state` was called.
    """

    metric: keras.Metric


def _updated(kind: str, made: Callable[[], keras.Metric], *args: Any, weights: Any) -> Any:
    """A new metric that has taken a batch.

    Raises:
        RuntimeError: this is no model_fn.
    """
    if running() is None:
        raise RuntimeError(
            f"tf.metrics.{kind} is not supported when eager execution is enabled: it is for the "
            "model_fn of an Estimator; use tf.keras.metrics."
        )
    metric = made()
    if weights is not None:
        weights = jnp.asarray(convert(weights), jnp.float32)
    metric.update_state(*args, sample_weight=weights)
    value = Tensor(unwrap(metric.result()))
    found = MetricOps((value, value))
    found.metric = metric
    return found


def _floats(value: Any) -> Any:
    return jnp.asarray(convert(value), jnp.float32)


def _of_32_bits(value: Any) -> Any:
    array = convert(value)
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype))


def _like(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Labels and predictions of one shape: a last dimension of 1 too many is left out."""
    first, second = _of_32_bits(labels), _of_32_bits(predictions)
    if first.ndim == second.ndim + 1 and first.shape[-1] == 1:
        first = first[..., 0]
    elif second.ndim == first.ndim + 1 and second.shape[-1] == 1:
        second = second[..., 0]
    if first.shape != second.shape:
        raise ValueError(f"Shapes {first.shape} and {second.shape} are incompatible")
    return first, second


def _mean(kind: str, each: Any, weights: Any, name: str | None) -> Any:
    """The mean over all batches of an array's values, with weights that broadcast to it."""
    if weights is not None:
        weights = _floats(weights)
        if weights.ndim == each.ndim + 1 and weights.shape[-1] == 1:
            weights = weights[..., 0]
        weights = jnp.broadcast_to(weights, each.shape)
    return _updated(kind, lambda: keras.metrics.Mean(name=name or kind), each, weights=weights)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """How often predictions are the labels, as ``tf.compat.v1.metrics.accuracy``, in a model_fn.

    Args:
        labels: any shape.
        predictions: the same shape.
        weights: of each, or broadcast to it.
        metrics_collections: and ``updates_collections``: without effect: there are no collections.
        name: of the metric; by default ``"accuracy"``.

    Returns:
        A pair for ``eval_metric_ops`` of an `EstimatorSpec`.

    Raises:
        RuntimeError: this is no model_fn.
        ValueError: shapes differ.
    """
    first, second = _like(labels, predictions)
    same = (first.astype(second.dtype) == second).astype(jnp.float32)
    return _mean("accuracy", same, weights, name)


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """The mean of values over all batches; see `accuracy`."""
    return _mean("mean", _floats(values), weights, name)


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """The mean of absolute differences; see `accuracy`."""
    first, second = map(_floats, _like(labels, predictions))
    return _mean("mean_absolute_error", jnp.abs(second - first), weights, name)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """The mean of squared differences; see `accuracy`."""
    first, second = map(_floats, _like(labels, predictions))
    return _mean("mean_squared_error", jnp.square(second - first), weights, name)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """The mean of absolute differences over a normalizer, 0 where that is 0; see `accuracy`."""
    first, second = map(_floats, _like(labels, predictions))
    _, by = map(_floats, _like(labels, normalizer))
    each = jnp.where(by == 0, 0.0, jnp.abs(first - second) / jnp.where(by == 0, 1.0, by))
    return _mean("mean_relative_error", each, weights, name)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """The root of the mean of squared differences; see `accuracy`."""
    kind = "root_mean_squared_error"
    first, second = map(_floats, _like(labels, predictions))
    weights = None if weights is None else jnp.broadcast_to(_floats(weights), first.shape)
    # With a last dimension, over which Keras's metric takes no mean then.
    first, second = first[..., None], second[..., None]
    weights = None if weights is None else weights[..., None]
    return _updated(
        kind,
        lambda: keras.metrics.RootMeanSquaredError(name=name or kind),
        first,
        second,
        weights=weights,
    )


def percentage_below(
    values: Any,
    threshold: float,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """Which part of the values is less than a threshold; see `accuracy`."""
    below = (_floats(values) < float(threshold)).astype(jnp.float32)
    return _mean("percentage_below", below, weights, name)


_SUMS = {"trapezoidal": "interpolation", "careful_interpolation": "interpolation"}


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> Any:
    """The area under a curve; see `accuracy`.

    Args:
        labels: bools, or 0 and 1.
        predictions: from 0 to 1, of the same shape.
        weights: of each.
        num_thresholds: at how many thresholds.
        metrics_collections: and ``updates_collections``: without effect.
        curve: ``"ROC"`` or ``"PR"``.
        name: of the metric.
        summation_method: ``"trapezoidal"``, for ``"ROC"``; ``"careful_interpolation"``, for
            ``"PR"``; ``"minoring"`` or ``"majoring"``.
        thresholds: in place of equal steps.

    Raises:
        NotImplementedError: ``"PR"`` is summed by ``"trapezoidal"``, or ``"ROC"`` by
            ``"careful_interpolation"``.
    """
    careful = summation_method == "careful_interpolation"
    if summation_method in _SUMS and careful != (curve == "PR"):
        raise NotImplementedError(
            f"tf.metrics.auc(curve={curve!r}, summation_method={summation_method!r}): Keras's AUC "
            "sums the ROC curve by trapezoids and the PR curve by careful_interpolation."
        )
    first, second = _like(labels, predictions)
    return _updated(
        "auc",
        lambda: keras.metrics.AUC(
            num_thresholds,
            curve,
            _SUMS.get(summation_method, summation_method),
            name=name or "auc",
            thresholds=thresholds,
        ),
        _floats(first),
        _floats(second),
        weights=weights,
    )


def _of_classes(kind: str, of: str) -> Callable[..., Any]:
    """A function for a metric of labels and predictions that are true or false."""

    def metric(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:
        first, second = (each != 0 for each in _like(labels, predictions))
        made: Any = getattr(keras.metrics, of)
        return _updated(
            kind,
            lambda: made(name=name or kind),
            first.astype(jnp.float32),
            second.astype(jnp.float32),
            weights=weights,
        )

    metric.__name__ = metric.__qualname__ = kind
    metric.__doc__ = (
        f"The {kind.replace('_', ' ')} of predictions that are true or false; see `accuracy`."
    )
    return metric


precision = _of_classes("precision", "Precision")
recall = _of_classes("recall", "Recall")
true_positives = _of_classes("true_positives", "TruePositives")
true_negatives = _of_classes("true_negatives", "TrueNegatives")
false_positives = _of_classes("false_positives", "FalsePositives")
false_negatives = _of_classes("false_negatives", "FalseNegatives")


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """1 minus the mean of the products' sums over a dimension, of unit vectors; see `accuracy`."""
    first, second = map(_floats, _like(labels, predictions))
    return _mean_cosine(jnp.sum(first * second, dim, keepdims=True), dim, weights, name)


def _mean_cosine(each: Any, dim: int, weights: Any, name: str | None) -> Any:
    if weights is not None:
        weights = _floats(weights)
        if weights.ndim < each.ndim:
            weights = jnp.expand_dims(weights, dim)
    return _mean("mean_cosine_distance", 1 - each, weights, name)


class _ConfusionMatrix(keras.Metric):
    """How many rows of each class were found to be of each; NaN once a class is out of bounds.

    Args:
        name: its own.
        num_classes: how many classes there are.
        reduce: makes the value of the matrix, float32, ``(of the class, found as)``.
    """

    def __init__(self, name: str, num_classes: int, reduce: Callable[[Any], Any]):
        super().__init__(name=name)
        self._reduce = reduce
        self.matrix = self.add_variable((num_classes, num_classes), "zeros", name="matrix")
        self.outside = self.add_variable((), "zeros", name="outside")

    def update_state(self, labels: Any, predictions: Any, sample_weight: Any = None) -> None:
        """Count a batch."""
        size = self.matrix.shape[0]
        rows, columns = jnp.ravel(labels), jnp.ravel(predictions)
        both = jnp.stack([rows, columns])
        self.outside.assign_add(((both < 0) | (both >= size)).sum().astype(jnp.float32))
        each = jnp.ones(rows.shape, jnp.float32)
        if sample_weight is not None:
            each = each * jnp.ravel(jnp.broadcast_to(sample_weight, labels.shape))
        counted = jnp.zeros((size, size), jnp.float32).at[rows, columns].add(each)
        self.matrix.assign_add(counted)

    def result(self) -> Any:
        """What is made of the matrix."""
        return jnp.where(self.outside.value > 0, jnp.nan, self._reduce(self.matrix.value))


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """Intersection over union, the mean of the classes that there were; see `accuracy`.

    Args:
        labels: numbers of classes, any shape.
        predictions: the same shape.
        num_classes: how many classes there are.
        weights: of each.
        metrics_collections: and ``updates_collections``: without effect.
        name: of the metric.
    """

    def of(matrix: Any) -> Any:
        both = jnp.diagonal(matrix)
        union = matrix.sum(0) + matrix.sum(1) - both
        each = jnp.where(union > 0, both / jnp.where(union > 0, union, 1), 0)
        there = (union > 0).sum()
        return jnp.where(there > 0, each.sum() / jnp.maximum(there, 1), 0)

    first, second = _like(labels, predictions)
    return _updated(
        "mean_iou",
        lambda: _ConfusionMatrix(name or "mean_iou", int(num_classes), of),
        first,
        second,
        weights=weights,
    )


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """The accuracy of each class, the mean over all of them; see `mean_iou`."""

    def of(matrix: Any) -> Any:
        rows = matrix.sum(1)
        return jnp.mean(jnp.where(rows > 0, jnp.diagonal(matrix) / jnp.where(rows > 0, rows, 1), 0))

    kind = "mean_per_class_accuracy"
    first, second = _like(labels, predictions)
    return _updated(
        kind,
        lambda: _ConfusionMatrix(name or kind, int(num_classes), of),
        first,
        second,
        weights=weights,
    )


def _at_thresholds(kind: str, of: str) -> Callable[..., Any]:
    """A function for a metric of probabilities, which counts as true what is above thresholds."""

    def metric(
        labels: Any,
        predictions: Any,
        thresholds: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Any:
        first, second = _like(labels, predictions)
        made: Any = getattr(keras.metrics, of)
        return _updated(
            kind,
            lambda: made(thresholds=list(thresholds), name=name or kind),
            (first != 0).astype(jnp.float32),
            _floats(second),
            weights=weights,
        )

    metric.__name__ = metric.__qualname__ = kind
    metric.__doc__ = (
        f"The {kind.replace('_', ' ')}, one for each: what is above one counts as true; see "
        "`accuracy`."
    )
    return metric


precision_at_thresholds = _at_thresholds("precision_at_thresholds", "Precision")
recall_at_thresholds = _at_thresholds("recall_at_thresholds", "Recall")
true_positives_at_thresholds = _at_thresholds("true_positives_at_thresholds", "TruePositives")
true_negatives_at_thresholds = _at_thresholds("true_negatives_at_thresholds", "TrueNegatives")
false_positives_at_thresholds = _at_thresholds("false_positives_at_thresholds", "FalsePositives")
false_negatives_at_thresholds = _at_thresholds("false_negatives_at_thresholds", "FalseNegatives")


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """How many of the labels are among the k classes of the highest scores; see `accuracy`.

    Args:
        labels: numbers of classes ``(n, labels of a row)``, or ``(n,)`` for one.
        predictions: scores ``(n, num_classes)``.
        k: how many classes count as found.
        class_id: the label that counts alone; by default all.
        weights: of rows, ``(n,)`` or ``(n, 1)``.
        metrics_collections: and ``updates_collections``: without effect.
        name: of the metric.
    """
    found = _hits(labels, predictions, k)
    wanted = _of_32_bits(labels).reshape(found.shape)
    counts = jnp.ones(found.shape, jnp.float32)
    if class_id is not None:
        counts = (wanted == class_id).astype(jnp.float32)
    if weights is not None:
        counts = counts * _floats(weights).reshape(-1, 1)
    return _mean("recall_at_k", found, counts, name or f"recall_at_{k}")


def _hits(labels: Any, predictions: Any, k: int) -> Any:
    """Whether each label ``(n, labels)`` is among the k best of its row, float32."""
    scores = _floats(predictions)
    wanted = _of_32_bits(labels)
    wanted = wanted.reshape(scores.shape[0], -1)
    _, best = jax.lax.top_k(scores, int(k))
    return (wanted[:, :, None] == best[:, None, :]).any(-1).astype(jnp.float32)
