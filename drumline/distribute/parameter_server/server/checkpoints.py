"""Writing what a server stores while it is trained, and giving shards the values of a checkpoint.

`save` takes a snapshot of each shard under its lock, and writes without it; each shard is as it was
at one moment, with the pushes that were applied to it. Three ways lead back: `restore_own` takes
this server's file with everything in it, `restore_resharded` gives shards their rows from the files
of another number of servers, and `restore_chosen` restores some variables.

All of them check first and assign afterwards, so a checkpoint that does not fit changes nothing.
`ParameterServer` calls them under its lock for saving; updates continue beside a save.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline._safetensors import ArraySpec
from drumline.distribute.parameter_server.errors import RestoreError, SaveError
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.checkpoint_files import (
    ShardFile,
    ShardSet,
    new_shard_file,
    shard_path,
)
from drumline.distribute.parameter_server.server.optimizer_updates import Slot
from drumline.distribute.parameter_server.server.push import PushLog
from drumline.distribute.parameter_server.server.shard import ServerShard, Snapshot
from drumline.distribute.parameter_server.wire.messages import RestoreRequest

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.server.parameter_server import ServerShards


def save(
    shards: Sequence[ServerShard],
    applied: PushLog,
    directory: str | os.PathLike[str],
    server: int,
    servers: int,
    step: str | int | None,
) -> tuple[str, int]:
    """Write shards, each as it is at one moment after the call began.

    Args:
        shards: what is written, with the pushes that were applied to it.
        applied: these.
        directory: of the checkpoint; each server writes a file of its own there.
        server: the number of this server.
        servers: how many there are.
        step: what the checkpoint is called in messages.

    Returns:
        The file, and how many bytes it has.

    Raises:
        SaveError: if it cannot be written; the file that was there before is still there.
    """
    path = shard_path(directory, server, servers)
    with _snapshots(shards, applied) as (described, arrays, snapshots):
        metadata = {
            "step": step,
            "server": server,
            "servers": servers,
            "finished": applied.finished,
            "parts": described,
        }
        try:
            with new_shard_file(path, arrays, metadata) as writer:
                for snapshot in snapshots:
                    for name, piece in snapshot.pieces():
                        writer.append(name, piece)
        except OSError as error:
            raise SaveError(
                error.errno,
                f"Server {server} could not write its shard of a checkpoint: {error}. What was "
                "there before is unchanged. Make room, or save to another directory; training "
                "can continue",
                str(path),
            ) from error
    return str(path), writer.nbytes


@contextlib.contextmanager
def _snapshots(
    shards: Sequence[ServerShard], applied: PushLog
) -> Iterator[tuple[dict[str, Any], dict[str, ArraySpec], list[Snapshot]]]:
    described: dict[str, Any] = {}
    arrays: dict[str, ArraySpec] = {}
    snapshots: list[Snapshot] = []
    begun: list[ServerShard] = []
    try:
        for shard in shards:
            with shard.lock:
                described[shard.name] = _described(shard, applied)
                arrays.update(_specs(shard))
                snapshots += shard.begin_snapshot()
                begun.append(shard)
        yield described, arrays, snapshots
    finally:
        for shard in begun:
            with shard.lock:
                shard.end_snapshot()


def _described(shard: ServerShard, applied: PushLog) -> dict[str, Any]:
    return {
        "table": shard.is_table,
        "start": shard.start,
        "iteration": shard.iteration,
        "rule": shard.update_name,
        "slots": [slot.to_json() for slot in shard.slot_list],
        "applied": applied.of_shard(shard.name),
    }


def _specs(shard: ServerShard) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    slots = {shard.file_name(name): spec for name, spec in shard.slot_specs().items()}
    return {shard.file_name(): (shard.shape, shard.dtype), **slots}


@dataclass(frozen=True)
class SavedRows:
    """Rows of a shard in a file.

    Attributes:
        file: which.
        name: the shard's name there.
        first: the first of the file's rows that is taken.
        start: the row of the shard here that takes it.
        count: how many rows are taken.
    """

    file: ShardFile
    name: str
    first: int
    start: int
    count: int

    @property
    def described(self) -> dict[str, Any]:
        """What the file tells of the shard."""
        found: dict[str, Any] = self.file.metadata["parts"][self.name]
        return found

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots that the file has."""
        return tuple(Slot.from_json(slot) for slot in self.described["slots"])

    def value(self, slot: Slot | None = None) -> np.ndarray:
        """The rows of the value, or of a slot; a slot that all rows share, whole."""
        if slot is None:
            return self._rows(self.file.arrays[self.name])
        array = self.file.arrays[f"{self.name}#{slot.name}"]
        return self._rows(array) if slot.shape is None else array

    def _rows(self, array: np.ndarray) -> np.ndarray:
        return array[self.first : self.first + self.count] if array.ndim else array


