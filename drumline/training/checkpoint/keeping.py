"""Saving a checkpoint of which a keeper saves a part: the file that names that part comes last."""

from __future__ import annotations

import os
from pathlib import Path

from drumline.training.checkpoint import file_format, kept_directories
from drumline.training.checkpoint.external_storage import Keeper, Kept
from drumline.training.checkpoint.snapshot import Found, Snapshot


def write_with_kept(path: str, snapshot: Snapshot, found: Found, keeper: Keeper) -> None:
    """Have `keeper` save what it keeps, then write `snapshot` to ``path``.

    Raises:
        OSError: if one of them cannot be written; what was there before is still there.
    """
    kept_elsewhere = {p: v for p, v in found.variables.items() if p not in snapshot.arrays}
    directory = kept_directories.new_directory(path)
    try:
        entries, record = keeper.save(str(directory), kept_elsewhere, found.optimizers)
        for name, variable in kept_elsewhere.items():
            entries[name] |= {"shape": list(variable.shape), "dtype": str(variable.dtype)}
        beside = os.path.relpath(directory, Path(os.path.abspath(path)).parent)
        snapshot.kept = Kept(keeper.format, beside, entries, record)
        file_format.sync_directory(directory.parent)
        file_format.write(path, snapshot)
    except BaseException:
        if not _is_valid(path, snapshot):
            kept_directories.remove(directory)
        raise
    kept_directories.remove_others(path, directory)


def _is_valid(path: str, snapshot: Snapshot) -> bool:
    """Whether the file of `snapshot` was written, whatever went wrong afterwards."""
    try:
        return file_format.read(path).kept == snapshot.kept
    except (FileNotFoundError, file_format.DamagedCheckpointError):
        return False


def directory_of(path: str | os.PathLike[str], kept: Kept) -> str:
    """Where the values are that a checkpoint's file tells of."""
    return str(Path(os.path.abspath(path)).parent / kept.directory)
