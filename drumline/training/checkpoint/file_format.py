"""A snapshot as a file in the safetensors format, and the index of a directory's checkpoints.

What is no array, and a checksum of each, are in the metadata of the file (see
`drumline._safetensors`). A file is written beside its final name, under one that no other process
has, and renamed when it is on the disk, so that there is never a part of one under that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from drumline import _safetensors
from drumline._local_path import local_path
from drumline._safetensors import SUFFIX, ArrayLayout
from drumline.training.checkpoint.external_storage import ExternalValues
from drumline.training.checkpoint.snapshot import CheckpointContents

_UNFINISHED = ".unfinished"


class DamagedCheckpointError(ValueError):
    """A file that should hold a checkpoint does not, or not all of it."""


def write(path: str | os.PathLike[str], snapshot: CheckpointContents) -> None:
    """Write `snapshot` to ``path + SUFFIX``; an older file there is replaced at once.

    Raises:
        TypeError: if a variable has a dtype that the format lacks.
        OSError: if it cannot be written; what was there before is still there.
    """
    final = file_of(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    with replacing(final) as file:
        arrays = snapshot.arrays
        layout = ArrayLayout({name: (array.shape, array.dtype) for name, array in arrays.items()})
        file.write(layout.header(_metadata(snapshot)))
        for array in arrays.values():
            file.write(_safetensors.bytes_of(array).data)


@contextlib.contextmanager
def replacing(final: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `final` when it is on the disk.

    Its name is unique, so that several processes may write the same file at the same time:
    the last to finish replaces it. One that a killed process left is removed by the next writer in
    the directory: it is not locked, as those that are being written are.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    _remove_abandoned(final.parent)
    file = _locked_file(final)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # Renamed while it is locked, or another writer could take it for abandoned.
            os.replace(file.name, final)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
    sync_directory(final.parent)


def saved_token(path: str | os.PathLike[str]) -> str | None:
    """What tells the save at `path` from all others; None if there is none or it is damaged."""
    try:
        token: str | None = _safetensors.read_metadata(file_of(path)).get("token")
    except (OSError, ValueError):
        return None
    return token


def read(path: str | os.PathLike[str]) -> CheckpointContents:
    """Read what `write` has written.

    Raises:
        FileNotFoundError: if there is no file.
        DamagedCheckpointError: if it is not whole.
    """
    file = file_of(path)
    if not file.is_file():
        raise FileNotFoundError(f"There is no checkpoint {str(path)!r} (no file {str(file)!r}).")
    try:
        saved = _safetensors.parse(np.fromfile(file, np.uint8))
        saved.verify(saved.arrays)
        metadata = saved.metadata
        rest = {name: metadata[name] for name in ("states", "aliases", "save_counter")}
    except (ValueError, KeyError) as error:
        raise _damaged(file, str(error)) from error
    kept = metadata.get("kept")
    return CheckpointContents(
        saved.arrays, **rest, kept=None if kept is None else ExternalValues(**kept)
    )


def file_of(path: str | os.PathLike[str]) -> Path:
    """The file of the checkpoint `path`.

    Raises:
        ValueError: if it is a URL.
    """
    return Path(f"{checkpoint_path(path)}{SUFFIX}")


def checkpoint_path(path: str | os.PathLike[str], operation: str = "Checkpoint") -> str:
    """The path of a checkpoint, or of a directory of them, as a local one.

    Raises:
        ValueError: if it is a URL.
    """
    return local_path(path, operation, "a checkpoint")


def sync_directory(directory: Path) -> None:
    """Have the disk keep the names in `directory`."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked_file(final: Path) -> IO[bytes]:
    while True:
        path = final.with_name(f"{final.name}.{secrets.token_hex(6)}{_UNFINISHED}")
        file = open(path, "xb")  # noqa: SIM115
        _lock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # taken for abandoned before it was locked


def _remove_abandoned(directory: Path) -> None:
    for path in directory.glob(f"*{_UNFINISHED}"):
        try:
            with open(path, "rb") as file:
                if _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    path.unlink(missing_ok=True)
        except OSError:
            continue  # another process was quicker, or may not touch it


def _lock(file: IO[bytes], how: int) -> bool:
    """Whether the file is locked now; never where the file system has no locks."""
    try:
        fcntl.flock(file, how)
    except OSError:
        return False
    return True


def _metadata(snapshot: CheckpointContents) -> dict[str, Any]:
    arrays = snapshot.arrays
    return {
        "crc32": {name: _safetensors.checksum(array) for name, array in arrays.items()},
        "states": snapshot.states,
        "aliases": snapshot.aliases,
        "save_counter": snapshot.save_counter,
        "token": secrets.token_hex(8),
        "kept": None if snapshot.kept is None else snapshot.kept.to_json(),
    }


def _damaged(file: Path, reason: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"The checkpoint {str(file)!r} is damaged: {reason}. Nothing of it was restored; use an "
        "older one, see dl.train.CheckpointManager(...).checkpoints."
    )


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
        DamagedCheckpointError: the directory's list is another program's, or damaged.
    """
    present = listed(checkpoint_path(checkpoint_dir, "latest_checkpoint"))
    return present[-1] if present else None


def listed(directory: str | os.PathLike[str]) -> list[str]:
    """The paths of the checkpoints there that still exist, in the order they were saved.

    Raises:
        DamagedCheckpointError: the file that lists them is another program's, or damaged.
    """
    directory = checkpoint_path(directory)
    try:
        text = (Path(directory) / INDEX).read_text()
    except FileNotFoundError:
        return []
    try:
        names = [os.fspath(name) for name in json.loads(text)["checkpoints"]]
    except (ValueError, TypeError, KeyError) as error:
        whose = "TensorFlow wrote it" if "model_checkpoint_path" in text else f"{error!r}"
        raise DamagedCheckpointError(
            f"{Path(directory) / INDEX} is no list of drumline's checkpoints ({whose}): give "
            "another directory, or remove the file"
        ) from error
    paths = [os.path.join(directory, name) for name in names]
    return [path for path in paths if file_of(path).is_file()]


def record(directory: str | os.PathLike[str], paths: Sequence[str]) -> None:
    """Say which checkpoints there are, the latest last; at once, or not at all."""
    directory = checkpoint_path(directory)
    names = [os.path.relpath(path, directory) for path in paths]
    with replacing(Path(directory) / INDEX) as file:
        file.write(json.dumps({"checkpoints": names}, indent=1).encode())
