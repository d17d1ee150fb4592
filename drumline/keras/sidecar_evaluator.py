"""Evaluating the checkpoints of a running training, in a process of its own.

Three parts: find the checkpoints in a directory (`checkpoint_files`), load the weights of one into
a model (`load_weights`), and the loop over both (`SidecarEvaluator`).
"""

from __future__ import annotations

import io
import logging
import os
import re
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from drumline._local_path import local_path
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.file_format import DamagedCheckpointError, file_of
from drumline.training.checkpoint.index import listed
from drumline.training.checkpoint.restoration import Restoration, some

KERAS_SUFFIXES = (".weights.h5", ".keras")


@dataclass(frozen=True)
class CheckpointFile:
    """One checkpoint, as it is at one time.

    Attributes:
        path: what is passed to ``model.load_weights`` or `Checkpoint.restore`.
        number: the integer in its name, or None.
        stamp: changes when the file is written again.
        of_keras: whether Keras wrote it: not at once, so that it may be unfinished.
    """

    path: str
    number: int | None
    stamp: tuple[int, int, int]
    of_keras: bool

    def is_unchanged(self) -> bool:
        """Whether the file is still there as it was."""
        return stamp_of(self._file) == self.stamp

    def exists(self) -> bool:
        """Whether there is a file of that name."""
        return self._file.is_file()

    @property
    def _file(self) -> Path:
        return Path(self.path) if self.of_keras else file_of(self.path)


def checkpoint_files(directory: str | os.PathLike[str]) -> list[CheckpointFile]:
    """Return the checkpoints in `directory` by their numbers, those without one last."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    paths = [os.path.join(directory, name) for name in names if name.endswith(KERAS_SUFFIXES)]
    found = [_described(path, Path(path), of_keras=True) for path in paths]
    found += [_described(path, file_of(path), of_keras=False) for path in listed(directory)]
    return sorted(filter(None, found), key=_order)


def number_in(name: str) -> int | None:
    """Return the number of a checkpoint called `name`: 3 for ``ckpt-3`` and ``03-0.52.keras``.

    It stands by itself, as digits in words and decimals do not; with several, it is at the end.
    None if there is no such number.
    """
    stem = next((name.removesuffix(s) for s in KERAS_SUFFIXES if name.endswith(s)), name)
    parts = re.split(r"[-_]|\.(?!\d)|(?<!\d)\.", stem)
    numbers = [int(part) for part in parts if part.isdecimal()]
    if len(numbers) == 1 or (numbers and parts[-1].isdecimal()):
        return numbers[-1]
    return None


def stamp_of(file: Path) -> tuple[int, int, int] | None:
    """Return what changes when `file` is written again; None if there is no such file."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _described(path: str, file: Path, *, of_keras: bool) -> CheckpointFile | None:
    stamp = stamp_of(file)
    if stamp is None:
        return None
    return CheckpointFile(path, number_in(os.path.basename(path)), stamp, of_keras)


def _order(file: CheckpointFile) -> tuple[bool, int, list[tuple[int, str]]]:
    runs = re.findall(r"(\d*)(\D*)", file.path)
    return file.number is None, file.number or 0, [(int(n or 0), text) for n, text in runs]


_ITERATIONS = ("optimizer/inner_optimizer/vars/0", "optimizer/vars/0")


def load_weights(model: keras.Model, file: CheckpointFile) -> None:
    """Give `model` the weights in `file`, and its optimizer the number of steps they were trained.

    Raises:
        ValueError: if they are another model's, or the file is damaged.
        OSError: if it is damaged.
    """
    if file.of_keras:
        _load_keras_file(model, file.path)
    else:
        _restore_checkpoint(model, file.path)


def _load_keras_file(model: keras.Model, path: str) -> None:
    # The optimizer may be another than the training's, and its slots are not needed.
    optimizer, model.optimizer = model.optimizer, None
    try:
        model.load_weights(path)
    finally:
        model.optimizer = optimizer
    iterations = _saved_iterations(path)
    if iterations is not None and optimizer is not None:
        optimizer.iterations.assign(iterations)


def _saved_iterations(path: str) -> int | None:
    source: Any = path
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as archive:
            source = io.BytesIO(archive.read("model.weights.h5"))
    import h5py  # takes long to load, and most programs read no weights

    with h5py.File(source, "r") as weights:
        for name in _ITERATIONS:
            if name in weights and weights[name].shape == ():
                return int(np.asarray(weights[name]))
    return None


def _restore_checkpoint(model: keras.Model, path: str) -> None:
    snapshot = file_format.read(path)
    names = {name.split("/")[0] for name in (*snapshot.paths, *snapshot.aliases)}
    if "model" not in names:
        raise ValueError(
            f"The checkpoint {path!r} holds {sorted(names)}, and no 'model' to evaluate. Save it "
            "as dl.train.Checkpoint(model=model, ...)."
        )
    objects = {"model": model}
    if "optimizer" in names and model.optimizer is not None:
        objects = {"optimizer": model.optimizer, **objects}
    restoration = Restoration(path, snapshot)
    restoration.leftover.expected = True
    restoration.restore(objects)
    missing = [name for name in restoration.missing if "optimizer" not in name.split("/")]
    if missing:
        raise ValueError(
            f"The checkpoint {path!r} has no value for {some(missing)}: it is of another model."
        )


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
        """Yield the checkpoints to evaluate, for ever."""
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
        """Load `file` into the model; return whether it was unchanged all the while."""
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
