"""``tf.estimator``, also as ``tf.compat.v1.estimator``."""

from drumline.compat.symbols.table import area

_MODULE = "drumline.estimator."


def _both(names: str) -> str:
    return " ".join(f"{prefix}{name}" for name in names.split() for prefix in _PREFIXES)


_PREFIXES = ("estimator.", "compat.v1.estimator.")
_TRACED = (
    "model_fn is called when steps are traced, and must make the same variables each time; "
    "checkpoints are drumline's; exports are drumline's saved models, for predictions alone"
)
_PREMADE = tuple(
    f"{model}{kind}"
    for model in ("Baseline", "DNN", "DNNLinearCombined", "Linear")
    for kind in ("Classifier", "Estimator", "Regressor")
)
_OWN_NAMES = (
    "optimizers are Keras 3's, whose variables have other names; summaries are of the loss alone"
)

AREA = (
    *area(
        _MODULE + "spec",
        ModeKeys=_both("ModeKeys"),
        EstimatorSpec=_both("EstimatorSpec"),
        Scaffold="compat.v1.train.Scaffold",
        differences={
            "EstimatorSpec": "eval_metric_ops are metrics of Keras, or of tf.compat.v1.metrics",
            "Scaffold": "a saver is a tf.train.Checkpoint; operations and feeds are refused",
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
        "drumline.compat.v1.estimators.estimator",
        TensorEstimator=_both("Estimator"),
        differences={"TensorEstimator": _TRACED},
    ),
    *area(
        "drumline.compat.v1.estimators.premade",
        {name: f"estimator.{name}" for name in _PREMADE},
        differences=dict.fromkeys(_PREMADE, _OWN_NAMES),
    ),
    *area(
        "drumline.compat.v1.estimators.former_premade",
        {name: f"compat.v1.estimator.{name}" for name in _PREMADE},
        differences=dict.fromkeys(_PREMADE, f"{_OWN_NAMES}; a partitioner is refused"),
    ),
    *area(
        "drumline.compat.v1.estimators.premade",
        {
            name: _both(name)
            for name in (
                "BinaryClassHead",
                "MultiClassHead",
                "MultiLabelHead",
                "RegressionHead",
                "PoissonRegressionHead",
                "LogisticRegressionHead",
                "MultiHead",
            )
        },
    ),
    *area(
        "drumline.compat.v1.estimators.export",
        {
            name: _both(f"export.{name}")
            for name in (
                "ServingInputReceiver",
                "TensorServingInputReceiver",
                "build_parsing_serving_input_receiver_fn",
                "build_raw_serving_input_receiver_fn",
            )
        },
        differences={
            "ServingInputReceiver": "features are the receiver's tensors: there is no graph in "
            "which they are computed of others",
        },
    ),
    *area(
        _MODULE + "export.outputs",
        {
            name: _both(f"export.{name}")
            for name in (
                "ClassificationOutput",
                "EvalOutput",
                "ExportOutput",
                "PredictOutput",
                "RegressionOutput",
            )
        },
    ),
    *area(
        _MODULE + "export.exporters",
        {
            name: _both(name)
            for name in ("BestExporter", "Exporter", "FinalExporter", "LatestExporter")
        },
    ),
    *area(
        "drumline.compat.v1.estimators.parsing_specs",
        {
            name: _both(name)
            for name in ("classifier_parse_example_spec", "regressor_parse_example_spec")
        },
    ),
    *area(
        "drumline.compat.v1.estimators.premade",
        model_to_estimator="keras.estimator.model_to_estimator "
        "compat.v1.keras.estimator.model_to_estimator",
        differences={"model_to_estimator": "both checkpoint formats are drumline's"},
    ),
    *area(
        "drumline.compat.v1.estimators.inputs",
        {
            name: f"compat.v1.estimator.inputs.{name}"
            for name in ("numpy_input_fn", "pandas_input_fn")
        },
    ),
    *area(_MODULE + "premade.heads.base", Head=_both("Head")),
    *area(_MODULE + "premade.model", add_metrics=_both("add_metrics")),
    *area(
        _MODULE + "train_and_evaluate",
        TrainSpec=_both("TrainSpec"),
        EvalSpec=_both("EvalSpec"),
        train_and_evaluate=_both("train_and_evaluate"),
        differences={
            "train_and_evaluate": "a task of the type ps is refused",
        },
    ),
    *area(
        _MODULE + "hooks.training_hooks",
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
            "CheckpointSaverHook": "a saver is a tf.train.Checkpoint",
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
        _MODULE + "hooks.session_hooks",
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
