"""Giving parts the values of a checkpoint, of the same number of servers or of another.

Writing what a server keeps, while it is trained.

Restoring some variables of a checkpoint, whatever servers wrote it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline._safetensors import ArraySpec
from drumline.distribute.parameter_server.errors import RestoreError, SaveError
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.checkpoint_files import (
    ShardFile,
    ShardSet,
    ShardWriter,
    shard_path,
)
from drumline.distribute.parameter_server.server.optimizer_updates import Slot
from drumline.distribute.parameter_server.server.push import PushLog
from drumline.distribute.parameter_server.server.shard import ServerShard, Snapshot
from drumline.distribute.parameter_server.server.shards import ServerShards


def save(
    parts: Sequence[ServerShard],
    applied: PushLog,
    directory: str | os.PathLike[str],
    server: int,
    servers: int,
    step: int | None,
) -> tuple[str, int]:
    """Write parts, each as it is at one moment after the call began.

    Args:
        parts: what is written, with the pushes that were applied to it.
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
    with _snapshots(parts, applied) as (described, arrays, snapshots):
        metadata = {
            "step": step,
            "server": server,
            "servers": servers,
            "finished": applied.finished,
            "parts": described,
        }
        try:
            with ShardWriter(path, arrays, metadata) as writer:
                for snapshot in snapshots:
                    for name, piece in snapshot.pieces():
                        writer.append(name, piece)
                writer.finish()
        except OSError as error:
            raise SaveError(
                error.errno,
                f"Server {server} could not write its part of a checkpoint: {error}. What was "
                "there before is unchanged. Make room, or save to another directory; training "
                "can go on",
                str(path),
            ) from error
    return str(path), writer.nbytes


@contextlib.contextmanager
def _snapshots(
    parts: Sequence[ServerShard], applied: PushLog
) -> Iterator[tuple[dict[str, Any], dict[str, ArraySpec], list[Snapshot]]]:
    described: dict[str, Any] = {}
    arrays: dict[str, ArraySpec] = {}
    snapshots: list[Snapshot] = []
    begun: list[ServerShard] = []
    try:
        for part in parts:
            with part.lock:
                described[part.name] = _described(part, applied)
                arrays.update(_specs(part))
                snapshots += part.begin_snapshot()
                begun.append(part)
        yield described, arrays, snapshots
    finally:
        for part in begun:
            with part.lock:
                part.end_snapshot()


def _described(part: ServerShard, applied: PushLog) -> dict[str, Any]:
    return {
        "table": part.is_table,
        "start": part.start,
        "iteration": part.iteration,
        "rule": part.rule_name,
        "slots": [slot.to_json() for slot in part.slot_list],
        "applied": applied.of_part(part.name),
    }


def _specs(part: ServerShard) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    slots = {part.file_name(name): spec for name, spec in part.slot_specs().items()}
    return {part.file_name(): (part.shape, part.dtype), **slots}


@dataclass(frozen=True)
class SavedRows:
    """Rows of a part in a file.

    Attributes:
        file: which.
        name: the part's name there.
        first: the first of the file's rows that is taken.
        start: the row of the part here that takes it.
        count: how many rows are taken.
    """

    file: ShardFile
    name: str
    first: int
    start: int
    count: int

    @property
    def described(self) -> dict[str, Any]:
        """What the file tells of the part."""
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


def restore_own(parts: ServerShards, applied: PushLog, shards: ShardSet, server: int) -> None:
    """Restore the file that this server wrote. Parts that are not here are made.

    Raises:
        RestoreError: if a part here is not in the file, or is another one there.
        UpdateMismatchError: if a part has other slots there.
        DamagedCheckpointError: if the file is.
    """
    file = shards.own(server)
    described = file.metadata["parts"]
    missing = [part.name for part in parts if part.name not in described]
    if missing:
        raise RestoreError(
            f"{str(file.path)!r} lacks the parts {missing[:5]} that this server keeps. Restore a "
            "checkpoint of the same variables."
        )
    plan = []
    for name in described:
        if name in parts:
            part = parts.get(name)
            piece = SavedRows(file, name, 0, 0, part.rows)
            check(part, [piece], whole=True)
            plan.append((part, [piece]))
    file.verify()
    for part, pieces in plan:
        assign(part, pieces)
    for name in described:
        if name not in parts:
            _make(parts, file, name)
    finished = file.metadata["finished"]
    applied.reset({name: each["applied"] for name, each in described.items()}, finished)


def restore_cut_anew(parts: ServerShards, applied: PushLog, shards: ShardSet) -> None:
    """Restore the parts here from the files of another number of servers.

    Raises:
        RestoreError: if rows of a part are in no file, or the part is another one there.
        UpdateMismatchError: if a part has other slots there.
        DamagedCheckpointError: if a file is.
    """
    files = shards.all()
    if not len(parts):
        raise RestoreError(
            f"The checkpoint in {str(shards.directory)!r} is of {shards.servers} servers, so which "
            "of its rows belong here follows from the variables: create them before it is restored."
        )
    plan = [(part, pieces_of(part, files)) for part in parts]
    for part, pieces in plan:
        check(part, pieces, whole=False)
    for file in files:
        file.verify()
    for part, pieces in plan:
        assign(part, pieces)
    applied.reset({}, {})


