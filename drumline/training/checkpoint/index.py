"""The index of a directory's checkpoints: which there are, the latest last.

It is a JSON file, ``checkpoint``, with a checksum, and replaced as a whole. Names in it are those
of files in the directory and nothing else: what leads out of it is not followed. Where the index is
missing or damaged, the files say what there is: each that `Checkpoint.save` wrote knows its number
and when it was saved. So a reader never needs to write, and the next save writes an index again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drumline._forks import tell_in_child
from drumline._safetensors import SUFFIX
from drumline.training.checkpoint.file_format import (
    DamagedCheckpointError,
    checkpoint_path,
    file_of,
    read_metadata,
    replacing,
)

_log = logging.getLogger("drumline")

INDEX = "checkpoint"
"""The file that lists a directory's checkpoints, the latest last."""

_NUMBERED = re.compile(r".+-(\d+)")


def latest_checkpoint(checkpoint_dir: str | os.PathLike[str]) -> str | None:
    """The path of the checkpoint that was saved last, as ``tf.train.latest_checkpoint``.

    One that is cut off, or whose header is damaged, is passed over with a warning if there is an
    older one. Values are not read: `Checkpoint.restore` compares their checksums, and
    `CheckpointManager.restore_or_initialize` goes back to an older checkpoint if one differs.

    Args:
        checkpoint_dir: where `Checkpoint.save` or a `CheckpointManager` has saved.

    Returns:
        What `Checkpoint.restore` takes; None if there is no checkpoint.

    Raises:
        ValueError: if it is a URL.
        DamagedCheckpointError: the directory's list is another program's.
    """
    present = listed(checkpoint_path(checkpoint_dir, "latest_checkpoint"))
    for path in reversed(present):
        try:
            read_metadata(path, whole=True)
        except (DamagedCheckpointError, OSError) as error:
            _warn_once(path, f"{error} It is passed over.")
        else:
            return path
    return present[-1] if present else None


def listed(directory: str | os.PathLike[str]) -> list[str]:
    """The paths of the checkpoints there that still exist, in the order they were saved.

    Raises:
        DamagedCheckpointError: the file that lists them is another program's.
    """
    directory = checkpoint_path(directory)
    return [path for path in _indexed(directory) if _is_inside(directory, path)]


def add(directory: str | os.PathLike[str], path: str) -> None:
    """List a checkpoint that was just saved as the latest."""
    directory = checkpoint_path(directory)
    known = [each for each in _indexed(directory, path) if _is_inside(directory, each)]
    record(directory, [*(each for each in known if each != path), path])


def record(directory: str | os.PathLike[str], paths: Sequence[str]) -> None:
    """Say which checkpoints there are, the latest last; at once, or not at all."""
    directory = checkpoint_path(directory)
    names = [os.path.relpath(path, directory) for path in paths]
    content = {"checkpoints": names, "crc32": _checksum(names)}
    with replacing(Path(directory) / INDEX) as file:
        file.write(json.dumps(content, indent=1).encode())


class _Changes:
    """A lock for each directory, which threads of this process that save there take in turn."""

    def __init__(self) -> None:
        self.forked()
        tell_in_child(self)

    def forked(self) -> None:
        """Begin unlocked in a child."""
        self._guard = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}

    def lock_of(self, directory: str) -> threading.RLock:
        """The lock of a directory, by whatever path."""
        real = os.path.realpath(directory)
        with self._guard:
            return self._locks.setdefault(real, threading.RLock())


_changes = _Changes()


@contextlib.contextmanager
def changing(directory: str) -> Iterator[None]:
    """Let no other thread save to a directory, or delete there, within the block."""
    with _changes.lock_of(directory):
        yield


def _indexed(directory: str, just_saved: str | None = None) -> list[str]:
    index = Path(directory) / INDEX
    try:
        content = index.read_bytes()
    except FileNotFoundError:
        found = _found(directory)
        if any(path != just_saved for path in found):
            _warn_once(str(index), f"There is no {index}; its checkpoints are taken from the files")
        return found
    try:
        names = _names(content)
    except (ValueError, RecursionError) as error:
        reason = repr(error)
    else:
        return [os.path.join(directory, name) for name in names]
    found = _found(directory)
    is_tensorflow = b"model_checkpoint_path" in content
    is_known = any(path != just_saved for path in found) or not content.strip(b"\0 \r\n\t")
    if is_tensorflow or not is_known:
        whose = "TensorFlow wrote it" if is_tensorflow else reason
        raise DamagedCheckpointError(
            f"{index} is no list of drumline's checkpoints ({whose}): give another directory, or "
            "remove the file"
        )
    _warn_once(
        str(index),
        f"{index} is damaged ({reason}); the directory's checkpoints are taken from its files: "
        f"{[os.path.basename(path) for path in found]}",
    )
    return found


def _names(content: bytes) -> list[str]:
    """Return the names in an index.

    Raises:
        ValueError, RecursionError: it is damaged, or leads out of its directory.
    """
    index = json.loads(content)
    names = index.get("checkpoints") if isinstance(index, dict) else None
    if not isinstance(names, list) or not index.keys() <= {"checkpoints", "crc32"}:
        raise ValueError("it is no list of names")
    for name in names:
        if not isinstance(name, str) or not _is_plain(name):
            raise ValueError(f"{name!r:.80} is no name of a file in the directory")
    # Releases before the checksum wrote none.
    if "crc32" in index and index["crc32"] != _checksum(names):
        raise ValueError("its checksum differs")
    return names


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _is_inside(directory: str, path: str) -> bool:
    """Whether there is a file of the checkpoint, and it is in the directory, links followed."""
    file = file_of(path)
    try:
        if not file.is_file():
            return False
        if not file.is_symlink():
            return True
        inside = file.resolve().is_relative_to(Path(directory).resolve())
    except (OSError, RuntimeError):  # a name that is too long, or a loop of links
        return False
    if not inside:
        _warn_once(path, f"{file} is a link that leads out of its directory: it is not followed.")
    return inside


def _checksum(names: Sequence[str]) -> str:
    return f"{zlib.crc32(json.dumps(list(names)).encode()):08x}"


def _found(directory: str) -> list[str]:
    """What `Checkpoint.save` has written to a directory, by the files alone."""
    found = []
    for file in Path(directory).glob(f"*{SUFFIX}"):
        path = str(file).removesuffix(SUFFIX)
        match = _NUMBERED.fullmatch(os.path.basename(path))
        if match is None or not _is_inside(directory, path):
            continue
        try:
            metadata = read_metadata(path)
            # Files of older releases do not say when they were saved, or whether they are listed.
            saved_at = metadata.get("saved_at", file.stat().st_mtime_ns)
        except (OSError, DamagedCheckpointError):
            continue
        is_numbered = metadata.get("numbered", metadata.get("save_counter") == int(match[1]))
        if is_numbered and isinstance(saved_at, int):
            found.append((saved_at, int(match[1]), os.path.join(directory, os.path.basename(path))))
    return [path for _, _, path in sorted(found)]


def _warn_once(path: str, message: str) -> None:
    """Log a warning, once for each state of a file: directories are looked at again and again."""
    try:
        status = os.stat(path if os.path.exists(path) else file_of(path))
        stamp: Any = (status.st_ino, status.st_size, status.st_mtime_ns)
    except OSError:
        stamp = None
    if _warned.get(path) != (stamp, message):
        _warned[path] = (stamp, message)
        _log.warning("%s", message)


_warned: dict[str, Any] = {}
