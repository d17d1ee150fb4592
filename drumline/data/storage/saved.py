"""Caches and snapshots in directories: in shards, compressed, and read as one dataset."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline._changes import in_forked_child
from drumline._forks import ForkSafeLock
from drumline.data.elements.block import Block
from drumline.data.elements.errors import DataLossError
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, DatasetSpec, ElementSpec
from drumline.data.operations.cache import CacheStore, FillStage, Recorder, Snapshot
from drumline.data.operations.nested.dataset_function import DatasetFunction, dataset_function
from drumline.data.operations.nested.windows import held_rows
from drumline.data.operations.reading.sources import Slices, Stored, StoredParts
from drumline.data.options import as_dataset
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.rewrite.fingerprint import fingerprint_of
from drumline.data.runtime.stage import RandomAccessSource, Stage, State
from drumline.data.storage.store.checksums import damaged
from drumline.data.storage.store.columns import spec_to_json
from drumline.data.storage.store.directory import (
    DESCRIPTION,
    DirectoryWriter,
    StoredElements,
    UnfinishedDirectory,
    is_stored,
    read_description,
    read_directory,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering

_log = logging.getLogger("drumline")

_VERSION = 2
_PART_NBYTES = 32 << 20
"""How much goes into one compressed part: it is read as a whole."""

_PART = re.compile(r"\d+-\d+")


class ShardsWriter:
    """Writes each shard as directories of elements, which a directory holds; see `DirectoryWriter`.

    A shard that is compressed is cut into parts of 32 MB, others are one part.

    Args:
        path: of the directory to be.
        spec: of the elements.
        compression: ``"GZIP"``, ``"SNAPPY"`` or ``None``.
        sharded: whether blocks have one more column, of the shard of each element; else there is
            one shard.
    """

    def __init__(self, path: Path, spec: ElementSpec, compression: str | None, sharded: bool):
        self._spec = spec
        self._sharded = sharded
        self._compression = compression
        # The parts, which describe themselves, have the checksums of their rows.
        self._description = {"version": _VERSION, **spec_to_json(spec), "checksums": None}
        self._directory = UnfinishedDirectory(path)
        self._open: dict[int, DirectoryWriter] = {}
        self._parts: dict[int, list[tuple[str, int]]] = {}
        self._most = max(1, _PART_NBYTES // spec.row_nbytes())

    def add(self, block: Block) -> None:
        """Write the elements of a block.

        Raises:
            ValueError: a shard's number is negative.
            OSError: the disk is full, for one.
        """
        if not self._sharded:
            self._add(0, block)
            return
        *columns, shards = block.columns
        block, shards = Block(columns, block.n), shards[: block.n]
        if not block.n:
            return
        if (lowest := int(shards.min())) < 0:
            raise ValueError(f"shard_func returned {lowest}: shards have numbers from 0 on")
        for shard in np.unique(shards).tolist():
            chosen = shards == shard
            self._add(int(shard), block if chosen.all() else block.select(chosen))

    def _add(self, shard: int, rows: Block) -> None:
        step = self._most if self._compression is not None else rows.n
        for start in range(0, rows.n, step):
            part = rows.slice(start, min(start + step, rows.n))
            writer = self._open.get(shard)
            if writer is None:
                writer = self._open[shard] = self._started(shard)
            writer.add(part)
            if self._compression is not None and writer.length >= self._most:
                self._finish(shard)

    def _started(self, shard: int) -> DirectoryWriter:
        path = self._directory.path / f"{shard}-{len(self._parts.get(shard, []))}"
        return DirectoryWriter(path, self._spec, self._compression)

    def _finish(self, shard: int) -> None:
        writer, parts = self._open.pop(shard), self._parts.setdefault(shard, [])
        writer.finish(replace=False)
        parts.append((f"{shard}-{len(parts)}", writer.length))

    def finish(self, replace: bool) -> None:
        """Finish all shards, and move the directory to its place."""
        for shard in list(self._open):
            self._finish(shard)
        shards = [self._parts[shard] for shard in sorted(self._parts)]
        described = {"compression": self._compression, "shards": shards}
        self._directory.finish({**self._description, **described}, replace)

    def drop(self) -> None:
        """Delete what was written."""
        for writer in self._open.values():
            writer.drop()
        self._directory.drop()


@dataclasses.dataclass(frozen=True)
class StoredShards:
    """The content of a directory, whose files are opened on demand.

    Attributes:
        spec: of the elements.
        compression: of the files.
    """

    path: Path
    spec: ElementSpec
    compression: str | None
    parts: tuple[tuple[tuple[str, int], ...], ...] | None

    def plans(self, spec: ElementSpec, on_damage: Callable[[], None] | None = None) -> list[Node]:
        """Return the shards, by ascending numbers, as plans; what is not in shards is one.

        Args:
            spec: equal to what is stored, perhaps with namedtuples of the user's.
            on_damage: is called when elements turn out to be damaged, before that is raised.

        Raises:
            DataLossError: they are damaged.
        """
        if self.parts is None:
            return [_plain(self.path, spec, on_damage)]
        if self.compression is None:
            return [_plain(self.path / parts[0][0], spec, on_damage) for parts in self.parts]
        return [_compressed(self.path, spec, parts, on_damage) for parts in self.parts]


def read_shards(path: Path) -> StoredShards:
    """Return what is stored in a directory.

    Raises:
        FileNotFoundError: nothing is stored there.
        DataLossError: it is damaged.
        ValueError: it is of a newer version.
    """
    spec, text = read_description(path)
    compression, shards = text.get("compression"), text.get("shards")
    if shards is None:
        return StoredShards(path, spec, compression, None)
    try:
        parts = tuple(tuple((_part(name), int(n)) for name, n in parts) for parts in shards)
        if not all(parts):
            raise ValueError("a shard has no parts")
    except (ValueError, TypeError, OverflowError) as error:
        raise damaged(path / DESCRIPTION, f"it cannot be understood: {error!r}") from error
    return StoredShards(path, spec, compression, parts)


def same_elements(a: ElementSpec, b: ElementSpec) -> bool:
    """Return whether specs are equal except for the classes of namedtuples, made by loading."""
    return a.leaves == b.leaves and str(a.structure) == str(b.structure)


def _part(name: Any) -> str:
    if not isinstance(name, str) or not _PART.fullmatch(name):
        raise ValueError(f"{name!r} is no part of a shard")
    return name


def _plain(path: Path, spec: ElementSpec, on_damage: Callable[[], None] | None) -> Node:
    try:
        found = read_directory(path, on_damage)
    except FileNotFoundError as error:  # a part of what is there
        raise damaged(path / DESCRIPTION, "it is missing") from error
    if not same_elements(found.spec, spec):
        raise damaged(
            path / DESCRIPTION,
            f"it describes elements of {found.spec.tree()}, the directory around it "
            f"{spec.tree()}: store the dataset again",
        )
    return Stored((), spec, found.columns, found.length, str(path), found.checks)


def _compressed(
    path: Path,
    spec: ElementSpec,
    parts: Sequence[tuple[str, int]],
    on_damage: Callable[[], None] | None,
) -> Node:
    paths = tuple(str(path / name) for name, _ in parts)
    return StoredParts((), spec, paths, tuple(length for _, length in parts), on_damage)


def _remove_damaged(place: Path) -> None:
    """Remove a cache or snapshot that is damaged, so that the next pass makes it.

    Passes that read it meanwhile keep their memory-mapped files.
    """
    aside = place.with_name(f"{place.name}.damaged-{uuid.uuid4().hex[:8]}")
    try:
        os.rename(place, aside)
    except OSError as error:
        _log.warning("%s is damaged and cannot be removed: %s", place, error)
        return
    shutil.rmtree(aside, ignore_errors=True)


class FileStore(CacheStore):
    """The store of ``cache(filename)``, shared with later and concurrent processes.

    Args:
        path: of the directory.
        spec: of the elements.
        source: tells one pipeline from others, in all processes.
        key: tells one call of ``cache`` from others, where copies of a dataset share it.
    """

    def __init__(self, path: Path, spec: ElementSpec, source: str, key: str = ""):
        super().__init__()
        self._path = path
        self._spec = spec
        self._source = source
        self._key = key or uuid.uuid4().hex
        self._opened: StoredElements | None = None

    def arguments(self) -> tuple[Path, ElementSpec, str, str]:
        """Return what makes one of the same directory, in another process perhaps."""
        return self._path, self._spec, self._source, self._key

    @property
    def full(self) -> bool:
        return self._read() is not None

    @property
    def blocks(self) -> list[Block] | None:
        """The elements as one block, memory-mapped.

        Raises:
            ValueError: the directory holds elements of another kind, or of a newer version.
        """
        found = self._read()
        return None if found is None else [Block(self._checked(found).columns, found.length)]

    @property
    def checks(self) -> Sequence[Any]:
        return () if self._opened is None else self._opened.checks

    def _read(self) -> StoredElements | None:
        """Open the directory; None if there is none, or was one that is damaged."""
        if self._opened is None and is_stored(self._path):
            try:
                self._opened = read_directory(self._path, self._remove)
            except DataLossError as error:
                _log.warning("cache: %s; it is removed and filled again", error)
                self._remove()
        return self._opened

    def _remove(self) -> None:
        self._opened = None
        _remove_damaged(self._path)

    def recorder(self) -> Recorder:
        """Return what takes the elements of a pass.

        Raises:
            FileExistsError: another pipeline's pass fills the same directory. Whichever were done
                first, later passes of the other would read its elements.
        """
        with _lock:
            if any(path == self._path and key != self._key for path, key in _filling.values()):
                raise FileExistsError(
                    f"cache({str(self._path)!r}): another pipeline of this process is filling it; "
                    "end that pass first (close its iterator), or give each a directory of its own"
                )
            made = FileRecorder(DirectoryWriter(self._path, self._spec, source=self._source))
            _filling[made] = (self._path, self._key)
        return made

    def _checked(self, found: StoredElements) -> StoredElements:
        if not same_elements(found.spec, self._spec):
            raise ValueError(
                f"cache({str(self._path)!r}) was filled with elements of {found.spec.tree()}, and "
                f"those of this dataset are {self._spec.tree()}: delete the directory, or give "
                "another"
            )
        return found


_lock = ForkSafeLock()


class FileRecorder(Recorder):
    """Takes the elements of a pass into a directory."""

    def __init__(self, writer: DirectoryWriter | ShardsWriter):
        self._writer: DirectoryWriter | ShardsWriter | None = writer

    def add(self, block: Block) -> None:
        if self._writer is not None:
            self._writer.add(block)

    def complete(self) -> None:
        if self._writer is not None:
            self._writer.finish(replace=False)
            self._writer = None
        _filling.pop(self, None)

    def drop(self) -> None:
        if self._writer is not None:
            self._writer.drop()
            self._writer = None
        _filling.pop(self, None)


_filling: weakref.WeakKeyDictionary[FileRecorder, tuple[Path, str]] = weakref.WeakKeyDictionary()
"""The directories that passes of this process fill, with the keys of their stores."""
in_forked_child(_filling.clear, "what fills a cache is its parent's pass")


def elements_writer(
    path: Path, spec: ElementSpec, compression: str | None, sharded: bool
) -> DirectoryWriter | ShardsWriter:
    """Return what writes elements of ``spec`` into the directory ``path``; see `ShardsWriter`."""
    if sharded or compression is not None:
        return ShardsWriter(path, spec, compression, sharded)
    return DirectoryWriter(path, spec)


class SnapshotStore(CacheStore):
    """A directory in the one the user gave, under the fingerprint of what makes the elements.

    Args:
        place: the directory the user gave.
        number: the fingerprint.
        spec: of the elements.
        compression: ``"GZIP"``, ``"SNAPPY"`` or ``None``.
        sharded: whether what makes the elements gives the shard of each, too.
    """

    def __init__(
        self, place: Path, number: int, spec: ElementSpec, compression: str | None, sharded: bool
    ):
        super().__init__()
        self._place = place
        self._number = number
        self._spec = spec
        self._compression = compression
        self._sharded = sharded
        self._path = place / f"{number:016x}"
        self._opened: list[Node] | None = None

    def arguments(self) -> tuple[Path, int, ElementSpec, str | None, bool]:
        """Return what makes one of the same directory, in another process perhaps."""
        return self._place, self._number, self._spec, self._compression, self._sharded

    @property
    def full(self) -> bool:
        if self._opened is None and is_stored(self._path):
            try:
                self._opened = self._read()
            except DataLossError as error:
                _log.warning("snapshot: %s; it is removed and made again", error)
                self._remove()
        return self._opened is not None

    @property
    def blocks(self) -> list[Block] | None:
        """Nothing: elements are read as a plan."""
        return None

    def shards(self) -> list[Node]:
        """Return the shards as plans.

        Raises:
            DataLossError: the directory is damaged.
            ValueError: it holds elements of another kind, or of a newer version.
        """
        if self._opened is None:
            self._opened = self._read()
        return self._opened

    def _read(self) -> list[Node]:
        found = read_shards(self._path)
        if not same_elements(found.spec, self._spec):
            raise ValueError(
                f"the snapshot {str(self._path)!r} holds elements of {found.spec.tree()}, not "
                f"of {self._spec.tree()}: delete it"
            )
        return found.plans(self._spec, self._remove)

    def _remove(self) -> None:
        self._opened = None
        _remove_damaged(self._path)

    def recorder(self) -> Recorder:
        writer = elements_writer(self._path, self._spec, self._compression, self._sharded)
        return FileRecorder(writer)

    def anew(self, plan: Node) -> SnapshotStore:
        return SnapshotStore(
            self._place, fingerprint_of(plan), self._spec, self._compression, self._sharded
        )


def by_turns(shards: Sequence[Node], spec: ElementSpec) -> Node:
    """Return one element of each shard after the other, as TensorFlow's default has it."""
    if len(shards) == 1:
        return shards[0]
    if not shards:
        return held_rows([], spec)
    plan: Node = dataset_of(shards, spec).interleave(_itself, cycle_length=len(shards))._plan
    return plan


