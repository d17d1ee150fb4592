"""Heads of one class of two, or of several: `BinaryClassHead` and `MultiClassHead`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.estimator.premade.heads import base


class _ClassHead(base.Head):
    """What heads of one class have in common.

    Args:
        classes: how many there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        label_vocabulary: the labels' words, if they are strings.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        loss_fn: a function of labels and logits, and perhaps features, that gives each row's loss.
        name: ends the metrics' names.
    """

    def __init__(
        self,
        classes: int,
        weight_column: Any,
        label_vocabulary: Any,
        loss_reduction: str,
        loss_fn: Callable[..., Any] | None,
        name: str | None,
    ):
        base.check_loss_fn(loss_fn)
        self._classes = classes
        self._weight_column = weight_column
        self._vocabulary = label_vocabulary
        self._reduction = base.check_reduction(loss_reduction)
        self._loss_fn = loss_fn
        self._name = name

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def loss_reduction(self) -> str:
        return self._reduction

    def label_ids(self, labels: Any, lookup: Callable[[Sequence[str], Any], Any]) -> Any:
        if self._vocabulary is None or np.dtype(labels.dtype).kind not in "OSU":
            return labels
        return lookup(self._vocabulary, labels)

    def _ids(self, logits: Any, labels: Any) -> Any:
        """Labels as numbers of classes (..., 1)."""
        raise NotImplementedError

    def _losses(self, ids: Any, logits: Any) -> Any:
        """Each row's loss (..., 1)."""
        raise NotImplementedError

    def _losses_and_weights(self, ids: Any, logits: Any, features: Any) -> tuple[Any, Any]:
        if self._loss_fn is None:
            losses = self._losses(ids, logits)
        else:
            losses = base.user_loss(self._loss_fn, ids, logits, features, 1)
        return losses, base.weights_of(features, self._weight_column, logits)

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        logits = base.check_logits(logits, self.logits_dimension)
        pair = self._losses_and_weights(self._ids(logits, labels), logits, features)
        found = base.reduced(*pair, self._reduction)
        extra = base.total(regularization_losses)
        return found if extra is None else found + extra

    def _class_predictions(
        self, logits: Any, class_logits: Any, keys: Sequence[str]
    ) -> dict[str, Any]:
        """The predictions that all heads of one class have.

        Args:
            logits: those of the model.
            class_logits: one for each class.
            keys: which.
        """
        made: dict[str, Any] = {}
        if "probabilities" in keys:
            made["probabilities"] = jax.nn.softmax(class_logits)
        ids = jnp.argmax(class_logits, -1)[..., None]
        if "class_ids" in keys:
            made["class_ids"] = ids
        if "classes" in keys:
            made["classes"] = base.class_names(ids, self._classes, self._vocabulary)
        every = base.all_classes(logits, self._classes)
        if "all_class_ids" in keys:
            made["all_class_ids"] = every
        if "all_classes" in keys:
            made["all_classes"] = base.class_names(every, self._classes, self._vocabulary)
        return made

    def export_outputs(self, predictions: Mapping[Any, Any]) -> dict[str, Any]:
        scores, classes = predictions["probabilities"], predictions["all_classes"]
        return base.classification_outputs(predictions, scores, classes)


class AccuracyBaseline(keras.metrics.Mean):
    """The accuracy of always predicting the more frequent of two labels.

    It is updated with the labels; unlike a mean that is assigned, it sums over replicas.
    """

    def result(self) -> Any:
        """The larger of the shares of the labels 0 and 1."""
        share = super().result()
        return keras.ops.maximum(share, 1 - share)


class BinaryClassHead(_ClassHead):
    """One logit for two classes, as ``tf.estimator.BinaryClassHead``.

    Its loss is the sigmoid's cross entropy.

    Args:
        weight_column: the feature of the rows' weights, or its numeric column.
        thresholds: between 0 and 1: metrics are computed for each.
        label_vocabulary: the two labels, if they are strings.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        loss_fn: a function of labels and logits, and perhaps features, that gives each row's loss.
        name: ends the metrics' names.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.BinaryClassHead()
        >>> labels, logits = np.array([[1], [0]]), np.array([[-41.0], [42.0]])
        >>> float(head.loss(labels, logits))
        41.5
    """

    def __init__(
        self,
        weight_column: Any = None,
        thresholds: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = base.MEAN,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ):
        vocabulary = base.check_vocabulary(label_vocabulary, 2)
        self._thresholds = base.check_thresholds(thresholds)
        super().__init__(2, weight_column, vocabulary, loss_reduction, loss_fn, name)

    @property
    def logits_dimension(self) -> int:
        return 1

    def _ids(self, logits: Any, labels: Any) -> Any:
        labels = base.check_labels(labels, logits, 1)
        return base.check_range(labels.astype(np.float32), 2)

    def _losses(self, ids: Any, logits: Any) -> Any:
        return sigmoid_cross_entropy(ids, logits)

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        known = (
            "logits",
            "logistic",
            "probabilities",
            "class_ids",
            "classes",
            "all_class_ids",
            "all_classes",
        )
        keys = base.check_keys(keys, known)
        logits = base.check_logits(logits, 1)
        made: dict[Any, Any] = {}
        if "logits" in keys:
            made["logits"] = logits
        if "logistic" in keys:
            made["logistic"] = jax.nn.sigmoid(logits)
        both = jnp.concatenate([jnp.zeros_like(logits), logits], -1)
        return made | self._class_predictions(logits, both, keys)

    def metrics(self, regularization_losses: Any = None) -> dict[str, keras.Metric]:
        kinds = keras.metrics
        made: dict[str, keras.Metric] = {
            "average_loss": kinds.Mean("average_loss"),
            "accuracy": kinds.Accuracy("accuracy"),
            "precision": kinds.Precision(name="precision"),
            "recall": kinds.Recall(name="recall"),
            "prediction/mean": kinds.Mean("prediction_mean"),
            "label/mean": kinds.Mean("label_mean"),
            "accuracy_baseline": AccuracyBaseline("accuracy_baseline"),
            "auc": kinds.AUC(name="auc"),
            "auc_precision_recall": kinds.AUC(curve="PR", name="auc_precision_recall"),
        }
        if regularization_losses is not None:
            made["regularization_loss"] = kinds.Mean("regularization_loss")
        for each in self._thresholds:
            made |= metrics_of_threshold(each)
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
        logits = base.check_logits(logits, 1)
        ids = self._ids(logits, labels)
        losses, weights = self._losses_and_weights(ids, logits, features)
        predicted = (logits > 0).astype(np.float32)
        logistic = jax.nn.sigmoid(logits)
        by_name = {key: eval_metrics[self._named(key)] for key in ("accuracy", "precision")}
        by_name["recall"] = eval_metrics[self._named("recall")]
        for metric in by_name.values():
            base.compare(metric, ids, predicted, weights)
        for key, values in (
            ("average_loss", losses),
            ("prediction/mean", logistic),
            ("label/mean", ids),
            ("accuracy_baseline", ids),
        ):
            base.mean(eval_metrics[self._named(key)], values, weights)
        names = [name for each in self._thresholds for name in metrics_of_threshold(each)]
        for name in ("auc", "auc_precision_recall", *names):
            base.compare(eval_metrics[self._named(name)], ids, logistic, weights)
        if regularization_losses is not None:
            extra = base.total(regularization_losses)
            base.mean(eval_metrics[self._named("regularization_loss")], extra, None)
        return eval_metrics


