"""``tf.saved_model``."""

from drumline.compat.symbols.table import same_names

AREA = (
    *same_names(
        "drumline.compat.training.saved_model",
        "saved_model.",
        "DEFAULT_SERVING_SIGNATURE_DEF_KEY LoadOptions SaveOptions save",
        differences={
            "save": (
                "writes one file of drumline's own, StableHLO and variables in safetensors, which "
                "TensorFlow does not load (Model.export writes one for it, too, where TensorFlow "
                "is installed); functions of strings are not saved, nor assets"
            ),
        },
    ),
    *same_names(
        "drumline.compat.training.restored",
        "saved_model.",
        "contains_saved_model load",
        differences={
            "load": (
                "reads what save and Model.export of this package wrote, and directories of "
                "Model.save, whose classes must be known"
            )
        },
    ),
)
