"""Evaluating the checkpoints of a training while it goes on, in a process of its own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from drumline._local_path import local_path
from drumline.keras.checkpoint_files import CheckpointFile, checkpoint_files
from drumline.keras.checkpoint_loading import load_weights
from drumline.training.checkpoint.file_format import DamagedCheckpointError

POLL_SECONDS = 1.0
"""How often the directory is looked at; a file of Keras's is read when it has not changed for so
long."""

RETRY_SECONDS = 5.0
"""For how long loading is tried again while a file does not change."""

_log = logging.getLogger("drumline")


class SidecarEvaluator:
    """Evaluates the checkpoints that a training writes, as ``tf.keras.utils.SidecarEvaluator``.

    It runs in a process of its own, the task ``evaluator`` of a cluster, and computes with this
    process's devices only. Checkpoints are what ``keras.callbacks.ModelCheckpoint`` writes
    (``*.keras``, ``*.weights.h5``) and what `dl.train.Checkpoint` and `CheckpointManager` save, of
    which the object called ``model`` is evaluated.

    Args:
        model: compiled, and built like the one that is trained.
        data: what ``model.evaluate`` takes as ``x``, to be gone through for every checkpoint.
        checkpoint_dir: where the training writes; it may come to be later.
        steps: how many batches make an evaluation; by default all.
        max_evaluations: the number in the name of the last checkpoint (``ckpt-7.weights.h5``),
            after which `start` returns; by default it never does.
        callbacks: for ``model.evaluate``. The optimizer's ``iterations`` are the checkpoint's, so
            that `TensorBoard` shows results by the step of the training.

    Raises:
        ValueError: if the model is not compiled, `max_evaluations` is not positive, or
            `checkpoint_dir` is a URL.
    """

    def __init__(
        self,
        model: keras.Model,
        data: Any,
        checkpoint_dir: str | os.PathLike[str],
        steps: int | None = None,
        max_evaluations: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
    ) -> None:
        if not model.compiled:
            raise ValueError(
                f"SidecarEvaluator needs a compiled model, and {model.name!r} is not: call "
                "model.compile(loss=..., metrics=[...]) first."
            )
        if max_evaluations is not None and max_evaluations < 1:
            raise ValueError(f"max_evaluations must be positive or None, got {max_evaluations}.")
        self.model = model
        self.data = data
        self.checkpoint_dir = local_path(checkpoint_dir, "SidecarEvaluator", "the directory")
        self.steps = steps
        self.max_evaluations = max_evaluations
        self.callbacks = list(callbacks or [])

    def start(self) -> None:
        """Evaluate every checkpoint that is there or comes, in the order of their numbers.

        One that is deleted before its turn is left out, one that is written again is evaluated
        again, and a damaged one is left out with a warning. Ctrl-C ends it as any Python code.

        Raises:
            ValueError: if a checkpoint is of another model, or `max_evaluations` was given and a
                checkpoint has no number.
        """
        for file in self._new_files():
            last = self._is_last(file)
            self._build()
            if not self._loaded(file):
                continue
            print(f"Evaluating checkpoint {file.path}", flush=True)
            self.model.evaluate(self.data, steps=self.steps, callbacks=self.callbacks, verbose=2)
            if last:
                return

    def _new_files(self) -> Iterator[CheckpointFile]:
        """What is to be evaluated next, again and again."""
        taken: dict[str, Any] = {}
        first_seen: dict[CheckpointFile, float] = {}
        waiting = False
        while True:
            now = time.monotonic()
            found = checkpoint_files(self.checkpoint_dir)
            first_seen = {file: first_seen.get(file, now) for file in found}
            file = next((f for f in found if taken.get(f.path) != f.stamp), None)
            if file is not None and now - first_seen[file] >= POLL_SECONDS * file.of_keras:
                taken[file.path] = file.stamp
                waiting = False
                yield file
                continue
            if file is None and not waiting:
                waiting = True
                self._say_waiting(found)
            time.sleep(POLL_SECONDS)

    def _say_waiting(self, found: Sequence[CheckpointFile]) -> None:
        missing = "" if os.path.isdir(self.checkpoint_dir) else ", which does not exist yet"
        which = "further checkpoints" if found else "checkpoints"
        print(f"Waiting for {which} in {self.checkpoint_dir}{missing}", flush=True)

    def _is_last(self, file: CheckpointFile) -> bool:
        if self.max_evaluations is None:
            return False
        if file.number is None:
            raise ValueError(
                f"max_evaluations is the number of the last checkpoint, and {file.path!r} has no "
                "number. Put the epoch into the name, as in 'ckpt-{epoch}.weights.h5', or leave "
                "max_evaluations out."
            )
        return file.number >= self.max_evaluations

    def _build(self) -> None:
        if not self.model.built:
            self.model.evaluate(self.data, steps=1, verbose=0)

    def _loaded(self, file: CheckpointFile) -> bool:
        """Whether the model has the weights in `file`, which is what it was all the while."""
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                load_weights(self.model, file)
            except Exception as error:
                failure = error
            else:
                return file.is_unchanged()
            if not file.exists():
                _log.warning("The checkpoint %r was deleted before its turn.", file.path)
                return False
            if not file.is_unchanged():
                return False
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_SECONDS)
        if isinstance(failure, ValueError) and not isinstance(failure, DamagedCheckpointError):
            raise failure
        _log.warning("The checkpoint %r is damaged and left out: %s", file.path, failure)
        return False
