"""``dl.estimator``: models as functions of features, labels and a mode, with checkpoints.

As ``tf.estimator``, of which TensorFlow 2.15 was the last to have it. A ``model_fn`` makes Keras's
models, layers and optimizers, and gets the arrays of a ``dl.data.Dataset``.
"""

from drumline.estimator import experimental
from drumline.estimator.config import RunConfig
from drumline.estimator.estimator import Estimator
from drumline.estimator.graph import get_global_step
from drumline.estimator.hooks import (
    CheckpointSaverListener,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StopAtStepHook,
)
from drumline.estimator.spec import EstimatorSpec, ModeKeys
from drumline.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate
from drumline.estimator.training_hooks import (
    CheckpointSaverHook,
    FinalOpsHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    StepCounterHook,
)
from drumline.estimator.warm_start import VocabInfo, WarmStartSettings

__all__ = [
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "FinalOpsHook",
    "LoggingTensorHook",
    "ModeKeys",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "RunConfig",
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
    "experimental",
    "get_global_step",
    "train_and_evaluate",
]
