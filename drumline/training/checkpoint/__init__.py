"""Saving and restoring the state of a program; ``drumline.train`` is its public face."""

from drumline.training.checkpoint.checkpoint import Checkpoint, CheckpointManager, CheckpointStatus
from drumline.training.checkpoint.directory_lock import DirectoryInUseError
from drumline.training.checkpoint.file_format import DamagedCheckpointError
from drumline.training.checkpoint.index import latest_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "CheckpointStatus",
    "DamagedCheckpointError",
    "DirectoryInUseError",
    "latest_checkpoint",
]
