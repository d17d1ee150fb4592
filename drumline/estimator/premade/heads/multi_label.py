"""`MultiLabelHead`: any number of several classes for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import keras
import numpy as np

from drumline.estimator.premade.heads import base
from drumline.estimator.premade.heads.classification import (
    metrics_of_threshold,
    sigmoid_cross_entropy,
)


class MultiLabelHead(base.Head):
    """A logit for each class, of which a row has any number: ``tf.estimator.MultiLabelHead``.

    Labels are integers (batch, n_classes), 1 for the classes that a row has. The loss of a row is
    the mean of its sigmoids' cross entropies.

    Args:
        n_classes: how many classes there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        thresholds: between 0 and 1: metrics are computed for each.
        label_vocabulary: the classes' names.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        loss_fn: a function of labels and logits, and perhaps features, that gives each row's loss.
        classes_for_class_based_metrics: numbers or names of classes that get metrics of their own.
        name: ends the metrics' names.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.MultiLabelHead(2)
        >>> labels, logits = np.array([[1, 0], [1, 1]]), np.array([[-10.0, 10], [-15, 10]])
        >>> round(float(head.loss(labels, logits)), 2)
        8.75
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = base.MEAN,
        loss_fn: Callable[..., Any] | None = None,
        classes_for_class_based_metrics: Any = None,
        name: str | None = None,
    ):
        if n_classes is None or n_classes < 2:
            raise ValueError(
                f"n_classes must be > 1 for multi-label classification. Given: {n_classes}"
            )
        base.check_loss_fn(loss_fn)
        self._classes = n_classes
        self._weight_column = weight_column
        self._thresholds = base.check_thresholds(thresholds)
        self._vocabulary = base.check_vocabulary(label_vocabulary, n_classes)
        self._reduction = base.check_reduction(loss_reduction)
        self._loss_fn = loss_fn
        self._measured = self._numbers(classes_for_class_based_metrics or ())
        self._name = name

    def _numbers(self, classes: Any) -> dict[int, str]:
        """How metrics of classes are called, by the classes' numbers."""
        found: dict[int, str] = {}
        for each in classes:
            if isinstance(each, str):
                if self._vocabulary is None:
                    raise ValueError(
                        "label_vocabulary must be provided when classes_for_class_based_metrics "
                        "are strings."
                    )
                each = self._vocabulary.index(each)
            if not 0 <= each < self._classes:
                raise ValueError(
                    "All classes_for_class_based_metrics must be in range "
                    f"[0, {self._classes - 1}]. Given: {each}"
                )
            found[each] = f"class{each}" if self._vocabulary is None else self._vocabulary[each]
        return found

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def logits_dimension(self) -> int:
        return self._classes

    @property
    def loss_reduction(self) -> str:
        return self._reduction

    def _indicators(self, logits: Any, labels: Any) -> Any:
        labels = base.check_labels(labels, logits, self._classes)
        message = "labels must be an integer indicator Tensor with values in [0, 1]"
        return base.check_range(labels.astype(np.float32), 2, message)

    def _losses_and_weights(self, labels: Any, logits: Any, features: Any) -> tuple[Any, Any]:
        if self._loss_fn is None:
            losses = sigmoid_cross_entropy(labels, logits).mean(-1, keepdims=True)
        else:
            losses = base.user_loss(self._loss_fn, labels, logits, features, 1)
        return losses, base.weights_of(features, self._weight_column, logits)

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        logits = base.check_logits(logits, self._classes)
        pair = self._losses_and_weights(self._indicators(logits, labels), logits, features)
        found = base.reduced(*pair, self._reduction)
        extra = base.total(regularization_losses)
        return found if extra is None else found + extra

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        keys = base.check_keys(keys, ("logits", "probabilities", "classes"))
        logits = base.check_logits(logits, self._classes)
        made: dict[Any, Any] = {}
        if "logits" in keys:
            made["logits"] = logits
        if "probabilities" in keys:
            made["probabilities"] = jax.nn.sigmoid(logits)
        if "classes" in keys:
            every = base.all_classes(logits, self._classes)
            made["classes"] = base.class_names(every, self._classes, self._vocabulary)
        return made

    def metrics(self, regularization_losses: Any = None) -> dict[str, keras.Metric]:
        kinds = keras.metrics
        made: dict[str, keras.Metric] = {
            "average_loss": kinds.Mean("average_loss"),
            "auc": kinds.AUC(name="auc"),
            "auc_precision_recall": kinds.AUC(curve="PR", name="auc_precision_recall"),
        }
        if regularization_losses is not None:
            made["regularization_loss"] = kinds.Mean("regularization_loss")
        for each in self._thresholds:
            made |= metrics_of_threshold(each)
        for number, ends in self._measured.items():
            made[f"probability_mean/{ends}"] = kinds.Mean(f"probability_mean_{number}")
            made[f"auc/{ends}"] = kinds.AUC(name=f"auc_{number}")
            made[f"auc_precision_recall/{ends}"] = kinds.AUC(curve="PR", name=f"auc_pr_{number}")
        return {self._named(key): metric for key, metric in made.items()}

    def update_metrics(
        self,
        eval_metrics: dict[str, keras.Metric],
        features: Any,
        logits: Any,
        labels: Any,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> dict[str, keras.Metric]:
        logits = base.check_logits(logits, self._classes)
        labels = self._indicators(logits, labels)
        losses, weights = self._losses_and_weights(labels, logits, features)
        base.mean(eval_metrics[self._named("average_loss")], losses, weights)
        probabilities = jax.nn.sigmoid(logits)
        names = [name for each in self._thresholds for name in metrics_of_threshold(each)]
        for name in ("auc", "auc_precision_recall"):
            base.compare(eval_metrics[self._named(name)], labels, probabilities, weights)
        for name in names:
            metric = eval_metrics[self._named(name)]
            if isinstance(metric, keras.metrics.BinaryAccuracy):  # a mean of each row
                own = None if weights is None else weights[..., 0]
                metric.update_state(labels, probabilities, sample_weight=own)
            else:
                base.compare(metric, labels, probabilities, weights)
        for number, ends in self._measured.items():
            mine = slice(number, number + 1)
            share, given = probabilities[..., mine], labels[..., mine]
            base.mean(eval_metrics[self._named(f"probability_mean/{ends}")], share, weights)
            for name in ("auc", "auc_precision_recall"):
                base.compare(eval_metrics[self._named(f"{name}/{ends}")], given, share, weights)
        if regularization_losses is not None:
            extra = base.total(regularization_losses)
            base.mean(eval_metrics[self._named("regularization_loss")], extra, None)
        return eval_metrics

    def export_outputs(self, predictions: Mapping[Any, Any]) -> dict[str, Any]:
        scores, classes = predictions["probabilities"], predictions["classes"]
        return base.classification_outputs(predictions, scores, classes)