class MultiClassHead(_ClassHead):
    """A logit for each of three classes or more, as ``tf.estimator.MultiClassHead``.

    Its loss is the softmax's cross entropy.

    Args:
        n_classes: how many classes there are.
        weight_column: the feature of the rows' weights, or its numeric column.
        label_vocabulary: the labels, if they are strings.
        loss_reduction: ``"sum_over_batch_size"`` or ``"sum"``.
        loss_fn: a function of labels and logits, and perhaps features, that gives each row's loss.
        name: ends the metrics' names.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> head = dl.estimator.MultiClassHead(3)
        >>> labels, logits = np.array([[1], [1]]), np.array([[10.0, 0, 0], [0, 10, 0]])
        >>> round(float(head.loss(labels, logits)), 2)
        5.0
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = base.MEAN,
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ):
        if n_classes is None or n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        vocabulary = base.check_vocabulary(label_vocabulary, n_classes)
        super().__init__(n_classes, weight_column, vocabulary, loss_reduction, loss_fn, name)

    @property
    def logits_dimension(self) -> int:
        return self._classes

    def _ids(self, logits: Any, labels: Any) -> Any:
        labels = base.check_labels(labels, logits, 1)
        if labels.dtype.kind not in "iu":
            raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        return base.check_range(labels, self._classes)

    def _losses(self, ids: Any, logits: Any) -> Any:
        # Of numbers out of range it is NaN, and so is the loss, which ends the training.
        wanted = jnp.where(ids < 0, self._classes, ids)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), wanted, -1, mode="fill")

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        known = (
            "logits",
            "probabilities",
            "class_ids",
            "classes",
            "all_class_ids",
            "all_classes",
        )
        keys = base.check_keys(keys, known)
        logits = base.check_logits(logits, self._classes)
        made: dict[Any, Any] = {"logits": logits} if "logits" in keys else {}
        return made | self._class_predictions(logits, logits, keys)

    def metrics(self, regularization_losses: Any = None) -> dict[str, keras.Metric]:
        made: dict[str, keras.Metric] = {"average_loss": keras.metrics.Mean("average_loss")}
        if regularization_losses is not None:
            made["regularization_loss"] = keras.metrics.Mean("regularization_loss")
        made["accuracy"] = keras.metrics.Accuracy("accuracy")
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
        ids = self._ids(logits, labels)
        losses, weights = self._losses_and_weights(ids, logits, features)
        base.mean(eval_metrics[self._named("average_loss")], losses, weights)
        predicted = jnp.argmax(logits, -1)[..., None]
        base.compare(eval_metrics[self._named("accuracy")], ids, predicted, weights)
        if regularization_losses is not None:
            extra = base.total(regularization_losses)
            base.mean(eval_metrics[self._named("regularization_loss")], extra, None)
        return eval_metrics


def metrics_of_threshold(threshold: float) -> dict[str, keras.Metric]:
    """New metrics of a class that is predicted above a threshold."""
    ends = f"positive_threshold_{threshold:g}"
    name = ends.replace(".", "_")
    return {
        f"accuracy/{ends}": keras.metrics.BinaryAccuracy(f"accuracy_{name}", threshold=threshold),
        f"precision/{ends}": keras.metrics.Precision(threshold, name=f"precision_{name}"),
        f"recall/{ends}": keras.metrics.Recall(threshold, name=f"recall_{name}"),
    }


def sigmoid_cross_entropy(labels: Any, logits: Any) -> Any:
    """The cross entropy of each logit, for labels from 0 to 1."""
    # Not by the logit's absolute value, whose slope at 0, where training begins, is not 0 in JAX.
    return jax.nn.softplus(logits) - logits * labels


def binary_or_multi_class(kinds: Any, classes: int, **options: Any) -> base.Head:
    """The head of a classifier, of the classes of heads that a module or namespace has."""
    if classes == 2:
        made: base.Head = kinds.BinaryClassHead(**options)
        return made
    made = kinds.MultiClassHead(classes, **options)
    return made