def restore_own(shards: ServerShards, applied: PushLog, saved: ShardSet, server: int) -> None:
    """Restore the file that this server wrote. Parts that are not here are made.

    Raises:
        RestoreError: if a shard here is not in the file, or is another one there.
        UpdateMismatchError: if a shard has other slots there.
        DamagedCheckpointError: if the file is.
    """
    file = saved.own(server)
    described = file.metadata["parts"]
    missing = [shard.name for shard in shards if shard.name not in described]
    if missing:
        raise RestoreError(
            f"{str(file.path)!r} lacks the shards {missing[:5]} that this server keeps. Restore a "
            "checkpoint of the same variables."
        )
    plan = []
    for name in described:
        if name in shards:
            shard = shards.get(name)
            piece = SavedRows(file, name, 0, 0, shard.rows)
            check(shard, [piece], whole=True)
            plan.append((shard, [piece]))
    file.verify()
    for shard, pieces in plan:
        assign(shard, pieces)
    for name in described:
        if name not in shards:
            _make(shards, file, name)
    finished = file.metadata["finished"]
    applied.reset({name: each["applied"] for name, each in described.items()}, finished)


def restore_resharded(shards: ServerShards, applied: PushLog, saved: ShardSet) -> None:
    """Restore the shards here from the files of another number of servers.

    Raises:
        RestoreError: if rows of a shard are in no file, or the shard is another one there.
        UpdateMismatchError: if a shard has other slots there.
        DamagedCheckpointError: if a file is.
    """
    files = saved.all()
    if not len(shards):
        raise RestoreError(
            f"The checkpoint in {str(saved.directory)!r} is of {saved.servers} servers, so which "
            "of its rows belong here follows from the variables: create them before it is restored."
        )
    plan = [(shard, pieces_of(shard, files)) for shard in shards]
    for shard, pieces in plan:
        check(shard, pieces, whole=False)
    for file in files:
        file.verify()
    for shard, pieces in plan:
        assign(shard, pieces)
    applied.reset({}, {})


def pieces_of(
    shard: ServerShard, files: Sequence[ShardFile], key: str | None = None
) -> list[SavedRows]:
    """Where the rows of a shard are, in order.

    Args:
        shard: the shard.
        files: of all servers.
        key: of the variable in the files, by default that of the shard.
    """
    key = shard.name.rpartition("/")[0] if key is None else key
    found = []
    for file in files:
        for name, described in file.metadata["parts"].items():
            if name.rpartition("/")[0] != key:
                continue
            if shard.start is None or described["start"] is None:
                raise RestoreError(
                    f"Where the rows of the shard {shard.name!r} begin in their variable was not "
                    "said when it was created; restore with as many servers as there were."
                )
            array = file.arrays[name]
            rows = len(array) if array.ndim else 1
            first = max(shard.start, described["start"])
            stop = min(shard.start + shard.rows, described["start"] + rows)
            if first < stop or (rows == 0 and shard.rows == 0):
                start = first - shard.start
                found.append(SavedRows(file, name, first - described["start"], start, stop - first))
    return sorted(found, key=lambda piece: piece.start)


