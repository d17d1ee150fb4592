"""Reading what parameter servers saved, one variable at a time, wherever there are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.distribute.parameter_server.server.errors import RestoreError
from drumline.distribute.parameter_server.server.shard_file import ShardFile
from drumline.distribute.parameter_server.server.shard_set import find_shards
from drumline.training.checkpoint.external_storage import ExternalValues, register_reader

FORMAT = "parameter servers"


class SavedValues:
    """The files that the servers of one checkpoint wrote, opened.

    Args:
        directory: where they are.
        kept: what the checkpoint's file tells of them.

    Raises:
        RestoreError: if a file is missing, or is of another save.
        DamagedCheckpointError: if one is not whole.
    """

    def __init__(self, directory: str, kept: ExternalValues) -> None:
        self._directory = directory
        self._entries = kept.entries
        shards = find_shards(directory, kept.record["servers"])
        self._files = shards.all()
        if shards.step != kept.record["step"]:
            raise RestoreError(f"The files in {directory!r} are of another checkpoint.")
        self._parts: dict[str, list[tuple[int, str, ShardFile]]] = {}
        for file in self._files:
            for name, described in file.metadata["parts"].items():
                key = name.rpartition("/")[0]
                self._parts.setdefault(key, []).append((described["start"], name, file))
        for parts in self._parts.values():
            parts.sort(key=lambda part: part[0])

    def require(self, paths: Iterable[str]) -> None:
        """Make sure that the files have all rows of the values at `paths`.

        Raises:
            RestoreError: if not; it names the first that is missing.
        """
        for path in paths:
            entry, row = self._entries[path], 0
            rows = entry["shape"][0] if entry["shape"] else 1
            for start, name, file in self._parts.get(entry["key"], ()):
                shape = file.arrays[name].shape
                if start == row and list(shape[1:]) == entry["shape"][1:]:
                    row += shape[0] if shape else 1
            if row != rows:
                raise RestoreError(
                    f"The servers' files in {self._directory!r} have {row} of the {rows} rows of "
                    f"{entry['key']!r}, which is the value at {path!r}. Use another checkpoint."
                )

    def check(self, paths: Iterable[str]) -> None:
        """Make sure that the values at `paths` are there, and undamaged.

        Raises:
            RestoreError: if one is not there.
            DamagedCheckpointError: if one is damaged.
        """
        paths = list(paths)
        self.require(paths)
        for path in paths:
            for name, file in self._arrays(path):
                file.verify([name])

    def was_updated(self, key: str) -> bool:
        """Whether an optimizer had updated a variable when it was saved."""
        return any(
            file.metadata["parts"][name]["rule"] is not None
            for _, name, file in self._parts.get(key, ())
        )

    def read(self, path: str) -> np.ndarray:
        """The value at `path`."""
        entry = self._entries[path]
        shape, dtype = tuple(entry["shape"]), np.dtype(jnp.dtype(entry["dtype"]))
        pieces = [file.arrays[name] for name, file in self._arrays(path)]
        if not pieces and entry["initial"] is None:
            raise RestoreError(f"The checkpoint in {self._directory!r} has no value for {path!r}.")
        if not pieces:
            return np.full(shape, entry["initial"], dtype)
        if len(pieces) == 1 or not shape or pieces[0].shape == shape:
            return np.array(pieces[0])
        return np.concatenate(pieces)

    def _arrays(self, path: str) -> list[tuple[str, Any]]:
        """The arrays that a value consists of; none for a slot that was never updated."""
        entry = self._entries[path]
        suffix = "" if entry["slot"] is None else f"#{entry['slot']}"
        parts = self._parts.get(entry["key"], ())
        names = [(f"{name}{suffix}", file) for _, name, file in parts]
        return [(name, file) for name, file in names if name in file.arrays]


register_reader(FORMAT, SavedValues)
