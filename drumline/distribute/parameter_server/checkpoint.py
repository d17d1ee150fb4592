"""What parameter servers save and restore of a checkpoint, as the chief and as any reader sees it.

`ParameterServerStore` is the chief's side: it asks all servers at once to write or read their
files, waits for all, and raises the first failure under its own class. A save is complete only when
the chief sees every server's file, so a directory that is not shared is refused. `check` reads all
that `restore` will take before anything changes.

`SavedValues` reads the same files where there are no servers, one variable at a time: for
evaluation, and for a job with another strategy. `training.checkpoint` calls both through
``external_storage``; they have no threads of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.distribute.parameter_server.errors import (
    IncompleteCheckpointError,
    RestoreError,
    SaveError,
    UpdateMismatchError,
)
from drumline.distribute.parameter_server.optimizers import OptimizerRegistry
from drumline.distribute.parameter_server.server.checkpoints import ShardFile, find_shards
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.wire import RemoteError
from drumline.distribute.parameter_server.wire.messages import (
    RestoreRequest,
    RestoreShards,
    SaveShards,
    VariableLayout,
)
from drumline.distribute.parameter_server.wire.schema import TaskRequest
from drumline.training.checkpoint.external_storage import ExternalValues, register_reader
from drumline.training.checkpoint.file_format import DamagedCheckpointError
from drumline.training.keras_internals import trained_variables

FORMAT = "parameter servers"


class SavedValues:
    """The files that the servers of one checkpoint wrote, opened.

    Args:
        directory: where they are.
        kept: what the checkpoint's file tells of them.

    Raises:
        IncompleteCheckpointError: if a file is missing, or is of another save.
        DamagedCheckpointError: if one is not whole.
    """

    def __init__(self, directory: str, kept: ExternalValues) -> None:
        self._directory = directory
        self._entries = kept.entries
        saved = find_shards(directory, kept.record["servers"])
        self._files = saved.all()
        if saved.step != kept.record["step"]:
            raise IncompleteCheckpointError(
                f"The files in {directory!r} are of another checkpoint."
            )
        self._shards: dict[str, list[tuple[int, str, ShardFile]]] = {}
        for file in self._files:
            for name, described in file.metadata["parts"].items():
                key = name.rpartition("/")[0]
                self._shards.setdefault(key, []).append((described["start"], name, file))
        for shards in self._shards.values():
            shards.sort(key=lambda shard: shard[0])

    def require(self, paths: Iterable[str]) -> None:
        """Make sure that the files have all rows of the values at `paths`.

        Raises:
            IncompleteCheckpointError: if not; it names the first that is missing.
        """
        for path in paths:
            entry, row = self._entries[path], 0
            rows = entry["shape"][0] if entry["shape"] else 1
            for start, name, file in self._shards.get(entry["key"], ()):
                shape = file.arrays[name].shape
                if start == row and list(shape[1:]) == entry["shape"][1:]:
                    row += shape[0] if shape else 1
            if row != rows:
                raise IncompleteCheckpointError(
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
            for _, name, file in self._shards.get(key, ())
        )

    def read(self, path: str) -> np.ndarray:
        """The value at `path`."""
        entry = self._entries[path]
        shape, dtype = tuple(entry["shape"]), np.dtype(jnp.dtype(entry["dtype"]))
        pieces = [file.arrays[name] for name, file in self._arrays(path)]
        if not pieces and entry["initial"] is None:
            raise IncompleteCheckpointError(
                f"The checkpoint in {self._directory!r} has no value for {path!r}."
            )
        if not pieces:
            return np.full(shape, entry["initial"], dtype)
        if len(pieces) == 1 or not shape or pieces[0].shape == shape:
            return np.array(pieces[0])
        return np.concatenate(pieces)

    def _arrays(self, path: str) -> list[tuple[str, Any]]:
        """The arrays that a value consists of; none for a slot that was never updated."""
        entry = self._entries[path]
        suffix = "" if entry["slot"] is None else f"#{entry['slot']}"
        shards = self._shards.get(entry["key"], ())
        names = [(f"{name}{suffix}", file) for _, name, file in shards]
        return [(name, file) for name, file in names if name in file.arrays]


register_reader(FORMAT, SavedValues)


_ERRORS: dict[str, type[Exception]] = {
    each.__name__: each
    for each in (
        *(DamagedCheckpointError, IncompleteCheckpointError, RestoreError),
        *(UpdateMismatchError, SaveError),
    )
}


class ParameterServerStore:
    """Has the parameter servers of a strategy save and restore, each its own shards, all at once.

    An optimizer's state on the servers goes with the optimizer: it is saved always, and restored
    where the optimizer is part of the checkpoint and of what is restored.

    Args:
        servers: all of them.
        optimizers: what they know of optimizers.
        settle: waits until no scheduled function runs.
    """

    format = FORMAT

    def __init__(
        self, servers: Servers, optimizers: OptimizerRegistry, settle: Callable[[], None]
    ) -> None:
        self._servers = servers
        self._optimizers = optimizers
        self.settle = settle

    def holds(self, variable: Any) -> bool:
        """Whether the servers have the value, which the chief has of slots set too early."""
        reference = getattr(variable, "reference", None)
        if reference is None:
            return True
        if self._optimizers.has_slots(reference.layout):
            return True
        is_early = self._optimizers.is_early(reference.layout, variable.slot_name)
        return not is_early and variable.first_number is not None

    def save(
        self, directory: str, variables: Mapping[str, Any], optimizers: Mapping[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Save variables to a directory that this process and all servers see.

        Returns:
            What the checkpoint's file tells of each of the variables, and of all.

        Raises:
            SaveError: if a server cannot write, or its file cannot be seen here.
            ParameterServerLostError: if one is lost.
        """
        trained = {
            path: [layout.key if (layout := _layout(v)) else None for v in trained_variables(each)]
            for path, each in optimizers.items()
        }
        entries = {path: _entry(variable) for path, variable in variables.items()}
        keys = {entry["key"] for entry in entries.values()}
        keys |= {key for each in trained.values() for key in each if key is not None}
        step = secrets.token_hex(6)
        servers = len(self._servers)
        self._ask_all(
            SaveShards(directory=directory, servers=servers, step=step, keys=tuple(sorted(keys)))
        )
        try:
            find_shards(directory, len(self._servers)).all()
        except RestoreError as error:
            raise SaveError(
                f"The parameter servers saved to {directory!r}, and their files are not seen here: "
                f"{error} Save to a directory that all machines of the job share."
            ) from error
        return entries, {"servers": len(self._servers), "step": step, "trained": trained}

    def check(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Any],
        optimizers: Mapping[str, Any],
    ) -> None:
        """Make sure that variables can be restored; the servers read all that they will take.

        Raises:
            RestoreError: if a file is missing, or other variables were saved.
            UpdateMismatchError: if they were trained with another optimizer.
            DamagedCheckpointError: if a file is damaged.
        """
        saved = SavedValues(directory, kept)
        saved.require(list(variables))
        self._ask_all(self._request(directory, kept, variables, optimizers, check=True))

    def restore(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Any],
        optimizers: Mapping[str, Any],
    ) -> None:
        """Restore what `check` has checked."""
        self._ask_all(self._request(directory, kept, variables, optimizers))
        saved = SavedValues(directory, kept)
        for layout, key in _states(kept, variables, optimizers):
            self._optimizers.restored(layout, saved.was_updated(key))

    def restored(self) -> None:
        """The chief's own values were restored as well: its counters agree with the servers'."""
        self._optimizers.counted()

    def _request(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Any],
        optimizers: Mapping[str, Any],
        check: bool = False,
    ) -> RestoreShards:
        wanted: dict[str, RestoreRequest] = {}
        for path, variable in variables.items():
            if _layout(variable) is not None:
                key = kept.entries[path]["key"]
                wanted[variable.layout.key] = RestoreRequest(key=key, value=True, state=False)
        for layout, key in _states(kept, variables, optimizers):
            absent = RestoreRequest(key=key, value=False, state=True)
            wanted.setdefault(layout.key, absent).state = True
        servers = kept.record["servers"]
        return RestoreShards(directory=directory, servers=servers, variables=wanted, check=check)

    def _ask_all(self, request: TaskRequest[Any]) -> None:
        """Ask all servers, and wait for all, also where one fails."""
        count = range(len(self._servers))
        asked = [self._servers.submit(server, request) for server in count]
        failed: list[Exception] = []
        for server, future in zip(count, asked, strict=True):
            try:
                self._servers.result(server, request, future)
            except RemoteError as error:
                failed.append(_named(server, error))
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]


