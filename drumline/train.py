"""What keeps a long training going, as ``tf.train``: checkpoints, and the cluster's tasks."""

from drumline.distribute.cluster_resolver import ClusterSpec
from drumline.training.checkpoint import (
    Checkpoint,
    CheckpointManager,
    CheckpointStatus,
    latest_checkpoint,
)

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "CheckpointStatus",
    "ClusterSpec",
    "latest_checkpoint",
]
