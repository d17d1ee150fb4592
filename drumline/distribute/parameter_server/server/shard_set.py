"""The files of a checkpoint that servers wrote, one each."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumline.distribute.parameter_server.server.errors import RestoreError
from drumline.distribute.parameter_server.server.shard_file import ShardFile, shard_path

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
