"""As ``tf.train``: checkpoints and the cluster's tasks; messages that records are made of."""

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
    "CheckpointManager",
    "CheckpointStatus",
    "ClusterSpec",
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
    "SequenceExample",
    "TerminationConfig",
    "aws_termination_watcher",
    "azure_termination_watcher",
    "gce_termination_watcher",
    "latest_checkpoint",
]
