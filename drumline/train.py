"""What keeps a long training going, as ``tf.train``: checkpoints."""

from drumline.training.checkpoint import (
    Checkpoint,
    CheckpointManager,
    CheckpointStatus,
    latest_checkpoint,
)

__all__ = ["Checkpoint", "CheckpointManager", "CheckpointStatus", "latest_checkpoint"]
