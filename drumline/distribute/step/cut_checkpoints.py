"""Checkpoints of variables that are cut over processes: each process writes its own rows.

A directory beside the checkpoint's file has a file for each process, with its rows of each variable
``(own replicas, length)``. Any number of processes and replicas reads them: a value's elements lie
one after another over the rows, and a process takes those of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from drumline import _safetensors
from drumline.distribute.global_arrays import joined_rows
from drumline.distribute.process_group.host_collectives import joint_actions
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.external_storage import ExternalValues, register_reader
from drumline.training.cut_values import reading_rows, row_length
from drumline.training.keras_internals import Variable

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

FORMAT = "rows of processes"


class CutStore:
    """Saves and restores the variables that a strategy cuts over processes.

    An `ExternalStore`, whose values are in the program.

    Args:
        strategy: the strategy.
    """

    format = FORMAT
    of_processes = True

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def is_first(self) -> bool:
        """Whether this process writes what is not cut."""
        return self._strategy.process_index == 0

    def agree(self, what: str, detail: str) -> list[str]:
        """Wait for all processes, and return the detail that each gives."""
        return joint_actions.wait(what, detail)

    def settle(self) -> None:
        """Wait until no program writes the values."""
        self._strategy._in_flight.wait()

    def holds(self, variable: Variable) -> bool:
        """Whether it is cut; all are for which this is asked."""
        return True

    def save(
        self, directory: str, variables: Mapping[str, Variable], optimizers: Mapping[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Write this process's rows to a file in `directory`."""
        with reading_rows():
            arrays = {path: _own_rows(variable.value) for path, variable in variables.items()}
        layout = _safetensors.ArrayLayout({p: (a.shape, a.dtype) for p, a in arrays.items()})
        checksums = {path: _safetensors.checksum(array) for path, array in arrays.items()}
        with file_format.replacing(_file(directory, self._strategy.process_index)) as file:
            file.write(layout.header({_safetensors.CHECKSUMS: checksums}))
            for array in arrays.values():
                file.write(_safetensors.bytes_of(array).data)
        record = {
            "files": self._strategy.num_processes,
            "rows": len(self._strategy.local_replica_ids),
        }
        return {path: {} for path in variables}, record

    def check(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Variable],
        optimizers: Mapping[str, Any],
    ) -> None:
        """Raise if a file is missing or damaged."""
        RowsReader(directory, kept).check(variables)

    def restore(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Variable],
        optimizers: Mapping[str, Any],
    ) -> None:
        """Give the variables their values: this process reads its own rows."""
        reader = RowsReader(directory, kept)
        replicas = self._strategy.num_replicas_in_sync
        for path, variable in variables.items():
            size = math.prod(variable.shape)
            length = row_length(size, replicas)
            rows = []
            for index in self._strategy.local_replica_ids:
                own = reader.elements(path, index * length, min(size, (index + 1) * length))
                rows.append(np.pad(own, (0, length - own.size)))
            variable._direct_assign(joined_rows(rows, self._strategy.mesh))

    def restored(self) -> None:
        """Nothing is left to do."""


class RowsReader:
    """Reads what `CutStore`s of all processes have saved.

    Args:
        directory: where.
        kept: what the checkpoint's file says of it.
    """

    def __init__(self, directory: str, kept: ExternalValues) -> None:
        self._directory = directory
        self._entries = kept.entries
        record = kept.record
        if not all(isinstance(record.get(name), int) for name in ("files", "rows")):
            raise file_format.DamagedCheckpointError(
                f"The checkpoint of {directory!r} does not say how many files it has."
            )
        self._files, self._rows = record["files"], record["rows"]
        self._opened: dict[int, _safetensors.SavedArrays] = {}

    def check(self, paths: Iterable[str]) -> None:
        """Read all rows of these paths, and compare their checksums and sizes.

        Raises:
            DamagedCheckpointError: if something is missing, or is something else.
        """
        paths = list(paths)
        for number in range(self._files):
            saved = self._file(number)
            try:
                missing = [path for path in paths if path not in saved.arrays]
                if missing:
                    raise ValueError(f"it has no {missing[0]!r}")
                saved.verify(paths)
            except ValueError as error:
                raise self._damaged(number, str(error)) from error

    def read(self, path: str) -> np.ndarray:
        """A value."""
        shape = tuple(self._entries[path]["shape"])
        return self.elements(path, 0, math.prod(shape)).reshape(shape)

    def elements(self, path: str, start: int, stop: int) -> np.ndarray:
        """A range of the elements of a value, which may be empty."""
        entry = self._entries[path]
        length = row_length(math.prod(entry["shape"]), self._files * self._rows)
        found = [np.zeros(0, np.dtype(jnp.dtype(entry["dtype"])))]
        while start < stop:
            row, offset = divmod(start, length)
            number, own = divmod(row, self._rows)
            rows = self._file(number).arrays[path]
            if rows.shape != (self._rows, length):
                raise self._damaged(number, f"{path!r} has the shape {list(rows.shape)}")
            part = rows[own, offset : offset + stop - start]
            found.append(part)
            start += part.size
        return np.concatenate(found)

    def _file(self, number: int) -> _safetensors.SavedArrays:
        if number not in self._opened:
            try:
                content = np.memmap(_file(self._directory, number), np.uint8, mode="r")
                self._opened[number] = _safetensors.parse(content)
            except (OSError, ValueError) as error:
                raise self._damaged(number, str(error)) from error
        return self._opened[number]

    def _damaged(self, number: int, reason: str) -> file_format.DamagedCheckpointError:
        name = str(_file(self._directory, number))
        return file_format.DamagedCheckpointError(
            f"Process {number}'s part of a checkpoint, {name!r}, is damaged: {reason}. Nothing of "
            "it was restored; use an older one."
        )


register_reader(FORMAT, RowsReader)


def _file(directory: str, number: int) -> Path:
    return Path(directory) / f"process-{number}{_safetensors.SUFFIX}"


def _own_rows(value: Any) -> np.ndarray:
    """The rows ``(own replicas, length)`` of an array that lies cut, in the replicas' order."""
    shards = sorted(value.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])
