"""A snapshot as a file in the safetensors format.

What is no array, and a checksum of each, are in the metadata of the file, and its header has a
checksum of its own (see `drumline._safetensors`): a damaged file is refused. A file is written
beside its final name, under one that no other process has, and renamed when it is on the disk, so
that there is never a part of one under that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from drumline import _safetensors
from drumline._local_path import local_path, sync
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
    the directory (`remove_abandoned`).

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    remove_abandoned(final.parent)
    file = _locked_file(final)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # Renamed while it is locked, or another writer could take it for abandoned.
            os.replace(file.name, final)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # a disk that is full
            error.filename = str(final)
        Path(file.name).unlink(missing_ok=True)
        raise
    sync(final.parent)


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
        return _contents(saved)
    except ValueError as error:
        raise _damaged(file, str(error)) from error


def read_metadata(path: str | os.PathLike[str], *, whole: bool = False) -> dict[str, Any]:
    """Read what the checkpoint `path` tells besides its arrays.

    Args:
        path: of the checkpoint.
        whole: whether the file must be as long as its arrays are, which are not read.

    Raises:
        OSError: if the file cannot be read.
        DamagedCheckpointError: if its header is damaged.
    """
    file = file_of(path)
    try:
        return _safetensors.read_metadata(file, whole=whole)
    except ValueError as error:
        raise _damaged(file, str(error)) from error


def _contents(saved: _safetensors.SavedArrays) -> CheckpointContents:
    """What a file holds, with the parts that it must have.

    Raises:
        ValueError: if one is missing, or is something else.
    """
    metadata = saved.metadata
    for name, kind in (("states", dict), ("aliases", dict), ("save_counter", int)):
        if not isinstance(metadata.get(name), kind):
            raise ValueError(f"it has no {name!r}, or something else there")
    if not all(isinstance(path, str) for path in metadata["aliases"].values()):
        raise ValueError("an alias is no path")
    return CheckpointContents(
        saved.arrays,
        metadata["states"],
        metadata["aliases"],
        metadata["save_counter"],
        kept=_kept(metadata.get("kept")),
    )


def _kept(described: Any) -> ExternalValues | None:
    match described:
        case None:
            return None
        case {"format": str(), "directory": str(), "entries": dict(), "record": dict()}:
            if len(described) == 4 and all(map(_is_entry, described["entries"].values())):
                return ExternalValues(**described)
    raise ValueError("what it tells of values in other files is something else")


def _is_entry(entry: Any) -> bool:
    match entry:
        case {"shape": list(shape), "dtype": str()}:
            return all(isinstance(size, int) for size in shape)
    return False


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


def _locked_file(final: Path) -> IO[bytes]:
    while True:
        path = final.with_name(f"{final.name}.{secrets.token_hex(6)}{_UNFINISHED}")
        file = open(path, "xb")  # noqa: SIM115
        _lock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # taken for abandoned before it was locked


def remove_abandoned(directory: Path) -> None:
    """Remove the files that killed processes did not finish.

    Those that are being written are locked. Where a file system has no locks none is removed.
    """
    for path in directory.glob(f"*{_UNFINISHED}"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
                if is_file and _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
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
        _safetensors.CHECKSUMS: {
            name: _safetensors.checksum(array) for name, array in arrays.items()
        },
        "states": snapshot.states,
        "aliases": snapshot.aliases,
        "save_counter": snapshot.save_counter,
        "numbered": snapshot.numbered,
        "saved_at": time.time_ns(),
        "token": secrets.token_hex(8),
        "kept": None if snapshot.kept is None else snapshot.kept.to_json(),
    }


def _damaged(file: Path, reason: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"The checkpoint {str(file)!r} is damaged: {reason}. Nothing of it was restored; use an "
        "older one, see dl.train.CheckpointManager(...).checkpoints."
    )
