"""Saving and restoring the state of a program; ``drumline.train`` is its public face."""

from drumline.training.checkpoint.checkpoint import Checkpoint
from drumline.training.checkpoint.latest import latest_checkpoint
from drumline.training.checkpoint.manager import CheckpointManager
from drumline.training.checkpoint.status import CheckpointStatus

__all__ = ["Checkpoint", "CheckpointManager", "CheckpointStatus", "latest_checkpoint"]