def check(
    shard: ServerShard, pieces: Sequence[SavedRows], whole: bool, with_state: bool = True
) -> None:
    """Make sure that the pieces are the rows of a shard, and all of them.

    Raises:
        RestoreError: if not.
        UpdateMismatchError: if they have other slots than the shard's updates.
    """
    covered = 0
    for piece in pieces:
        array = piece.file.arrays[piece.name]
        same_rows = array.shape == shard.shape if whole else array.shape[1:] == shard.shape[1:]
        if not same_rows or array.dtype != shard.dtype or array.ndim != len(shard.shape):
            raise RestoreError(
                f"The shard {shard.name!r} has shape {shard.shape} and dtype {shard.dtype}; in "
                f"{str(piece.file.path)!r} it has {array.shape} and {array.dtype}."
            )
        if piece.described["table"] != shard.is_table:
            raise RestoreError(
                f"The shard {shard.name!r} has table={shard.is_table}, and the opposite in "
                f"{str(piece.file.path)!r}."
            )
        covered += piece.count if piece.start == covered else 0
        if piece.described["rule"] is not None and with_state:
            shard.check_slots(piece.slots)
        if piece.slots != pieces[0].slots:
            raise RestoreError(f"The files disagree on the slots of the shard {shard.name!r}.")
    if covered != shard.rows or not pieces:
        raise RestoreError(
            f"The checkpoint has {covered} of the {shard.rows} rows of the shard {shard.name!r}."
        )


def assign(
    shard: ServerShard,
    pieces: Sequence[SavedRows],
    with_value: bool = True,
    with_state: bool = True,
) -> None:
    """Give a shard the rows of pieces that were checked.

    Args:
        shard: the shard.
        pieces: all of its rows, in order.
        with_value: whether to take the value.
        with_state: whether to take the slots and the number of updates.
    """
    slots, update = pieces[0].slots, pieces[0].described["rule"]
    with shard.lock:
        for piece in pieces if with_value else ():
            shard.write(piece.start, piece.start + piece.count, piece.value())
        if not with_state:
            return
        if update is None:
            shard.reset_slots(shard.slot_list)
            return
        if set(slots) != set(shard.slot_list):
            shard.reset_slots(slots)
        for piece in pieces:
            for slot in slots:
                stop = piece.start + piece.count
                shard.write_slot(slot.name, piece.value(slot), piece.start, stop)
        shard.iteration = max(piece.described["iteration"] for piece in pieces)
        if shard.update_name is None:
            shard.update_name = update


def _make(shards: ServerShards, file: ShardFile, name: str) -> None:
    array, described = file.arrays[name], file.metadata["parts"][name]
    shard, _ = shards.create(
        name,
        array.shape,
        array.dtype,
        described["table"],
        described["start"],
        lambda: memory.copied(array),
    )
    assign(shard, [SavedRows(file, name, 0, 0, shard.rows)])


def key_of(shard: ServerShard) -> str:
    """The key of the variable of which it is a shard."""
    return shard.name.rpartition("/")[0]


def restore_chosen(
    shards: ServerShards, saved: ShardSet, wanted: Mapping[str, RestoreRequest], only_check: bool
) -> None:
    """Restore the shards here of some variables, or check that it can be done.

    Args:
        shards: those of this server.
        saved: what was saved.
        wanted: by the variables' keys here.
        only_check: whether to read and compare only; what was checked is not read twice.

    Raises:
        RestoreError: if rows of a shard are in no file, or the shard is another one there.
        UpdateMismatchError: if a shard has other slots there.
        DamagedCheckpointError: if what is taken of a file is damaged.
    """
    files = saved.all()
    for shard in shards:
        each = wanted.get(key_of(shard))
        if each is None:
            continue
        pieces = pieces_of(shard, files, each.key)
        if not only_check:
            assign(shard, pieces, each.value, each.state)
            continue
        check(shard, pieces, whole=False, with_state=each.state)
        for piece in pieces:
            piece.file.verify(_names(piece, each))


def _names(piece: SavedRows, wanted: RestoreRequest) -> list[str]:
    slots = [f"{piece.name}#{slot.name}" for slot in piece.slots] if wanted.state else []
    return [piece.name, *slots]