def dataset_of(shards: Sequence[Node], spec: ElementSpec) -> Any:
    """Return a dataset of datasets: a shard each, of elements of ``spec``."""
    column = np.empty(len(shards), STRING)
    column[:] = [as_dataset(shard) for shard in shards]
    outer = ElementSpec(LEAF_STRUCTURE, (DatasetSpec(spec),))
    return as_dataset(Slices((), outer, (column,), len(shards)))


def reader(reader_func: Callable[[Any], Any], operation: str, spec: ElementSpec) -> DatasetFunction:
    """Return a user's function of a dataset of datasets, tried with one that is empty.

    Raises:
        TypeError: it does not return a dataset.
        ValueError: it returns one of other elements.
        Exception: what it raises.
    """
    empty = dataset_of([held_rows([], spec)], spec)
    made = dataset_function(reader_func, operation, empty, list)
    if made.spec != spec:
        raise ValueError(
            f"{made.function.where} must return a dataset of {spec.tree()}, as it is given; it "
            f"returns one of {made.spec.tree()}"
        )
    return made


def _itself(dataset: Any) -> Any:
    return dataset


class SnapshotStage(FillStage):
    """Passes elements on and writes them, each to the shard that its last column says.

    Args:
        source: the elements.
        store: takes them.
        sharded: whether there is such a column, which is not passed on.
        in_order: whether later passes give the elements in the same order. If not, whether this
            pass was written matters to what follows: one that is resumed runs again up to there.
    """

    def __init__(self, source: Stage, store: CacheStore, sharded: bool, in_order: bool):
        super().__init__(source, store)
        self._sharded = sharded
        self._in_order = in_order
        self._position = 0

    def next(self, limit: int) -> Block | None:
        block = super().next(limit)
        if block is None:
            return None
        self._position += block.events
        return Block(block.columns[:-1], block.n, block.error) if self._sharded else block

    def state(self) -> State:
        return super().state() if self._in_order else {"position": self._position}

    def restore(self, state: State) -> None:
        if self._in_order:
            super().restore(state)
        else:
            self.advance(state["position"])

    def describe(self) -> str:
        return "snapshot (writing: kept when this pass ends)"


def index_snapshot(
    lowering: Lowering, node: Snapshot, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    plan = _stored(lowering, node, run)
    if plan is None:
        return None
    return lowering.indexed_inside(plan, run)


def lower_snapshot(lowering: Lowering, node: Snapshot, trail: Trail, run: Pass) -> Stage:
    plan = _stored(lowering, node, run)
    if plan is not None:
        return lowering.inside(plan, set(), run, ragged=True)
    # As of a cache, what it holds must not depend on the epoch in which it is written.
    source = lowering.input(node, trail, (0,), ragged=True)
    return SnapshotStage(source, node.store, node.sharded, node.in_order)


def _stored(lowering: Lowering, node: Snapshot, run: Pass) -> Node | None:
    """Return the elements as they are read; ``None`` while there are none."""
    store = node.store
    if store not in lowering.filled or not store.full or not isinstance(store, SnapshotStore):
        return None
    shards = store.shards()
    if node.reader is None:
        return by_turns(shards, node.spec)
    return node.reader(dataset_of(shards, node.spec), run)
