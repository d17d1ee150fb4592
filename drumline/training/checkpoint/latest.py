"""Which checkpoints a directory holds."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from drumline.training.checkpoint.file_format import checkpoint_path, file_of, replacing

INDEX = "checkpoint"
"""The file that lists a directory's checkpoints, the latest last."""


def latest_checkpoint(checkpoint_dir: str | os.PathLike[str]) -> str | None:
    """The path of the checkpoint that was saved last, as ``tf.train.latest_checkpoint``.

    Args:
        checkpoint_dir: where `Checkpoint.save` or a `CheckpointManager` has saved.

    Returns:
        What `Checkpoint.restore` takes; None if there is no checkpoint.

    Raises:
        ValueError: if it is a URL.
    """
    present = listed(checkpoint_path(checkpoint_dir, "latest_checkpoint"))
    return present[-1] if present else None


def listed(directory: str | os.PathLike[str]) -> list[str]:
    """The paths of the checkpoints there that still exist, in the order they were saved."""
    directory = checkpoint_path(directory)
    try:
        text = (Path(directory) / INDEX).read_text()
    except FileNotFoundError:
        return []
    paths = [os.path.join(directory, name) for name in json.loads(text)["checkpoints"]]
    return [path for path in paths if file_of(path).is_file()]


def record(directory: str | os.PathLike[str], paths: Sequence[str]) -> None:
    """Say which checkpoints there are, the latest last; at once, or not at all."""
    directory = checkpoint_path(directory)
    names = [os.path.relpath(path, directory) for path in paths]
    with replacing(Path(directory) / INDEX) as file:
        file.write(json.dumps({"checkpoints": names}, indent=1).encode())
