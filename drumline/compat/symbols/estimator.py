"""``tf.estimator``, also as ``tf.compat.v1.estimator``."""

from drumline.compat.symbols.table import area

_MODULE = "drumline.estimator."


def _both(names: str) -> str:
    return " ".join(f"{prefix}{name}" for name in names.split() for prefix in _PREFIXES)


_PREFIXES = ("estimator.", "compat.v1.estimator.")
_TRACED = (
    "model_fn is called when steps are traced, and must make the same variables each time; "
    "checkpoints are drumline's; without export_saved_model"
)

AREA = (
    *area(
        _MODULE + "spec",
        ModeKeys=_both("ModeKeys"),
        EstimatorSpec=_both("EstimatorSpec"),
        differences={
            "EstimatorSpec": "eval_metric_ops are metrics of Keras alone; a scaffold is refused"
        },
    ),
    *area(
        _MODULE + "config",
        RunConfig=_both("RunConfig"),
        differences={
            "RunConfig": "strategies of parameter servers, keep_checkpoint_every_n_hours, "
            "device_fn, protocol, experimental_distribute and "
            "experimental_max_worker_delay_secs are refused",
        },
    ),
    *area(
        "drumline.compat.v1.estimator",
        TensorEstimator=_both("Estimator"),
        differences={"TensorEstimator": _TRACED},
    ),
    *area(
        _MODULE + "train_and_evaluate",
        TrainSpec=_both("TrainSpec"),
        EvalSpec=_both("EvalSpec"),
        train_and_evaluate=_both("train_and_evaluate"),
        differences={
            "EvalSpec": "exporters are refused",
            "train_and_evaluate": "a task of the type ps is refused",
        },
    ),
    *area(
        _MODULE + "training_hooks",
        {
            name: f"estimator.{name} compat.v1.train.{name}"
            for name in (
                "NanLossDuringTrainingError",
                "SecondOrStepTimer",
                "CheckpointSaverHook",
                "StepCounterHook",
                "LoggingTensorHook",
                "NanTensorHook",
                "FinalOpsHook",
                "ProfilerHook",
            )
        },
        InMemoryEvaluatorHook=_both("experimental.InMemoryEvaluatorHook"),
        differences={
            "LoggingTensorHook": "tensors are those of model_fn, for the hooks that it returns; "
            "not names of operations",
            "CheckpointSaverHook": "savers and scaffolds are refused",
        },
    ),
    *area(
        _MODULE + "warm_start",
        WarmStartSettings=_both("WarmStartSettings"),
        VocabInfo=_both("VocabInfo") + " compat.v1.train.VocabInfo",
    ),
    *area(
        _MODULE + "experimental.early_stopping",
        {
            name: _both(f"experimental.{name}")
            for name in (
                "make_early_stopping_hook",
                "stop_if_higher_hook",
                "stop_if_lower_hook",
                "stop_if_no_increase_hook",
                "stop_if_no_decrease_hook",
            )
        },
    ),
    *area(
        _MODULE + "hooks",
        {
            name: f"estimator.{name} compat.v1.train.{name}"
            for name in (
                "SessionRunHook",
                "SessionRunContext",
                "SessionRunArgs",
                "SessionRunValues",
                "CheckpointSaverListener",
                "StopAtStepHook",
            )
        },
        differences={"SessionRunArgs": "fetches are variables; sessions are None"},
    ),
)
