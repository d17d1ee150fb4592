"""``tf.keras``: what differs from Keras 3's own modules, which have all else."""

from drumline.compat.symbols.table import area, same_names

_OPTIMIZERS = "Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Nadam Optimizer RMSprop SGD"
_LOSSES = (
    "mean_squared_error mean_absolute_error mean_absolute_percentage_error "
    "mean_squared_logarithmic_error kl_divergence log_cosh cosine_similarity"
)
_PREPROCESSING = (
    "CenterCrop CategoryEncoding Discretization Normalization RandomContrast RandomCrop RandomFlip "
    "RandomRotation RandomTranslation RandomZoom Rescaling Resizing"
)
_EXPERIMENTAL = "keras.layers.experimental.preprocessing."


def _under(names: str, *prefixes: str) -> dict[str, str]:
    return {name: " ".join(prefix + name for prefix in prefixes) for name in names.split()}


_BACKEND = (
    "all any arange argmax argmin batch_dot batch_flatten batch_get_value batch_set_value bias_add "
    "binary_crossentropy cast cast_to_floatx categorical_crossentropy clip concatenate "
    "constant count_params dot dropout dtype expand_dims eye flatten gather get_value "
    "hard_sigmoid int_shape l2_normalize max mean min ndim one_hot ones_like permute_dimensions "
    "pow prod relu repeat repeat_elements reshape reverse set_value shape softplus softsign "
    "sparse_categorical_crossentropy sqrt squeeze stack std stop_gradient sum switch tile "
    "transpose update update_add update_sub var variable zeros_like"
)
_BACKEND_ELEMENTWISE = (
    "abs cos sin exp log round sign square maximum minimum equal not_equal greater greater_equal "
    "less less_equal sigmoid tanh"
)

AREA = (
    *same_names("drumline.compat.keras.backend", "keras.backend.", _BACKEND),
    *area(
        "drumline.compat.ops.math.reductions",
        reduce_logsumexp="keras.backend.logsumexp",
        cumsum="keras.backend.cumsum",
        cumprod="keras.backend.cumprod",
    ),
    *same_names("drumline.compat.ops.elementwise", "keras.backend.", _BACKEND_ELEMENTWISE),
    *same_names("drumline.compat.ops.arrays", "keras.backend.", "zeros ones"),
    *same_names("drumline.compat.ops.nn.functions", "keras.backend.", "softmax elu"),
    *area("drumline.keras.callbacks", KerasTensorBoard="keras.callbacks.TensorBoard"),
    *area(
        "drumline.compat.keras.names",
        {
            "__version__": "keras.__version__",
            "ModelCheckpoint": "keras.callbacks.ModelCheckpoint",
            "load_model": "keras.models.load_model keras.saving.load_model",
            "SyncBatchNormalization": "keras.layers.experimental.SyncBatchNormalization",
            "keras.mixed_precision.set_dtype_policy": (
                "keras.mixed_precision.experimental.set_policy"
            ),
            "keras.mixed_precision.dtype_policy": (
                "keras.mixed_precision.experimental.global_policy"
            ),
            "keras.mixed_precision.DTypePolicy": "keras.mixed_precision.experimental.Policy",
            "keras.mixed_precision.LossScaleOptimizer": (
                "keras.mixed_precision.experimental.LossScaleOptimizer"
            ),
            "keras.optimizers.schedules.CosineDecay": "keras.experimental.CosineDecay",
            "keras.optimizers.schedules.CosineDecayRestarts": (
                "keras.experimental.CosineDecayRestarts"
            ),
            **{
                "keras.layers." + name: names
                for name, names in _under(_PREPROCESSING, _EXPERIMENTAL).items()
            },
            **{
                "keras.initializers." + attribute: name
                for attribute, name in {
                    "RandomNormal": "random_normal_initializer",
                    "RandomUniform": "random_uniform_initializer",
                    "Zeros": "zeros_initializer",
                    "Ones": "ones_initializer",
                    "Constant": "constant_initializer",
                }.items()
            },
            **_under(_LOSSES, "keras.losses.", "keras.metrics."),
            **{
                "keras.optimizers." + name: names
                for name, names in _under(
                    _OPTIMIZERS, "keras.optimizers.legacy.", "keras.optimizers.experimental."
                ).items()
            },
        },
        image_dataset_from_directory=(
            "keras.utils.image_dataset_from_directory "
            "keras.preprocessing.image_dataset_from_directory"
        ),
        text_dataset_from_directory=(
            "keras.utils.text_dataset_from_directory "
            "keras.preprocessing.text_dataset_from_directory"
        ),
        DatasetCreatorOfTensors="keras.utils.experimental.DatasetCreator",
        get_file="keras.utils.get_file",
        audio_dataset_from_directory="keras.utils.audio_dataset_from_directory",
        timeseries_dataset_from_array=(
            "keras.utils.timeseries_dataset_from_array "
            "keras.preprocessing.timeseries_dataset_from_array"
        ),
        differences={
            "ModelCheckpoint": "adds the suffix that Keras 3 wants to a path without",
            "get_file": "extracted files and the archive are found where TensorFlow 2 before "
            "Keras 3 had them, not a folder deeper",
            "load_model": "directories are those of Model.save here, not TensorFlow's SavedModel",
        },
    ),
    *area(
        "drumline.compat.keras.program_layer",
        ProgramLayer="keras.layers.TFSMLayer",
        differences={"ProgramLayer": "reads what this package saved, not TensorFlow's SavedModel"},
    ),
    *area(
        "drumline.compat.keras.string_layers",
        StringLookupOfTensors=f"keras.layers.StringLookup {_EXPERIMENTAL}StringLookup",
        IntegerLookupOfTensors=f"keras.layers.IntegerLookup {_EXPERIMENTAL}IntegerLookup",
        TextVectorizationOfTensors=(
            f"keras.layers.TextVectorization {_EXPERIMENTAL}TextVectorization"
        ),
        HashingOfTensors=f"keras.layers.Hashing {_EXPERIMENTAL}Hashing",
        HashedCrossingOfTensors="keras.layers.HashedCrossing",
        differences=dict.fromkeys(
            (
                "StringLookupOfTensors",
                "IntegerLookupOfTensors",
                "TextVectorizationOfTensors",
                "HashingOfTensors",
                "HashedCrossingOfTensors",
            ),
            "there are no sparse outputs",
        ),
    ),
)
