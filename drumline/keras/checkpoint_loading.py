"""Loading into a model the weights of a checkpoint that a training has written."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import h5py
import keras
import numpy as np

from drumline.keras.checkpoint_files import CheckpointFile
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.restoration import Restoration, some

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
