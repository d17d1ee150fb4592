"""The disk of a job: a small one of its own, which can be full, forbidden to write, or damaged.

It takes root and the right to mount; `can_mount` says whether this machine gives it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SIZE_BYTES = 16 << 20
_PIECE = bytes(64 << 10)
_FILLING = ".filling"


@functools.cache
def can_mount() -> bool:
    """Whether file systems may be mounted here."""
    with tempfile.TemporaryDirectory() as place:
        try:
            with mounted(Path(place)):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[None]:
    """Have a small disk at `place`, and leave what is on it there.

    Raises:
        OSError: if there is no command ``mount``.
        subprocess.CalledProcessError: if it is forbidden.
    """
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES},mode=700", "soak", str(place))
    # Processes on a host of `two_hosts` have mounts of their own, which follow those here.
    _run("mount", "--make-shared", str(place))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(place))


def fill(place: Path) -> None:
    """Leave no room."""
    with (place / _FILLING).open("wb", buffering=0) as file:
        piece = _PIECE
        while piece:
            try:
                file.write(piece)
            except OSError:
                piece = piece[: len(piece) // 2]


def empty(place: Path) -> None:
    """Make room again."""
    (place / _FILLING).unlink(missing_ok=True)


@contextlib.contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Let nothing new be opened for writing there; what is open stays so.

    The same disk is mounted a second time over itself: as long as a file is open for writing, a
    mounted disk cannot be made read-only, and a job may keep one open all the time. It is made
    read-only before it gets there, since only then it is so on all hosts.
    """
    with tempfile.TemporaryDirectory() as aside:
        _run("mount", "--bind", str(place), aside)
        try:
            _run("mount", "--make-private", aside)
            _run("mount", "-o", "remount,bind,ro", aside)
            _run("mount", "--bind", aside, str(place))
        finally:
            _run("umount", "--lazy", aside)
    try:
        yield
    finally:
        _run("umount", "--lazy", str(place))


def saving(place: Path) -> bool:
    """Whether something is being saved: a file with a name that it has until it is whole."""
    for _, _, names in os.walk(place):
        if any("unfinished" in name or name.endswith((".part", ".tmp")) for name in names):
            return True
    return False


_SAVE = re.compile(r"[a-z]+-(\d+)\.")
"""What the files of a save have in their names or their directory's, as ``ckpt-3.safetensors``."""


def damage(place: Path, draw: random.Random) -> str:
    """Damage the latest save, or the index that says which that is. Returns what was done.

    The save before it stays whole; if there is none, nothing is damaged, since nothing is left then
    that a job could resume from.
    """
    saves: dict[int, list[Path]] = defaultdict(list)
    for path in sorted(place.rglob("*")):
        if path.is_file() and (found := _SAVE.search(str(path.relative_to(place)))):
            saves[int(found[1])].append(path)
    if len(saves) < 2:
        return "there were not two saves, and nothing was damaged"
    indexes = [path for path in place.rglob("checkpoint") if path.is_file()]
    path = draw.choice(saves[max(saves)] + indexes)
    size = path.stat().st_size
    how = draw.choice(["cut", "emptied", "flipped"])
    if how == "flipped" and size:
        with path.open("r+b") as file:
            at = draw.randrange(size)
            file.seek(at)
            byte = file.read(1)[0] ^ 1 << draw.randrange(8)
            file.seek(at)
            file.write(bytes([byte]))
        return f"{path.name}: a bit of byte {at} of {size} flipped"
    os.truncate(path, draw.randrange(max(1, size)) if how == "cut" else 0)
    return f"{path.name}: {how}, {path.stat().st_size} of {size} bytes left"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
