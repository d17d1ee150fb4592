"""Giving a Keras model the values of a checkpoint of any format, by names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from drumline.checkpoints.formats import open_checkpoint, renamed
from drumline.checkpoints.reader import CheckpointFormat, dtype_of, is_floating

_SHOWN = 5


def load_weights(
    model: Any, path: str | os.PathLike[str], rename: Mapping[str, str] | None = None
) -> list[str]:
    """Give each weight of a model the tensor that is called as its ``path``.

    Values are read and assigned one after another. A floating-point weight takes floating-point
    values of any dtype; of others the dtype must be the same. Nothing is transposed: the shapes
    must be equal.

    Args:
        model: a Keras model or layer that is built.
        path: as of `open_checkpoint`.
        rename: the weights' paths by tensors' names. A ``*`` in a name stands for any characters,
            and a ``*`` in the path for what it stood for there.

    Returns:
        The names of tensors that no weight took.

    Raises:
        ValueError: the model is not built, a weight has no tensor, or one of another shape or
            kind; all of them are named, and nothing was assigned.
        CheckpointFileError: the checkpoint is damaged: a ``ValueError``.
        FileNotFoundError: there is none.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> values = {"w": dl.Variable(np.eye(2, dtype="f4")), "b": dl.Variable([3.0, 4.0])}
        >>> saved = dl.train.Checkpoint(**values).write(f"{folder}/ckpt")
        >>> model = keras.Sequential([keras.layers.Dense(2, name="head")], name="net")
        >>> model.build((None, 2))
        >>> rules = {"w/*": "net/head/kernel", "b/*": "net/head/bias"}
        >>> unused = dl.train.load_weights(model, saved, rules)
        >>> np.asarray(model.layers[0].bias)
        array([3., 4.], dtype=float32)
    """
    reader = open_checkpoint(path)
    sources = {new: old for old, new in renamed(reader.tensors, rename or {}).items()}
    weights = {weight.path: weight for weight in model.weights}
    if not weights or len(weights) < len(model.weights):
        why = "two of its weights have one path" if weights else "it is not built"
        raise ValueError(f"The weights of {model.name!r} cannot be loaded: {why}.")
    wrong = []
    for name, weight in weights.items():
        if name not in sources:
            wrong.append(f"there is no {name!r}")
            continue
        entry = reader.tensors[sources[name]]
        if entry.shape != tuple(weight.shape):
            wrong.append(f"{entry.name!r} is {list(entry.shape)} for {list(weight.shape)}")
        elif not _takes(str(weight.dtype), entry.dtype):
            wrong.append(f"{entry.name!r} is {entry.dtype} for {weight.dtype}")
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ValueError(
            f"The checkpoint {str(path)!r} does not fit {model.name!r}, of which nothing was "
            f"changed: {'; '.join(wrong[:_SHOWN])}{more}."
        )
    if reader.format is not CheckpointFormat.SAFETENSORS:  # whose header says all that can be known
        for name in weights:
            for _ in reader.pieces(sources[name]):
                pass
    for name, weight in weights.items():
        weight.assign(reader.read(sources[name]))
    return [old for new, old in sources.items() if new not in weights]


def _takes(weight: str, dtype: Any) -> bool:
    return str(dtype) == weight or (is_floating(dtype) and is_floating(dtype_of(weight)))
