"""Keeping the last few checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

from drumline.training.checkpoint import kept_directories
from drumline.training.checkpoint.checkpoint import Checkpoint
from drumline.training.checkpoint.file_format import checkpoint_path, file_of
from drumline.training.checkpoint.latest import latest_checkpoint, listed, record


class CheckpointManager:
    """Saves a checkpoint again and again, and keeps the latest, as ``tf.train.CheckpointManager``.

    Args:
        checkpoint: what is saved.
        directory: where; made if need be. Checkpoints that are there count as its own.
        max_to_keep: how many are kept, the older deleted; None keeps all.
        checkpoint_name: the first part of the checkpoints' names.

    Raises:
        ValueError: if `max_to_keep` is not positive, or `directory` is a URL (``gs://...``).
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        checkpoint_name: str = "ckpt",
    ) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep must be a positive integer or None, got {max_to_keep}.")
        self._checkpoint = checkpoint
        self._directory = checkpoint_path(directory, "CheckpointManager")
        self._max_to_keep = max_to_keep
        self._name = checkpoint_name
        Path(self._directory).mkdir(parents=True, exist_ok=True)

    @property
    def directory(self) -> str:
        """Where checkpoints are kept."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints that are kept, the latest last."""
        return listed(self._directory)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the latest; None if there is none."""
        return latest_checkpoint(self._directory)

    def save(self, checkpoint_number: int | None = None) -> str:
        """Save a checkpoint, then delete those that are too many.

        Args:
            checkpoint_number: its number; by default one more than the last.

        Returns:
            Its path.
        """
        if checkpoint_number is not None:
            self._checkpoint.save_counter = int(checkpoint_number) - 1
        path, wrote = self._checkpoint.save_numbered(os.path.join(self._directory, self._name))
        if not wrote:
            return path
        present = self.checkpoints
        surplus = [] if self._max_to_keep is None else present[: -self._max_to_keep]
        if surplus:
            record(self._directory, present[len(surplus) :])
        for old in surplus:
            file_of(old).unlink(missing_ok=True)
            kept_directories.remove_others(old, None)
        return path

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return its path; None if there is none."""
        latest = self.latest_checkpoint
        self._checkpoint.restore(latest)
        return latest
