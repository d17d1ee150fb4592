"""Saving to and restoring from external stores: the directories beside a checkpoint's file.

The store saves to a new directory, and the file that names the directory is written last: a
checkpoint whose file exists is complete, and directories that no file names are removed. A link in
the place of a directory is not followed: what it leads to was not saved here.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline._local_path import sync
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.external_storage import (
    ExternalReader,
    ExternalStore,
    ExternalValues,
    ProcessesStore,
    only_store,
    reader_of,
    store_of,
)
from drumline.training.checkpoint.file_format import file_of
from drumline.training.checkpoint.snapshot import CheckpointContents, SavedObjects
from drumline.training.keras_internals import Variable, trained_variables

SUFFIX = ".servers"


def new_directory(path: str) -> Path:
    """Make a new directory for a checkpoint that is about to be saved as `path`."""
    beside = Path(os.path.abspath(path + SUFFIX))
    if beside.is_symlink():
        beside.unlink()
    directory = beside / secrets.token_hex(6)
    directory.mkdir(parents=True)
    return directory


def remove(directory: Path) -> None:
    """Remove the directory of a save, and the one that it is in if that is empty then."""
    if directory.is_symlink():
        directory.unlink()
    shutil.rmtree(directory, ignore_errors=True)
    if directory.parent.is_dir() and not any(directory.parent.iterdir()):
        directory.parent.rmdir()


def remove_others(path: str, current: Path | None) -> None:
    """Remove what other saves to `path`, finished or not, have left."""
    beside = Path(os.path.abspath(path + SUFFIX))
    if beside.is_symlink():
        beside.unlink()
    for directory in beside.iterdir() if beside.is_dir() else ():
        if directory != current:
            remove(directory)


def remove_unfinished(prefix: str) -> None:
    """Remove the directories of numbered checkpoints whose files were never written.

    Call it where no other program saves.
    """
    for found in glob.glob(f"{glob.escape(prefix)}-*{SUFFIX}"):
        path = found.removesuffix(SUFFIX)
        if path[len(prefix) + 1 :].isdecimal() and not file_of(path).exists():
            remove_others(path, None)


def write_with_external(
    path: str, snapshot: CheckpointContents, found: SavedObjects, keeper: ExternalStore
) -> None:
    """Have `keeper` save what it keeps, then write `snapshot` to ``path``.

    Raises:
        OSError: if one of them cannot be written; what was there before is still there.
    """
    kept_elsewhere = {p: v for p, v in found.variables.items() if p not in snapshot.arrays}
    directory = new_directory(path)
    try:
        entries, record = keeper.save(str(directory), kept_elsewhere, found.optimizers)
        for name, variable in kept_elsewhere.items():
            entries[name] |= {"shape": list(variable.shape), "dtype": str(variable._dtype)}
        beside = os.path.relpath(directory, Path(os.path.abspath(path)).parent)
        snapshot.kept = ExternalValues(keeper.format, beside, entries, record)
        sync(directory.parent)
        file_format.write(path, snapshot)
    except BaseException:
        if not _is_valid(path, snapshot):
            remove(directory)
        raise
    remove_others(path, directory)


def write_together(
    path: str | None,
    snapshot: CheckpointContents,
    found: SavedObjects,
    store: ProcessesStore,
    before: Callable[[], None],
    then: Callable[[], None],
) -> bool:
    """As `write_with_external`, called by all processes of which each has a part of the values.

    Each writes its part, and the first one the file, when all parts are on the disk.

    Args:
        path: of the checkpoint, the same in all processes; None in those that take the first's.
        snapshot: what is in the file.
        found: the objects.
        store: what has this process's part.
        before: called by the first process at the beginning.
        then: called by the first process behind the file.

    Returns:
        Whether this is the process that has written the file.

    Raises:
        OSError: if a process cannot write; what was there before is still there.
    """
    kept_elsewhere = {p: v for p, v in found.variables.items() if p not in snapshot.arrays}
    own = None if path is None else os.path.abspath(path)
    directory: Path | None = None
    saved: Any = None

    def begin() -> str:
        nonlocal directory
        before()
        assert own is not None
        directory = new_directory(own)
        return json.dumps([own, directory.name])

    def save_part() -> str:
        nonlocal saved
        saved = store.save(str(directory), kept_elsewhere, found.optimizers)
        return ""

    def end() -> str:
        entries, record = saved
        for name, variable in kept_elsewhere.items():
            entries[name] |= {"shape": list(variable.shape), "dtype": str(variable._dtype)}
        assert own is not None and directory is not None
        beside = os.path.relpath(directory, Path(own).parent)
        snapshot.kept = ExternalValues(store.format, beside, entries, record)
        _require_parts(directory, record["files"])
        sync(directory.parent)
        file_format.write(own, snapshot)
        remove_others(own, directory)
        then()
        return ""

    try:
        place = _agreed(store, "begin to save a checkpoint", begin if store.is_first else None)
        if not store.is_first:
            first, name = json.loads(place)
            if own not in (None, first):
                raise ValueError(
                    f"This process saves {own!r}, and the first one {first!r}. Variables that are "
                    "cut over processes are saved to one place, which all processes see."
                )
            directory = Path(first + SUFFIX) / name
            directory.mkdir(parents=True, exist_ok=True)  # where it is a disk of this machine
        _agreed(store, "save a part of a checkpoint", save_part)
        _agreed(store, "end a checkpoint", end if store.is_first else None)
    except BaseException:
        if store.is_first and directory is not None and not _is_valid(str(own), snapshot):
            remove(directory)
        raise
    return store.is_first


def _agreed(store: ProcessesStore, what: str, action: Callable[[], str] | None) -> str:
    """Do `action` and wait for all; what the first process's action returned.

    Raises:
        OSError: if that of another process failed.
    """
    result, failure = "", None
    if action is not None:
        try:
            result = action()
        except Exception as error:
            failure = error
    problem = "" if failure is None else f"{type(failure).__name__}: {failure}"
    answers = [json.loads(text) for text in store.agree(what, json.dumps([result, problem]))]
    if failure is not None:
        raise failure
    for process, (_, other) in enumerate(answers):
        if other:
            raise OSError(f"Process {process} could not {what}: {other}")
    first: str = answers[0][0]
    return first


def _require_parts(directory: Path, count: int) -> None:
    """Check that the parts of all processes are where this one sees them.

    Raises:
        OSError: if some are not.
    """
    there = len(list(directory.iterdir()))
    if there < count:
        raise OSError(
            f"{count} processes have saved their parts of a checkpoint to {str(directory)!r}, and "
            f"this one sees {there} there: give a directory that all of them share."
        )


def _is_valid(path: str, snapshot: CheckpointContents) -> bool:
    """Whether the file of `snapshot` was written, whatever went wrong afterwards."""
    try:
        return file_format.read(path).kept == snapshot.kept
    except (FileNotFoundError, file_format.DamagedCheckpointError):
        return False


def directory_of(path: str | os.PathLike[str], kept: ExternalValues) -> str:
    """Where the values are that a checkpoint's file tells of.

    Raises:
        DamagedCheckpointError: if that is not in the directory of the file, links followed.
    """
    around = Path(os.path.abspath(path)).parent
    directory = around / kept.directory
    if not directory.resolve().is_relative_to(around.resolve()):
        raise file_format.DamagedCheckpointError(
            f"The checkpoint {str(path)!r} names the directory {kept.directory!r} for its values, "
            f"which leads out of {str(around)!r}. Nothing of it was restored; use another one."
        )
    return str(directory)


class ExternalStoreReader:
    """The values that a checkpoint's keeper saved.

    Args:
        path: of the checkpoint.
        kept: what its file tells of them; None if it holds all values itself.
    """

    def __init__(self, path: str, kept: ExternalValues | None) -> None:
        self._kept = kept
        self._directory = "" if kept is None else directory_of(path, kept)
        self._reader: ExternalReader | None = None

    def transfer(
        self, assignments: Sequence[tuple[Variable, str]], optimizers: Mapping[str, Any]
    ) -> Transfer:
        """Prepare to restore variables, and optimizers' states, where the store saved them.

        Raises:
            ValueError: if that is not possible: values are missing, damaged or others.
        """
        if self._kept is None:
            return Transfer(None, None)
        wanted = {path: variable for variable, path in assignments}
        keeper = only_store(wanted.values()) or _keeper_of_trained(optimizers)
        entries = self._kept.entries
        same = keeper is not None and keeper.format == self._kept.format
        direct = {
            path: variable
            for path, variable in wanted.items()
            if path in entries and same and store_of(variable) is not None
        }
        read_here = [path for path in wanted if path in entries and path not in direct]
        if read_here:
            self._opened().check(read_here)
        if not same or keeper is None:
            return Transfer(None, None, read_here)
        arguments = (self._directory, self._kept, direct, optimizers)
        keeper.check(*arguments)
        return Transfer(keeper, arguments, read_here)

    def read(self, path: str) -> np.ndarray:
        """A value."""
        return self._opened().read(path)

    def _opened(self) -> ExternalReader:
        if self._reader is None:
            assert self._kept is not None
            self._reader = reader_of(self._directory, self._kept)
        return self._reader


class Transfer:
    """What a keeper is to restore, checked.

    Attributes:
        read_here: the paths of the values that the program reads itself.
    """

    def __init__(
        self, keeper: ExternalStore | None, arguments: Any, read_here: Sequence[str] = ()
    ) -> None:
        self._keeper = keeper
        self._arguments = arguments
        self.read_here = frozenset(read_here)

    def run(self) -> None:
        """Have the keeper restore its values."""
        if self._keeper is not None and self._arguments is not None:
            self._keeper.restore(*self._arguments)

    def end(self) -> None:
        """All other values were restored."""
        if self._keeper is not None and self._arguments is not None:
            self._keeper.restored()


def _keeper_of_trained(optimizers: Mapping[str, Any]) -> ExternalStore | None:
    return only_store(v for each in optimizers.values() for v in trained_variables(each))
