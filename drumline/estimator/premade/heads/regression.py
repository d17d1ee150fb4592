"""Heads of numbers: `RegressionHead`, and those of logistic and Poisson regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.estimator.premade.heads import base
from drumline.estimator.premade.heads.classification import sigmoid_cross_entropy


class RegressionHead(base.Head):
    """A logit for each number to predict, as ``tf.estimator.RegressionHead``.

    Its loss is the squared error.

    Args:
        label_dimension: how many numbers a row's label has.
        weight_column: the feature of the rows' or numbers' weights, or its numeric column.
        loss_reduction: ``"sum_over_batch_size"``, of all numbers, or ``"sum"``.
        loss_fn: a function of labels and logits, and perhaps features, that gives each number's
            loss.
        inverse_link_fn: makes predictions of logits; by default they are the logits.
        name: ends the metrics' names.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.RegressionHead()
        >>> labels, logits = np.array([[45], [42]]), np.array([[45.0], [41.0]])
        >>> float(head.loss(labels, logits))
        0.5
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = base.MEAN,
        loss_fn: Callable[..., Any] | None = None,
        inverse_link_fn: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ):
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        base.check_loss_fn(loss_fn)
        self._dimension = label_dimension
        self._weight_column = weight_column
        self._reduction = base.check_reduction(loss_reduction)
        self._loss_fn = loss_fn
        self._inverse_link_fn = inverse_link_fn
        self._name = name

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def logits_dimension(self) -> int:
        return self._dimension

    @property
    def loss_reduction(self) -> str:
        return self._reduction

    def _targets(self, logits: Any, labels: Any) -> Any:
        return base.check_labels(labels, logits, self._dimension).astype(np.float32)

    def _losses(self, targets: Any, logits: Any) -> Any:
        """The loss of each number."""
        return jnp.square(logits - targets)

    def _losses_and_weights(self, targets: Any, logits: Any, features: Any) -> tuple[Any, Any]:
        if self._loss_fn is None:
            losses = self._losses(targets, logits)
        else:
            losses = base.user_loss(self._loss_fn, targets, logits, features, self._dimension)
        return losses, base.weights_of(features, self._weight_column, logits, per_logit=True)

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        logits = base.check_logits(logits, self._dimension)
        pair = self._losses_and_weights(self._targets(logits, labels), logits, features)
        found = base.reduced(*pair, self._reduction)
        extra = base.total(regularization_losses)
        return found if extra is None else found + extra

    def _linked(self, logits: Any) -> Any | None:
        """The predictions, if they are not the logits."""
        return None if self._inverse_link_fn is None else self._inverse_link_fn(logits)

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        logits = base.check_logits(logits, self._dimension)
        linked = self._linked(logits)
        made = {"predictions": logits} if linked is None else {"predictions": linked}
        return made if linked is None else {**made, "logits": logits}

    def metrics(self, regularization_losses: Any = None) -> dict[str, keras.Metric]:
        kinds = {"average_loss", "prediction/mean", "label/mean"}
        if regularization_losses is not None:
            kinds.add("regularization_loss")
        return {
            self._named(key): keras.metrics.Mean(key.replace("/", "_")) for key in sorted(kinds)
        }

    def update_metrics(
        self,
        eval_metrics: dict[str, keras.Metric],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, keras.Metric]:
        logits = base.check_logits(logits, self._dimension)
        targets = self._targets(logits, labels)
        losses, weights = self._losses_and_weights(targets, logits, features)
        linked = self._linked(logits)
        for key, values in (
            ("average_loss", losses),
            ("prediction/mean", logits if linked is None else linked),
            ("label/mean", targets),
        ):
            base.mean(eval_metrics[self._named(key)], values, weights)
        if regularization_losses is not None:
            extra = base.total(regularization_losses)
            base.mean(eval_metrics[self._named("regularization_loss")], extra, None)
        return eval_metrics

    def export_outputs(self, predictions: Mapping[Any, Any]) -> dict[str, Any]:
        return base.regression_outputs(predictions, predictions["predictions"])


class PoissonRegressionHead(RegressionHead):
    """Numbers of events, of the logarithm of their means: ``tf.estimator.PoissonRegressionHead``.

    Args:
        label_dimension: how many numbers a row's label has.
        weight_column: see `RegressionHead`.
        loss_reduction: see `RegressionHead`.
        compute_full_loss: whether the loss has the factorial's part, by Stirling's approximation.
        name: ends the metrics' names.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = base.MEAN,
        compute_full_loss: bool = True,
        name: str | None = None,
    ):
        super().__init__(label_dimension, weight_column, loss_reduction, name=name)
        self._full = compute_full_loss

    def _losses(self, targets: Any, logits: Any) -> Any:
        found = jnp.exp(logits) - logits * targets
        if not self._full:
            return found
        stirling = targets * jnp.log(targets) - targets + 0.5 * jnp.log(2 * math.pi * targets)
        outside = (targets >= 0) & (targets <= 1)
        return found + jnp.where(outside, 0, stirling)

    def _linked(self, logits: Any) -> Any:
        return jnp.exp(logits)


class LogisticRegressionHead(RegressionHead):
    """A probability, whose labels are from 0 to 1: ``tf.estimator.LogisticRegressionHead``.

    Args:
        weight_column: see `RegressionHead`.
        loss_reduction: see `RegressionHead`.
        name: ends the metrics' names.
    """

    def __init__(
        self,
        weight_column: Any = None,
        loss_reduction: str = base.MEAN,
        name: str | None = None,
    ):
        super().__init__(1, weight_column, loss_reduction, name=name)

    def _losses(self, targets: Any, logits: Any) -> Any:
        checked = base.check_range(targets, 2, "Labels must be in range [0, 1]")
        return sigmoid_cross_entropy(checked, logits)

    def _linked(self, logits: Any) -> Any:
        return jax.nn.sigmoid(logits)
