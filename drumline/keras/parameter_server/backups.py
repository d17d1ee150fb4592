"""`BackupAndRestore` of a model on parameter servers: each server saves its own part."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import keras

from drumline._local_path import has_scheme
from drumline.keras.state import is_on_servers
from drumline.training.checkpoint import Checkpoint, CheckpointManager
from drumline.training.checkpoint.checkpoint import restore_newest_whole
from drumline.training.checkpoint.file_format import file_of
from drumline.training.checkpoint.index import listed

_NAME = "latest"


class Progress:
    """How far a training is, as a part of its checkpoint.

    Args:
        epoch: the number of epochs that have ended.
    """

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch

    def state(self) -> dict[str, int]:
        """What a checkpoint holds."""
        return {"epoch": self.epoch}

    def restore(self, state: dict[str, int]) -> None:
        """Be as it was when `state` was asked for."""
        self.epoch = state["epoch"]


def saved_by_servers(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``BackupAndRestore._save_model``: a model on servers is saved as a `Checkpoint`."""

    def save_model(self: Any) -> None:
        if not is_on_servers(self.model):
            save(self)
            return
        progress = Progress(self._current_epoch)
        _manager(self, progress).save()

    return save_model


def restored_by_servers(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``BackupAndRestore._load_model``: what servers saved is restored on any strategy."""

    def load_model(self: Any) -> None:
        if has_scheme(self.backup_dir) and not is_on_servers(self.model):
            # Keras's own files may be remote, where TensorFlow is installed.
            load(self)
            return
        saved = listed(self.backup_dir)
        if not saved or _is_older(saved[-1], self._weights_path):
            load(self)
            return
        _require_built(self.model)
        progress = Progress()
        manager = _manager(self, progress)
        _, status, _ = restore_newest_whole(manager.checkpoint, saved)
        status.expect_partial()
        self.model._initial_epoch = progress.epoch

    return load_model


def _manager(callback: Any, progress: Progress) -> CheckpointManager:
    checkpoint = Checkpoint(model=callback.model, progress=progress)
    kept = 2 if callback.double_checkpoint else 1
    manager = CheckpointManager(checkpoint, callback.backup_dir, kept, _NAME)
    saved = manager.checkpoints
    if saved:
        checkpoint.save_counter = int(saved[-1].rpartition("-")[2])
    return manager


def _is_older(checkpoint: str, keras_own: str) -> bool:
    """Whether Keras's own backup, of a start without parameter servers, is the latest."""
    if not os.path.exists(keras_own):
        return False
    return os.path.getmtime(file_of(checkpoint)) < os.path.getmtime(keras_own)


def _require_built(model: keras.Model) -> None:
    if not model.built:
        raise ValueError(
            f"BackupAndRestore restores model {model.name!r}, which is not built. Build it before "
            "`fit`, for instance with a keras.Input as its first layer."
        )
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