def pieces_of(
    part: ServerShard, files: Sequence[ShardFile], key: str | None = None
) -> list[SavedRows]:
    """Where the rows of a part are, in order.

    Args:
        part: the part.
        files: of all servers.
        key: of the variable in the files, by default that of the part.
    """
    key = part.name.rpartition("/")[0] if key is None else key
    found = []
    for file in files:
        for name, described in file.metadata["parts"].items():
            if name.rpartition("/")[0] != key:
                continue
            if part.start is None or described["start"] is None:
                raise RestoreError(
                    f"Where the rows of the part {part.name!r} begin in their variable was not "
                    "said when it was created; restore with as many servers as there were."
                )
            array = file.arrays[name]
            rows = len(array) if array.ndim else 1
            first = max(part.start, described["start"])
            stop = min(part.start + part.rows, described["start"] + rows)
            if first < stop or (rows == 0 and part.rows == 0):
                start = first - part.start
                found.append(SavedRows(file, name, first - described["start"], start, stop - first))
    return sorted(found, key=lambda piece: piece.start)


def check(
    part: ServerShard, pieces: Sequence[SavedRows], whole: bool, with_state: bool = True
) -> None:
    """Make sure that the pieces are the rows of a part, and all of them.

    Raises:
        RestoreError: if not.
        UpdateMismatchError: if they have other slots than the part's rules.
    """
    covered = 0
    for piece in pieces:
        array = piece.file.arrays[piece.name]
        same_rows = array.shape == part.shape if whole else array.shape[1:] == part.shape[1:]
        if not same_rows or array.dtype != part.dtype or array.ndim != len(part.shape):
            raise RestoreError(
                f"The part {part.name!r} has shape {part.shape} and dtype {part.dtype}; in "
                f"{str(piece.file.path)!r} it has {array.shape} and {array.dtype}."
            )
        if piece.described["table"] != part.is_table:
            raise RestoreError(
                f"The part {part.name!r} has table={part.is_table}, and the opposite in "
                f"{str(piece.file.path)!r}."
            )
        covered += piece.count if piece.start == covered else 0
        if piece.described["rule"] is not None and with_state:
            part.check_slots(piece.slots)
        if piece.slots != pieces[0].slots:
            raise RestoreError(f"The files disagree on the slots of the part {part.name!r}.")
    if covered != part.rows or not pieces:
        raise RestoreError(
            f"The checkpoint has {covered} of the {part.rows} rows of the part {part.name!r}."
        )


def assign(
    part: ServerShard, pieces: Sequence[SavedRows], with_value: bool = True, with_state: bool = True
) -> None:
    """Give a part the rows of pieces that were checked.

    Args:
        part: the part.
        pieces: all of its rows, in order.
        with_value: whether to take the value.
        with_state: whether to take the slots and the number of updates.
    """
    slots, rule = pieces[0].slots, pieces[0].described["rule"]
    with part.lock:
        for piece in pieces if with_value else ():
            part.write(piece.start, piece.start + piece.count, piece.value())
        if not with_state:
            return
        if rule is None:
            part.reset_slots(part.slot_list)
            return
        if set(slots) != set(part.slot_list):
            part.reset_slots(slots)
        for piece in pieces:
            for slot in slots:
                stop = piece.start + piece.count
                part.write_slot(slot.name, piece.value(slot), piece.start, stop)
        part.iteration = max(piece.described["iteration"] for piece in pieces)
        if part.rule_name is None:
            part.rule_name = rule


def _make(parts: ServerShards, file: ShardFile, name: str) -> None:
    array, described = file.arrays[name], file.metadata["parts"][name]
    part, _ = parts.create(
        name,
        array.shape,
        array.dtype,
        described["table"],
        described["start"],
        lambda: memory.copied(array),
    )
    assign(part, [SavedRows(file, name, 0, 0, part.rows)])


@dataclass(frozen=True)
class RestoreRequest:
    """What to take of a variable.

    Attributes:
        key: what the checkpoint's files call it.
        value: whether its value is taken.
        state: whether its slots and its number of updates are.
    """

    key: str
    value: bool
    state: bool


def key_of(part: ServerShard) -> str:
    """The key of the variable of which it is a part."""
    return part.name.rpartition("/")[0]


def restore_chosen(
    parts: ServerShards, shards: ShardSet, wanted: Mapping[str, RestoreRequest], only_check: bool
) -> None:
    """Restore the parts here of some variables, or check that it can be done.

    Args:
        parts: those of this server.
        shards: what was saved.
        wanted: by the variables' keys here.
        only_check: whether to read and compare only; what was checked is not read twice.

    Raises:
        RestoreError: if rows of a part are in no file, or the part is another one there.
        UpdateMismatchError: if a part has other slots there.
        DamagedCheckpointError: if what is taken of a file is damaged.
    """
    files = shards.all()
    for part in parts:
        each = wanted.get(key_of(part))
        if each is None:
            continue
        pieces = pieces_of(part, files, each.key)
        if not only_check:
            assign(part, pieces, each.value, each.state)
            continue
        check(part, pieces, whole=False, with_state=each.state)
        for piece in pieces:
            piece.file.verify(_names(piece, each))


def _names(piece: SavedRows, wanted: RestoreRequest) -> list[str]:
    slots = [f"{piece.name}#{slot.name}" for slot in piece.slots] if wanted.state else []
    return [piece.name, *slots]
