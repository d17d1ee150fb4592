"""``dl.estimator.export``: what a model for serving gives, as a model_fn's ``export_outputs``."""

from drumline.estimator.export.outputs import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)

__all__ = [
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
]
