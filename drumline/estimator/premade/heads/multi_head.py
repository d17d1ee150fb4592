"""`MultiHead`: several heads of one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from drumline.estimator.export.outputs import PredictOutput
from drumline.estimator.premade.heads import base


class MultiHead(base.Head):
    """Heads side by side, as ``tf.estimator.MultiHead``.

    Labels are a dictionary by the heads' names; logits are one array with those of all heads, or
    such a dictionary. Predictions have pairs of a head's name and a key as their keys.

    Args:
        heads: the heads, which have names.
        head_weights: by what each one's loss is multiplied; by default 1.

    Raises:
        ValueError: there is no head, one has no name, or there are not as many weights.

    Example:
        >>> first = dl.estimator.RegressionHead(name="size")
        >>> second = dl.estimator.BinaryClassHead(name="sold")
        >>> dl.estimator.MultiHead([first, second]).logits_dimension
        2
    """

    def __init__(self, heads: Sequence[base.Head], head_weights: Any = None):
        if not heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if head_weights and len(head_weights) != len(heads):
            raise ValueError(
                "heads and head_weights must have the same size. Given len(heads): "
                f"{len(heads)}. Given len(head_weights): {len(head_weights)}."
            )
        for head in heads:
            if head.name is None:
                raise ValueError(f"All given heads must have name specified. Given: {head}")
        self._heads = tuple(heads)
        self._weights = tuple(head_weights or [1.0] * len(heads))

    @property
    def name(self) -> str:
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        found = [head.loss_reduction for head in self._heads]
        if len(set(found)) > 1:
            raise ValueError(
                f"The loss_reduction must be the same for different heads. Given: {found}"
            )
        return found[0]

    def label_ids(self, labels: Any, lookup: Callable[[Sequence[str], Any], Any]) -> Any:
        if not isinstance(labels, Mapping):
            return labels
        own = {head.name: head for head in self._heads}
        return {
            name: own[name].label_ids(each, lookup) if name in own else each
            for name, each in labels.items()
        }

    def _split(self, logits: Any) -> dict[str, Any]:
        """The logits of each head."""
        if isinstance(logits, Mapping):
            missing = [head.name for head in self._heads if head.name not in logits]
            if missing:
                raise ValueError(f"logits has missing values for head(s): {missing}")
            return dict(logits)
        sizes = [head.logits_dimension for head in self._heads]
        if logits.shape[-1] != sum(sizes):
            raise ValueError(
                f"Could not split logits of shape {tuple(logits.shape)} among the heads with "
                f"individual logits dimensions: {sizes}. The last dimension of the logits tensor "
                f"should equal {sum(sizes)} but is {logits.shape[-1]}."
            )
        found, start = {}, 0
        for head, size in zip(self._heads, sizes, strict=True):
            found[str(head.name)] = logits[..., start : start + size]
            start += size
        return found

    def _check_labels(self, labels: Any) -> None:
        if not isinstance(labels, Mapping):
            raise ValueError(f"labels must be a dict. Given: {labels}")
        missing = [head.name for head in self._heads if head.name not in labels]
        if missing:
            raise ValueError(f"labels has missing values for head(s): {missing}")

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        self._check_labels(labels)
        parts = self._split(logits)
        found: Any = None
        for head, weight in zip(self._heads, self._weights, strict=True):
            name = str(head.name)
            each = weight * head.loss(
                labels=labels[name], logits=parts[name], features=features, mode=mode
            )
            found = each if found is None else found + each
        extra = base.total(regularization_losses)
        return found if extra is None else found + extra

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        parts = self._split(logits)
        return {
            (head.name, key): each
            for head in self._heads
            for key, each in head.predictions(logits=parts[str(head.name)]).items()
        }

    def metrics(self, regularization_losses: Any = None) -> dict[str, keras.Metric]:
        made: dict[str, keras.Metric] = {}
        if regularization_losses is not None:
            made[self._named("regularization_loss")] = keras.metrics.Mean("regularization_loss")
        for head in self._heads:
            made[f"loss/{head.name}"] = keras.metrics.Mean(f"loss_{head.name}")
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
        self._check_labels(labels)
        parts = self._split(logits)
        if regularization_losses is not None:
            extra = base.total(regularization_losses)
            base.mean(eval_metrics[self._named("regularization_loss")], extra, None)
        for head in self._heads:
            name = str(head.name)
            given = {"logits": parts[name], "labels": labels[name], "features": features}
            eval_metrics[f"loss/{name}"].update_state(head.loss(**given))
            eval_metrics.update(head.update_metrics(head.metrics(), **given))
        return eval_metrics

    def export_outputs(self, predictions: Mapping[Any, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for head in self._heads:
            own = {key: each for (name, key), each in predictions.items() if name == head.name}
            for key, output in head.export_outputs(own).items():
                found.setdefault(base.DEFAULT_SERVING_KEY, output)
                default = key == base.DEFAULT_SERVING_KEY
                found[str(head.name) if default else f"{head.name}/{key}"] = output
                if key == "predict":
                    each = {f"{head.name}/{name}": one for name, one in output.tensors.items()}
                    merged |= each
        found["predict"] = PredictOutput(merged)
        return found