def _named(server: int, error: RemoteError) -> Exception:
    """What a server raised, as its own kind of error where it is a known one."""
    known = _ERRORS.get(error.type_name)
    if known is None:
        return error
    named = known(f"ps:{server}: {error.remote_message}")
    named.__cause__ = error
    return named


def _layout(variable: Any) -> VariableLayout | None:
    layout: VariableLayout | None = getattr(variable, "layout", None)
    return layout


def _entry(variable: Any) -> dict[str, Any]:
    layout = _layout(variable)
    if layout is not None:
        return {"key": layout.key, "slot": None, "initial": None}
    key = variable.reference.layout.key
    return {"key": key, "slot": variable.slot_name, "initial": variable.first_number}


def _states(
    kept: ExternalValues, variables: Mapping[str, Any], optimizers: Mapping[str, Any]
) -> list[tuple[VariableLayout, str]]:
    """Of which variables here an optimizer's state is restored, and their keys in the files."""
    found: dict[str, tuple[VariableLayout, str]] = {}
    for path, variable in variables.items():
        if _layout(variable) is None:
            layout = variable.reference.layout
            found[layout.key] = (layout, kept.entries[path]["key"])
    for path, optimizer in optimizers.items():
        keys = kept.record["trained"].get(path, [])
        trained = trained_variables(optimizer)
        if keys and len(keys) != len(trained):
            raise RestoreError(
                f"The optimizer at {path!r} trained {len(keys)} variables when the checkpoint was "
                f"saved, and trains {len(trained)} now. Build it with the same variables."
            )
        for variable, key in zip(trained, keys, strict=False):
            layout = _layout(variable)
            if layout is not None and key is not None:
                found[layout.key] = (layout, key)
    return list(found.values())
