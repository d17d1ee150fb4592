"""Reading files in the safetensors format: of other programs, in shards or not, and drumline's.

Shards have an index, ``model.safetensors.index.json``, that says in which file each tensor is. A
checkpoint of drumline's is one file with checksums; values that processes or parameter servers
keep are in files of theirs beside it, which are read by what reads them for `Checkpoint.restore`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline import _safetensors
from drumline._safetensors import LayoutError, SavedLayout
from drumline.checkpoints.reader import (
    PIECE_BYTES,
    CheckpointFileError,
    CheckpointFormat,
    Defect,
    SavedTensors,
    TensorEntry,
    dtype_of,
    is_possible,
)

if TYPE_CHECKING:
    from drumline.training.checkpoint.external_storage import ExternalReader

INDEX_SUFFIX = ".safetensors.index.json"

_MOST_OF_AN_INDEX = 1 << 30


def layout_of(file: Path) -> SavedLayout:
    """Read the header of a file.

    Raises:
        CheckpointFileError: it is not in the format, or its length is another.
    """
    try:
        return _safetensors.read_layout(file)
    except LayoutError as error:
        raise CheckpointFileError(file, error.offset, str(error)) from error


def file_pieces(entry: TensorEntry) -> Iterator[np.ndarray]:
    """Read the values of a tensor that lies in one file.

    Raises:
        CheckpointFileError: the file ends before.
    """
    assert entry.offset is not None
    step = PIECE_BYTES // entry.dtype.itemsize
    with open(entry.file, "rb", buffering=0) as file:
        for start in range(0, entry.size, step):
            place = entry.offset + start * entry.dtype.itemsize
            count = min(step, entry.size - start)
            file.seek(place)
            piece = np.fromfile(file, entry.dtype, count)
            if piece.size < count:
                end = place + piece.nbytes
                raise CheckpointFileError(entry.file, end, f"it ends within {entry.name!r}")
            yield piece


class SafetensorsReader(SavedTensors):
    """One file of any program, or several with an index.

    Args:
        path: of the file, or of the index.

    Attributes:
        texts: the metadata of the files.

    Raises:
        CheckpointFileError: a header or the index is damaged, or a file is missing.
    """

    format = CheckpointFormat.SAFETENSORS

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.texts: dict[str, str] = {}
        self._mistakes: list[Defect] = []
        if path.name.endswith(INDEX_SUFFIX):
            self._read_index(path)
        else:
            self._add_file(path)

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """Read the values of a tensor; see `SavedTensors.pieces`."""
        return file_pieces(self.tensors[name])

    def defects(self, *, finite: bool = False) -> Iterator[Defect]:
        """Read everything, and yield what is wrong."""
        yield from self._mistakes
        yield from super().defects(finite=finite)

    def _add_file(self, file: Path) -> dict[str, TensorEntry]:
        layout = layout_of(file)
        self.files.append(file)
        self.texts = {**layout.texts, **self.texts}
        found = {
            name: TensorEntry(name, tuple(place.shape), place.dtype, file, place.start)
            for name, place in layout.arrays.items()
        }
        for name, entry in found.items():
            if name in self.tensors:
                other = self.tensors[name].file.name
                raise CheckpointFileError(file, entry.offset, f"{name!r} is in {other}, too")
            self.tensors[name] = entry
        return found

    def _read_index(self, path: Path) -> None:
        index = read_json(path, _MOST_OF_AN_INDEX)
        files = index.get("weight_map")
        if not isinstance(files, dict) or not all(isinstance(f, str) for f in files.values()):
            raise CheckpointFileError(path, 0, "it has no weight_map from names to files")
        self.files.append(path)
        for shard in dict.fromkeys(files.values()):
            if shard in ("", ".", "..") or "/" in shard or "\0" in shard:
                raise CheckpointFileError(path, 0, f"{shard!r:.80} is no file of its directory")
            file = path.with_name(shard)
            if not file.is_file():
                raise CheckpointFileError(file, None, f"it is missing; {path.name} names it")
            for name in self._add_file(file):
                if files.get(name) != shard:
                    reason = f"the index does not have {name!r} in {shard}"
                    self._mistakes.append(Defect(path, 0, reason))
        for name in files.keys() - self.tensors.keys():
            reason = f"it has no {name!r}, which the index has in it"
            self._mistakes.append(Defect(path.with_name(files[name]), 0, reason))
        described = index.get("metadata")
        total = described.get("total_size") if isinstance(described, dict) else None
        held = sum(entry.nbytes for entry in self.tensors.values())
        if isinstance(total, int) and total != held:
            reason = f"it says that the tensors have {total:,} bytes; they have {held:,}"
            self._mistakes.append(Defect(path, 0, reason))


class DrumlineReader(SafetensorsReader):
    """A checkpoint that `dl.train.Checkpoint` wrote.

    Args:
        path: of its file.

    Attributes:
        own: what drumline added: checksums, states, aliases.

    Raises:
        CheckpointFileError: its header is damaged.
    """

    format = CheckpointFormat.DRUMLINE

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._external: ExternalReader | None = None
        try:
            own = SavedLayout({}, self.texts).own_metadata or {}
        except LayoutError as error:
            raise CheckpointFileError(path, error.offset, str(error)) from error
        self.own: dict[str, Any] = own
        counter = own.get("save_counter")
        self.step = counter if isinstance(counter, int) else None
        states = own.get("states")
        if isinstance(states, dict) and states:
            self.left_out.append(f"positions of inputs, and other states: {', '.join(states)}")
        if own.get("kept") is not None:
            self._add_kept(own["kept"])

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """Read the values of a tensor, and compare its checksum."""
        entry = self.tensors[name]
        if entry.offset is None:
            yield from self._kept_pieces(entry)
            return
        is_former = _safetensors.CHECKSUMS not in self.own
        recorded = self.own.get("crc32" if is_former else _safetensors.CHECKSUMS)
        expected = recorded.get(name) if isinstance(recorded, dict) else None
        found, before = 0, None
        for piece in file_pieces(entry):
            content = _safetensors.bytes_of(piece)
            found = (
                zlib.crc32(content.data, found)
                if is_former
                else _safetensors.checksum(content, found)
            )
            if before is not None:
                yield before
            before = piece
        if expected not in (found, f"{found:08x}"):
            raise CheckpointFileError(entry.file, entry.offset, f"the checksum of {name!r} differs")
        if before is not None:
            yield before

    def _kept_pieces(self, entry: TensorEntry) -> Iterator[np.ndarray]:
        if self._external is None:
            # What reads them is registered by the strategies, which take JAX and Keras along.
            import drumline.distribute  # noqa: F401
            from drumline.training.checkpoint.external_storage import ExternalValues, reader_of

            kept = ExternalValues(**self.own["kept"])
            self._external = _guarded(entry, reader_of, str(entry.file), kept)
        external = self._external
        _guarded(entry, external.check, [entry.name])
        value = _guarded(entry, external.read, entry.name)
        if value.shape != entry.shape or value.dtype != entry.dtype:
            reason = f"{entry.name!r} has shape {value.shape} and dtype {value.dtype} there"
            raise CheckpointFileError(entry.file, None, reason)
        yield value.reshape(-1)

    def _add_kept(self, kept: Any) -> None:
        match kept:
            case {
                "format": str(form),
                "directory": str(directory),
                "entries": dict(entries),
                "record": dict(record),
            } if len(kept) == 4:
                place = self.path.parent / directory
            case _:
                reason = "what it tells of values in other files is something else"
                raise CheckpointFileError(self.path, 8, reason)
        around = self.path.parent
        if not place.resolve().is_relative_to(around.resolve()):
            reason = f"its values are in {directory!r}, which leads out of {str(around)!r}"
            raise CheckpointFileError(self.path, 8, reason)
        count = record.get("files", record.get("servers"))
        self.writers = count if isinstance(count, int) else 1
        self.about = f"{len(entries):,} values of {form} in {directory}"
        self.files += sorted(each for each in place.glob("*") if each.is_file())
        for name, described in entries.items():
            try:
                shape = described["shape"]
                if not is_possible(shape):
                    raise ValueError(f"{shape!r:.80} is no shape")
                entry = TensorEntry(
                    name, tuple(shape), dtype_of(described["dtype"]), place, None, self.writers
                )
            except (ValueError, TypeError, KeyError) as error:
                raise CheckpointFileError(
                    self.path, 8, f"{name!r} is not described: {error}"
                ) from (error)
            self.tensors[name] = entry


def _guarded(entry: TensorEntry, function: Any, *arguments: Any) -> Any:
    """Call what reads files of processes or servers; its errors are those of the files."""
    try:
        return function(*arguments)
    except Exception as error:
        reason = f"{entry.name!r} cannot be read: {error or error!r}"
        raise CheckpointFileError(entry.file, None, reason) from error


def read_json(file: Path, most: int) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        file: with it.
        most: bytes that it may have.

    Raises:
        CheckpointFileError: it is none, or has more.
    """
    size = file.stat().st_size
    if size > most:
        raise CheckpointFileError(file, most, f"it has {size:,} bytes, more than {most:,}")
    try:
        found = json.loads(file.read_bytes())
    except json.JSONDecodeError as error:
        raise CheckpointFileError(file, error.pos, f"it is no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointFileError(file, 0, f"it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointFileError(file, 0, f"it has a {type(found).__name__} for an object")
    return found


def split_into_shards(sizes: dict[str, int], most: int) -> list[list[str]]:
    """Distribute tensors over files in their order.

    Args:
        sizes: bytes of each tensor, by name.
        most: bytes of a file; one of a larger tensor has that alone.

    Returns:
        The names for each file; at least one file.
    """
    shards: list[list[str]] = [[]]
    used = 0
    for name, nbytes in sizes.items():
        if shards[-1] and used + nbytes > most:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += nbytes
    return shards
