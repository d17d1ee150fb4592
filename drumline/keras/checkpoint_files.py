"""The checkpoints that a directory holds: Keras's callbacks' and `dl.train.Checkpoint`'s."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from drumline.training.checkpoint.file_format import file_of
from drumline.training.checkpoint.latest import listed

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
    """The checkpoints in `directory`, by their numbers, those without one last."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    paths = [os.path.join(directory, name) for name in names if name.endswith(KERAS_SUFFIXES)]
    found = [_described(path, Path(path), of_keras=True) for path in paths]
    found += [_described(path, file_of(path), of_keras=False) for path in listed(directory)]
    return sorted(filter(None, found), key=_order)


def number_in(name: str) -> int | None:
    """The number of a checkpoint called `name`: 3 for ``ckpt-3`` and ``03-0.52.keras``.

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
    """What changes when `file` is written again; None if there is no such file."""
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
