"""Finding out what a path leads to, and reading its headers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from drumline import _safetensors
from drumline._local_path import local_path
from drumline.checkpoints import keras_files, orbax_files
from drumline.checkpoints.keras_files import HDF5_SIGNATURE, ZIP_SIGNATURE, KerasReader
from drumline.checkpoints.orbax_files import OrbaxReader
from drumline.checkpoints.reader import CheckpointFileError, Defect, SavedTensors
from drumline.checkpoints.safetensors_files import (
    INDEX_SUFFIX,
    DrumlineReader,
    SafetensorsReader,
    layout_of,
)

_KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")
_INDEX = "checkpoint"  # of a directory that dl.train.Checkpoint saves to


def open_checkpoint(path: str | os.PathLike[str]) -> SavedTensors:
    """Open a checkpoint of any format that is read: its headers are, and no values.

    Args:
        path: of a file or directory: what `dl.train.Checkpoint` wrote (a path from `save`, its
            file, or the directory of a `CheckpointManager`, of which the latest is taken), a
            safetensors file or a directory with several and their index, a directory of Orbax's
            (a tree, a step, or all steps, of which the newest is taken), or a ``.weights.h5``,
            ``.keras`` or ``.h5`` file of Keras's.

    Returns:
        What reads its tensors: `names()`, `tensors` with shapes and dtypes, and `read(name)`.

    Raises:
        FileNotFoundError: there is nothing.
        CheckpointFileError: it is no checkpoint, or its headers are damaged: a ``ValueError``.
        ValueError: it is a URL.
        MissingExtraError: it is Orbax's, and TensorStore is not installed.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> saved = dl.train.Checkpoint(v=dl.Variable([1.0, 2.0])).write(f"{folder}/ckpt")
        >>> for name, entry in dl.train.open_checkpoint(saved).tensors.items():
        ...     print(name, entry.shape, entry.dtype, entry.nbytes)
        v/variables/0 (2,) float32 8
    """
    return _opened(_located(path))


def verify_checkpoint(path: str | os.PathLike[str], *, finite: bool = False) -> Iterator[Defect]:
    """Read all of a checkpoint, and yield what is wrong with it.

    Compared are sizes and offsets; that each tensor is there, and all of it; and checksums where
    the format has them: drumline's of each tensor and of headers, those of a ``.keras`` archive,
    and what Orbax's database has for its own pages.

    Args:
        path: as of `open_checkpoint`.
        finite: whether a value that is infinite or no number is a defect.

    Yields:
        Defects: the file, the offset of the first byte that shows it or None, and the reason.

    Raises:
        MissingExtraError: it is Orbax's, and TensorStore is not installed.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> v = dl.Variable([1.0, float("inf")])
        >>> saved = dl.train.Checkpoint(v=v).write(f"{folder}/ckpt")
        >>> for defect in dl.train.verify_checkpoint(saved, finite=True):
        ...     print(defect.reason)
        'v/variables/0' has inf at [1]
    """
    try:
        place = _located(path)
        if isinstance(place, Path) and _is_of_keras(place):
            yield from keras_files.defects_of(place, finite=finite)
        else:
            yield from _opened(place).defects(finite=finite)
    except CheckpointFileError as error:
        yield error.defect
    except OSError as error:
        yield Defect(Path(error.filename or path), None, error.strerror or str(error))


def renamed(names: Mapping[str, object], rules: Mapping[str, str]) -> dict[str, str]:
    """The new names of tensors.

    Args:
        names: of tensors.
        rules: new names by old ones. A ``*`` in an old name stands for any characters, also none,
            and a ``*`` in the new one for what it stood for there, in turn. The first rule that
            matches a name is applied to it.

    Returns:
        New names by old ones; those that no rule matches are themselves.

    Raises:
        ValueError: a rule matches no name, has more ``*`` on its right than on its left, or two
            tensors would have one name.
    """

    compiled = []
    for old, new in rules.items():
        if new.count("*") > old.count("*"):
            raise ValueError(
                f"The rule {old!r}={new!r} has more '*' on its right than on its left."
            )
        pattern = "(.*?)".join(map(re.escape, old.split("*")))
        compiled.append((old, re.compile(pattern, re.DOTALL), new))
    found, used = {}, set()
    for name in names:
        found[name] = name
        for old, expression, new in compiled:
            if (match := expression.fullmatch(name)) is not None:
                used.add(old)
                first, *rest = new.split("*")
                parts = zip(match.groups(), rest, strict=False)
                found[name] = first + "".join(group + text for group, text in parts)
                break
    if unused := [old for old in rules if old not in used]:
        some = ", ".join(list(names)[:5])
        raise ValueError(f"No tensor is called {unused[0]!r}; there are {some}.")
    sources: dict[str, str] = {}
    for old, new in found.items():
        if new in sources:
            raise ValueError(f"{sources[new]!r} and {old!r} would both be called {new!r}.")
        sources[new] = old
    return found


_Place = Path | tuple[Path, dict[str, Path], int | None]
"""A file, or a directory with trees of Orbax's and a step."""


