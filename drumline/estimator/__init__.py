"""``dl.estimator``: models as functions of features, labels and a mode, with checkpoints.

As ``tf.estimator``, of which TensorFlow 2.15 was the last to have it. A ``model_fn`` makes Keras's
models, layers and optimizers, and gets the arrays of a ``dl.data.Dataset``.
"""

from drumline.estimator import experimental, export
from drumline.estimator.config import RunConfig
from drumline.estimator.estimator import Estimator
from drumline.estimator.export.exporters import (
    BestExporter,
    Exporter,
    FinalExporter,
    LatestExporter,
)
from drumline.estimator.graph import get_global_step
from drumline.estimator.hooks.session_hooks import (
    CheckpointSaverListener,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StopAtStepHook,
)
from drumline.estimator.hooks.training_hooks import (
    CheckpointSaverHook,
    FinalOpsHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    StepCounterHook,
)
from drumline.estimator.premade import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
    BinaryClassHead,
    CategoryColumn,
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    Head,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
    LogisticRegressionHead,
    MultiClassHead,
    MultiHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
    add_metrics,
    model_to_estimator,
)
from drumline.estimator.spec import EstimatorSpec, ModeKeys, Scaffold
from drumline.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate
from drumline.estimator.warm_start import VocabInfo, WarmStartSettings

__all__ = [
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "BestExporter",
    "BinaryClassHead",
    "CategoryColumn",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "FinalOpsHook",
    "Head",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "LoggingTensorHook",
    "LogisticRegressionHead",
    "ModeKeys",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "PoissonRegressionHead",
    "ProfilerHook",
    "RegressionHead",
    "RunConfig",
    "Scaffold",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "TrainSpec",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "experimental",
    "export",
    "get_global_step",
    "model_to_estimator",
    "train_and_evaluate",
]
