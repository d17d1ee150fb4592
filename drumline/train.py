"""As ``tf.train``: checkpoints and the cluster's tasks; messages that records are made of."""

from drumline.checkpoints.conversion import ConversionError, convert_checkpoint
from drumline.checkpoints.formats import open_checkpoint, verify_checkpoint
from drumline.checkpoints.reader import CheckpointFileError, SavedTensors
from drumline.checkpoints.weights import load_weights
from drumline.data.storage.messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from drumline.distribute.cluster_resolver import ClusterSpec
from drumline.distribute.cluster_resolver.cloud_notices import (
    aws_termination_watcher,
    azure_termination_watcher,
    gce_termination_watcher,
)
from drumline.distribute.process_group.preemption import (
    PreemptionCheckpointHandler,
    TerminationConfig,
)
from drumline.training.checkpoint import (
    Checkpoint,
    CheckpointManager,
    CheckpointStatus,
    DamagedCheckpointError,
    DirectoryInUseError,
    latest_checkpoint,
)

__all__ = [
    "BytesList",
    "Checkpoint",
    "CheckpointFileError",
    "CheckpointManager",
    "CheckpointStatus",
    "ClusterSpec",
    "ConversionError",
    "DamagedCheckpointError",
    "DirectoryInUseError",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "PreemptionCheckpointHandler",
    "SavedTensors",
    "SequenceExample",
    "TerminationConfig",
    "aws_termination_watcher",
    "azure_termination_watcher",
    "convert_checkpoint",
    "gce_termination_watcher",
    "latest_checkpoint",
    "load_weights",
    "open_checkpoint",
    "verify_checkpoint",
]