def _opened(place: _Place) -> SavedTensors:
    if not isinstance(place, Path):
        return OrbaxReader(*place)
    if _is_of_keras(place):
        return KerasReader(place)
    if place.name.endswith(INDEX_SUFFIX):
        return SafetensorsReader(place)
    try:
        own = layout_of(place).own_metadata
    except CheckpointFileError as error:
        if place.name.endswith(_safetensors.SUFFIX):
            raise
        reason = (
            "it begins neither as HDF5 nor as an archive of Keras's, and is no safetensors file: "
            f"{error.defect.reason}"
        )
        raise CheckpointFileError(place, None, reason) from error
    return SafetensorsReader(place) if own is None else DrumlineReader(place)


def _located(path: str | os.PathLike[str]) -> _Place:
    """Find the file, or the trees, that a path means."""
    found = Path(local_path(path, "open_checkpoint", "a checkpoint"))
    if found.is_dir():
        return _in_directory(found)
    if found.is_file():
        return found
    of_prefix = found.with_name(found.name + _safetensors.SUFFIX)
    if of_prefix.is_file():
        return of_prefix
    raise FileNotFoundError(2, "there is no such file or directory", str(found))


def _in_directory(directory: Path) -> _Place:
    if orbax_files.is_unfinished(directory):
        raise CheckpointFileError(directory, None, "it is a save of Orbax's that did not end")
    indexes = sorted(directory.glob(f"*{INDEX_SUFFIX}"))
    if len(indexes) == 1:
        return indexes[0]
    trees = orbax_files.trees_of(directory)
    if trees is not None:
        return directory, *trees
    files = [each for each in sorted(directory.glob("*.safetensors")) if each.is_file()]
    if (directory / _INDEX).is_file():
        from drumline.training.checkpoint.file_format import DamagedCheckpointError, file_of
        from drumline.training.checkpoint.index import latest_checkpoint

        try:
            latest = latest_checkpoint(directory)
        except DamagedCheckpointError as error:
            raise CheckpointFileError(directory / _INDEX, None, str(error)) from error
        if latest is not None:
            return file_of(latest)
    files += [each for each in sorted(directory.iterdir()) if each.suffix in _KERAS_SUFFIXES]
    if len(files) == 1 and not indexes:
        return files[0]
    names = ", ".join(each.name for each in (indexes or files)[:5])
    what = f"several ones: {names}; give the path of one" if names else "none that is read here"
    raise CheckpointFileError(directory, None, f"of checkpoints it has {what}")


def _is_of_keras(file: Path) -> bool:
    with open(file, "rb") as opened:
        start = opened.read(len(HDF5_SIGNATURE))
    return start == HDF5_SIGNATURE or start[:4] == ZIP_SIGNATURE or file.suffix in _KERAS_SUFFIXES
