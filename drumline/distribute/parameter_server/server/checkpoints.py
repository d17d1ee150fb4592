"""Writing what a server stores while it is trained, and giving shards the values of a checkpoint.

`save` takes a snapshot of each shard under its lock, and writes without it; each shard is as it was
at one moment, with the pushes that were applied to it. Three ways lead back: `restore_own` takes
this server's file with everything in it, `restore_resharded` gives shards their rows from the files
of another number of servers, and `restore_chosen` restores some variables.

All of them check first and assign afterwards, so a checkpoint that does not fit changes nothing.
`ParameterServer` calls them under its lock for saving; updates continue beside a save.

A server's file of a checkpoint (`new_shard_file`, `ShardFile`) is in the safetensors format; a
`ShardSet` is all files of one save. A file is written piece by piece, so what it holds need not be
in memory a second time, and is read where it lies. Under its name there is always a whole one, the
last or the one before.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from drumline._safetensors import (
    CHECKSUMS,
    SUFFIX,
    ArrayLayout,
    ArraySpec,
    bytes_of,
    checksum,
    parse,
)
from drumline.distribute.parameter_server.errors import (
    IncompleteCheckpointError,
    RestoreError,
    SaveError,
)
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.optimizer_updates import Slot
from drumline.distribute.parameter_server.server.push import PushLog
from drumline.distribute.parameter_server.server.shard import ServerShard, Snapshot
from drumline.distribute.parameter_server.wire.messages import RestoreRequest
from drumline.training.checkpoint.file_format import DamagedCheckpointError, replacing

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.server.parameter_server import ServerShards


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
        return self._layout.header({**self._metadata, CHECKSUMS: checksums})


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
            IncompleteCheckpointError: if it is not there.
        """
        if server not in self.files:
            raise IncompleteCheckpointError(
                f"The checkpoint in {str(self.directory)!r} lacks the file of server {server} "
                f"({shard_path(self.directory, server, self.servers).name}); it has those of "
                f"{sorted(self.files)}."
            )
        return self.files[server]

    def all(self) -> list[ShardFile]:
        """All files, none of them missing.

        Raises:
            IncompleteCheckpointError: if one is.
        """
        return [self.own(server) for server in range(self.servers)]


def find_shards(directory: str | os.PathLike[str], servers: int | None) -> ShardSet:
    """The checkpoint in a directory, of the given number of servers if there is one.

    Raises:
        IncompleteCheckpointError: if there is none, or its files come from several saves.
        RestoreError: if it is not clear which is meant.
        DamagedCheckpointError: if a file is not whole.
    """
    counts: dict[int, dict[int, Path]] = defaultdict(dict)
    for path in sorted(Path(directory).glob("ps-*-of-*")):
        match = _NAME.fullmatch(path.name)
        if match:
            counts[int(match[2])][int(match[1])] = path
    if not counts:
        raise IncompleteCheckpointError(
            f"There is no checkpoint of parameter servers in {str(directory)!r}."
        )
    count = servers if servers in counts else _only(directory, counts)
    files = {server: ShardFile(path) for server, path in counts[count].items()}
    steps = {server: file.metadata["step"] for server, file in files.items()}
    if len(set(steps.values())) > 1:
        raise IncompleteCheckpointError(
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
