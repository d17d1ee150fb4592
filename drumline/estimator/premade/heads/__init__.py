"""What a model's logits mean: its loss, metrics and predictions."""

from drumline.estimator.premade.heads.base import Head
from drumline.estimator.premade.heads.classification import BinaryClassHead, MultiClassHead
from drumline.estimator.premade.heads.multi_head import MultiHead
from drumline.estimator.premade.heads.multi_label import MultiLabelHead
from drumline.estimator.premade.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)

__all__ = [
    "BinaryClassHead",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
]
