"""What signatures of a model for serving give, as a model_fn's ``export_outputs`` state it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SINGLE_OUTPUT = "output"


class ExportOutput:
    """What a signature gives, as ``tf.estimator.export.ExportOutput``."""

    @property
    def tensors(self) -> dict[str, Any]:
        """The tensors by name."""
        raise NotImplementedError


class ClassificationOutput(ExportOutput):
    """Scores of classes, their names, or both: ``tf.estimator.export.ClassificationOutput``.

    Args:
        scores: numbers (batch, classes).
        classes: strings (batch, classes).

    Raises:
        ValueError: there is neither.
    """

    def __init__(self, scores: Any = None, classes: Any = None):
        if scores is None and classes is None:
            raise ValueError(
                "Cannot create a ClassificationOutput with empty arguments. At least one of "
                '"scores" and "classes" must be defined.'
            )
        self.scores, self.classes = scores, classes

    @property
    def tensors(self) -> dict[str, Any]:
        given = {"scores": self.scores, "classes": self.classes}
        return {name: each for name, each in given.items() if each is not None}


class RegressionOutput(ExportOutput):
    """Numbers: ``tf.estimator.export.RegressionOutput``.

    Args:
        value: the numbers.
    """

    def __init__(self, value: Any):
        self.value = value

    @property
    def tensors(self) -> dict[str, Any]:
        return {"outputs": self.value}


class PredictOutput(ExportOutput):
    """Tensors by name: ``tf.estimator.export.PredictOutput``.

    Args:
        outputs: a tensor, or a dictionary; keys of several parts are joined by ``/``.
    """

    def __init__(self, outputs: Any):
        given = outputs if isinstance(outputs, Mapping) else {SINGLE_OUTPUT: outputs}
        self.outputs = {
            "/".join(key) if isinstance(key, tuple) else str(key): each
            for key, each in given.items()
        }

    @property
    def tensors(self) -> dict[str, Any]:
        return dict(self.outputs)


class EvalOutput(ExportOutput):
    """A loss and predictions: ``tf.estimator.export.EvalOutput``.

    Args:
        loss: a scalar.
        predictions: a tensor, or a dictionary.
        metrics: Keras's, by name; they are no tensors, and not part of the signature.
    """

    def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None):
        self.loss, self.predictions, self.metrics = loss, predictions, metrics

    @property
    def tensors(self) -> dict[str, Any]:
        found = {} if self.loss is None else {"loss": self.loss}
        if self.predictions is not None:
            given = PredictOutput(self.predictions).outputs
            found |= {f"predictions/{name}": each for name, each in given.items()}
        return found
