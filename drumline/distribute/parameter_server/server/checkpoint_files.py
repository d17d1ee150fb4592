"""One server's file of a checkpoint, in the safetensors format, and the files of a save.

A file is written piece by piece, so what it holds need not be in memory a second time, and is
read where it lies. Under its name there is always a whole one, the last or the one before.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from drumline._safetensors import SUFFIX, ArrayLayout, ArraySpec, bytes_of, checksum, parse
from drumline.distribute.parameter_server.errors import RestoreError
from drumline.training.checkpoint.file_format import DamagedCheckpointError, replacing


def shard_path(directory: str | os.PathLike[str], server: int, servers: int) -> Path:
    """Where server `server` of `servers` keeps its file of the checkpoint in `directory`."""
    return Path(directory) / f"ps-{server}-of-{servers}{SUFFIX}"


@contextlib.contextmanager
def new_shard_file(
    path: Path, arrays: Mapping[str, ArraySpec], metadata: dict[str, Any]
) -> Iterator[ShardWriter]:
    """Write a file beside its final name, which it takes when all is on the disk.

    If the block raises, nothing is left of it, and an older file stays. What a killed server left
    is removed by the next one that saves there
    (`drumline.training.checkpoint.file_format.replacing`).

    Args:
        path: the final name.
        arrays: the arrays' shapes and dtypes by name, in the order in which they lie in the file.
        metadata: values that JSON has.

    Raises:
        TypeError: for a dtype that the format lacks.
        OSError: if it cannot be written.
    """
    layout = ArrayLayout(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        writer = ShardWriter(file, layout, metadata)
        yield writer
        writer.finish()


class ShardWriter:
    """Writes the arrays of a new file piece by piece; see `new_shard_file`.

    Attributes:
        nbytes: of the whole file.
    """

    def __init__(self, file: IO[bytes], layout: ArrayLayout, metadata: dict[str, Any]) -> None:
        self._file = file
        self._layout = layout
        self._metadata = metadata
        self._checksums = dict.fromkeys(layout.places, 0)
        self._written = dict.fromkeys(layout.places, 0)
        self._data = len(self._header())
        self.nbytes = self._data + layout.nbytes

    def append(self, name: str, piece: np.ndarray) -> None:
        """Write the next bytes of an array."""
        content = bytes_of(piece)
        place = self._data + self._layout.places[name][0] + self._written[name]
        _write_at(self._file.fileno(), content.data, place)
        self._checksums[name] = checksum(content, self._checksums[name])
        self._written[name] += len(content)

    def finish(self) -> None:
        """Write the header, which holds the checksums of all that was appended."""
        for name, (start, end) in self._layout.places.items():
            assert self._written[name] == end - start, name
        _write_at(self._file.fileno(), memoryview(self._header()), 0)

    def _header(self) -> bytes:
        checksums = {name: f"{value:08x}" for name, value in self._checksums.items()}
        return self._layout.header({**self._metadata, "crc32": checksums})


class ShardFile:
    """A file that `new_shard_file` wrote.

    Attributes:
        path: where it is.
        metadata: what was written with the arrays.
        arrays: views of the file, read-only, by name.

    Raises:
        FileNotFoundError: if there is none.
        DamagedCheckpointError: if it is not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._saved = parse(np.frombuffer(content, np.uint8))
        except ValueError as error:
            raise self._damaged(error) from error
        self.arrays, self.metadata = self._saved

    def verify(self, names: Collection[str] | None = None) -> None:
        """Read some arrays, by default all, and compare the checksums.

        Raises:
            DamagedCheckpointError: if one differs.
        """
        try:
            self._saved.verify(self.arrays if names is None else names)
        except ValueError as error:
            raise self._damaged(error) from error

    def _damaged(self, reason: ValueError) -> DamagedCheckpointError:
        return DamagedCheckpointError(
            f"A server's file of a checkpoint, {str(self.path)!r}, is damaged: {reason}. Nothing "
            "of it was restored; use an older checkpoint."
        )


def _write_at(descriptor: int, content: memoryview, place: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written


_NAME = re.compile(r"ps-(\d+)-of-(\d+)\.safetensors")


@dataclass(frozen=True)
class ShardSet:
    """All files of one save.

    Attributes:
        directory: where they are.
        files: by the number of the server that wrote each; those that can be seen from here.
        servers: how many servers there were.
        step: what the save was called.
    """

    directory: Path
    files: dict[int, ShardFile]
    servers: int
    step: Any

    def own(self, server: int) -> ShardFile:
        """The file that a server wrote.

        Raises:
            RestoreError: if it is not there.
        """
        if server not in self.files:
            raise RestoreError(
                f"The checkpoint in {str(self.directory)!r} lacks the file of server {server} "
                f"({shard_path(self.directory, server, self.servers).name}); it has those of "
                f"{sorted(self.files)}."
            )
        return self.files[server]

    def all(self) -> list[ShardFile]:
        """All files, none of them missing.

        Raises:
            RestoreError: if one is.
        """
        return [self.own(server) for server in range(self.servers)]


def find_shards(directory: str | os.PathLike[str], servers: int | None) -> ShardSet:
    """The checkpoint in a directory, of the given number of servers if there is one.

    Raises:
        RestoreError: if there is none, it is not clear which is meant, or its files come from
            several saves.
        DamagedCheckpointError: if a file is not whole.
    """
    counts: dict[int, dict[int, Path]] = defaultdict(dict)
    for path in sorted(Path(directory).glob("ps-*-of-*")):
        match = _NAME.fullmatch(path.name)
        if match:
            counts[int(match[2])][int(match[1])] = path
    if not counts:
        raise RestoreError(f"There is no checkpoint of parameter servers in {str(directory)!r}.")
    count = servers if servers in counts else _only(directory, counts)
    files = {server: ShardFile(path) for server, path in counts[count].items()}
    steps = {server: file.metadata["step"] for server, file in files.items()}
    if len(set(steps.values())) > 1:
        raise RestoreError(
            f"The files in {str(directory)!r} come from several saves: {steps} (step by server). "
            "A save did not reach its end; use an older checkpoint."
        )
    return ShardSet(Path(directory), files, count, next(iter(steps.values())))


def _only(directory: str | os.PathLike[str], counts: dict[int, dict[int, Path]]) -> int:
    if len(counts) > 1:
        raise RestoreError(
            f"In {str(directory)!r} there are checkpoints of {sorted(counts)} servers. Remove all "
            "but the one that is meant."
        )
    return next(iter(counts))
