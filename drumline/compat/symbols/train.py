"""``tf.train``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.training.checkpoints",
        TensorCheckpoint="train.Checkpoint",
        ManagerOfTensors="train.CheckpointManager",
        CheckpointOptions="train.CheckpointOptions",
        PythonState="train.experimental.PythonState",
        latest_checkpoint="train.latest_checkpoint",
        get_checkpoint_state="train.get_checkpoint_state",
        checkpoints_iterator="train.checkpoints_iterator",
        load_checkpoint="train.load_checkpoint",
        list_variables="train.list_variables",
        load_variable="train.load_variable",
        differences={
            "TensorCheckpoint": (
                "files have drumline's own format, safetensors; those of TensorFlow are not read. "
                "Layers of a Sequential model and variables of optimizers are found by their "
                "order, and not by name; `root` is saved under the name root"
            ),
            "ManagerOfTensors": "keep_checkpoint_every_n_hours is refused",
            "CheckpointOptions": (
                "saving is never in the background: a checkpoint is on the disk when save returns"
            ),
            "list_variables": (
                "names are as TensorFlow's where attributes lead to variables; there is no "
                "_CHECKPOINTABLE_OBJECT_GRAPH"
            ),
        },
    ),
    *area(
        "drumline.compat.training.helpers",
        ExponentialMovingAverage="train.ExponentialMovingAverage",
        Coordinator="train.Coordinator",
        differences={"ExponentialMovingAverage": "names of averages have no number at their end"},
    ),
    *same_names(
        "drumline.train",
        "train.",
        "BytesList ClusterSpec Example Feature FeatureList FeatureLists Features FloatList "
        "Int64List SequenceExample",
    ),
)
