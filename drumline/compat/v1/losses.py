"""``tf.compat.v1.losses``: losses with weights, reduced to a scalar."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.ops.nn import functions as nn
from drumline.compat.v1.collections import add_loss
from drumline.compat.values import derivatives
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.estimator.graph import running


class WeightedReduction:
    """How losses become one, as ``tf.compat.v1.losses.Reduction``."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All of them."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Check a name.

        Raises:
            ValueError: it is none of them.
        """
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}. Key should be one of {cls.all()}.")


WeightedReduction.__name__ = WeightedReduction.__qualname__ = "Reduction"
_BY_WEIGHTS = WeightedReduction.SUM_BY_NONZERO_WEIGHTS


def _floats(value: Any) -> Any:
    array = convert(value)
    wide = getattr(array.dtype, "itemsize", 4) == 8 and isinstance(array, np.ndarray)
    if array.dtype.kind != "f":
        return jnp.asarray(array, jnp.float32)
    return array if wide else jnp.asarray(array)


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Losses times weights, reduced.

    Args:
        losses: ``(d0, ..., dn)``.
        weights: a scalar, or of the same rank, with dimensions that are 1 or those of the losses.
        scope: no effect.
        loss_collection: to what the loss is added in an Estimator's model_fn; see `get_losses`.
        reduction: of `WeightedReduction`: by default their sum, divided by the number of losses
            whose weight is not 0.

    Raises:
        ValueError: there is no such reduction, or the weights do not fit the losses.
    """
    WeightedReduction.validate(reduction)
    each, factor = _floats(losses), jnp.asarray(_floats(weights), _floats(losses).dtype)
    if factor.ndim and (
        factor.ndim != each.ndim
        or any(a not in (1, b) for a, b in zip(factor.shape, each.shape, strict=True))
    ):
        raise ValueError(
            f"weights can not be broadcast to values. values.shape={each.shape}, "
            f"weights.shape={factor.shape}"
        )
    call = running()
    if call is not None:  # as in TensorFlow, the last loss says what that of all replicas is
        call.sums_loss = reduction == WeightedReduction.SUM
    found = Tensor(_reduced(each, factor, reduction))
    add_loss(found, loss_collection)
    return found


def _reduced(each: Any, factor: Any, reduction: str) -> Any:
    weighted = each * factor
    if reduction == WeightedReduction.NONE:
        return weighted
    total = weighted.sum()
    if reduction == WeightedReduction.SUM:
        return total
    if reduction == WeightedReduction.SUM_OVER_BATCH_SIZE:
        count: Any = each.size
    else:
        spread = jnp.broadcast_to(factor, each.shape)
        by_weight = reduction == WeightedReduction.MEAN
        count = spread.sum() if by_weight else (spread != 0).sum().astype(each.dtype)
    safe = jnp.where(jnp.asarray(count) == 0, 1, count)
    return jnp.where(jnp.asarray(count) == 0, 0, total / safe).astype(each.dtype)


def _pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Labels and predictions as floats of one shape.

    Raises:
        ValueError: they have different shapes, or one is missing.
    """
    if labels is None or predictions is None:
        raise ValueError("labels and predictions must not be None.")
    found, expected = _floats(predictions), _floats(labels)
    if tuple(found.shape) != tuple(expected.shape):
        raise ValueError(
            f"Shapes {tuple(found.shape)} and {tuple(expected.shape)} are incompatible"
        )
    return expected.astype(found.dtype), found


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``|predictions - labels|``; see `compute_weighted_loss`."""
    expected, found = _pair(labels, predictions)
    return compute_weighted_loss(abs(found - expected), weights, scope, loss_collection, reduction)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``(predictions - labels) ** 2``; see `compute_weighted_loss`."""
    expected, found = _pair(labels, predictions)
    return compute_weighted_loss(
        (found - expected) ** 2, weights, scope, loss_collection, reduction
    )


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """1 minus the product of unit vectors, summed over an axis; see `compute_weighted_loss`."""
    along = dim if axis is None else axis
    if along is None:
        raise ValueError("You must specify argument `axis`.")
    expected, found = _pair(labels, predictions)
    losses = 1 - (expected * found).sum(along, keepdims=True)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """``max(0, 1 - sign * logits)`` for labels of 0 and 1; see `compute_weighted_loss`."""
    expected, found = _pair(labels, logits)
    losses = jax.nn.relu(1 - (2 * expected - 1) * found)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Half the square of errors up to ``delta``, linear beyond; see `compute_weighted_loss`."""
    expected, found = _pair(labels, predictions)
    size = abs(found - expected)
    small = derivatives.minimum(size, delta)
    losses = 0.5 * small * small + delta * (size - small)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """The cross entropy of probabilities; see `compute_weighted_loss`."""
    expected, found = _pair(labels, predictions)
    losses = -expected * jnp.log(found + epsilon) - (1 - expected) * jnp.log(1 - found + epsilon)
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
) -> Tensor:
    """The mean squared difference of the errors within each row, weighted by row.

    With a scalar weight the count is that of all errors, as TensorFlow 2 has it.
    """
    expected, found = _pair(labels, predictions)
    rows = (found - expected).reshape(found.shape[0], -1)
    factor = jnp.broadcast_to(jnp.asarray(_floats(weights), rows.dtype).reshape(-1), rows.shape[:1])
    count = rows.size if _floats(weights).ndim == 0 else rows.shape[1]
    if count < 2:
        return Tensor(jnp.zeros((), rows.dtype))
    squares = 2 * (rows**2).sum(1) / (count - 1)
    means = 2 * rows.sum(1) ** 2 / (count * (count - 1))
    return Tensor(((squares - means) * factor).sum().astype(rows.dtype))


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """The cross entropy of each class for itself; see `compute_weighted_loss`."""
    expected, found = _pair(multi_class_labels, logits)
    if label_smoothing > 0:
        expected = expected * (1 - label_smoothing) + 0.5 * label_smoothing
    losses = nn.sigmoid_cross_entropy_with_logits(Tensor(expected), Tensor(found))
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """The cross entropy of distributions over the last axis; see `compute_weighted_loss`."""
    expected, found = _pair(onehot_labels, logits)
    if label_smoothing > 0:
        classes = expected.shape[1]
        expected = expected * (1 - label_smoothing) + label_smoothing / classes
    losses = nn.softmax_cross_entropy_with_logits(Tensor(expected), Tensor(found))
    return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """The cross entropy of class numbers ``(d0, ...)`` or ``(d0, ..., 1)``."""
    numbers, found = convert(labels), _floats(logits)
    if numbers.ndim == found.ndim:
        numbers = numbers.squeeze(-1)
    losses = nn.sparse_softmax_cross_entropy_with_logits(Tensor(numbers), Tensor(found))
    factor = _floats(weights)
    if factor.ndim == losses.ndim + 1 and factor.shape[-1] == 1:
        factor = factor.squeeze(-1)
    return compute_weighted_loss(losses, Tensor(factor), scope, loss_collection, reduction)
