"""Stored elements in several shards, or compressed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.operations.sources import Stored, StoredParts
from drumline.data.plan.node import Node
from drumline.data.store.directory import DirectoryWriter, read_description, read_directory
from drumline.data.store.specs import spec_to_json
from drumline.data.store.unfinished import DESCRIPTION, UnfinishedDirectory

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
        self._description = {"version": _VERSION, **spec_to_json(spec)}
        self._directory = UnfinishedDirectory(path)
        self._open: dict[int, DirectoryWriter] = {}
        self._parts: dict[int, list[tuple[str, int]]] = {}
        self._most = max(1, _PART_NBYTES // spec.row_nbytes())

    def add(self, block: Block) -> None:
        """Writes the elements of a block.

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
        """As of a `DirectoryWriter`."""
        for shard in list(self._open):
            self._finish(shard)
        shards = [self._parts[shard] for shard in sorted(self._parts)]
        described = {"compression": self._compression, "shards": shards}
        self._directory.finish({**self._description, **described}, replace)

    def drop(self) -> None:
        """Deletes what was written."""
        for writer in self._open.values():
            writer.drop()
        self._directory.drop()


@dataclasses.dataclass(frozen=True)
class StoredShards:
    """What a directory holds, whose files are opened when they are asked for.

    Attributes:
        spec: of the elements.
        compression: of the files.
    """

    path: Path
    spec: ElementSpec
    compression: str | None
    parts: tuple[tuple[tuple[str, int], ...], ...] | None

    def plans(self, spec: ElementSpec) -> list[Node]:
        """The shards, by ascending numbers, as plans; what is not in shards is one.

        Args:
            spec: equal to what is stored, perhaps with namedtuples of the user's.

        Raises:
            ValueError: they are damaged.
        """
        if self.parts is None:
            return [_plain(self.path, spec)]
        if self.compression is None:
            return [_plain(self.path / parts[0][0], spec) for parts in self.parts]
        return [_compressed(self.path, spec, parts) for parts in self.parts]


def read_shards(path: Path) -> StoredShards:
    """What is stored in a directory.

    Raises:
        FileNotFoundError: nothing is stored there.
        ValueError: it is damaged.
    """
    spec, text = read_description(path)
    compression, shards = text.get("compression"), text.get("shards")
    if shards is None:
        return StoredShards(path, spec, compression, None)
    try:
        parts = tuple(tuple((_part(name), int(n)) for name, n in parts) for parts in shards)
        if not all(parts):
            raise ValueError("a shard has no parts")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path / DESCRIPTION} cannot be understood: {error!r}") from error
    return StoredShards(path, spec, compression, parts)


def same_elements(a: ElementSpec, b: ElementSpec) -> bool:
    """Whether specs are equal but for types of namedtuples, which are made anew from files."""
    return a.leaves == b.leaves and str(a.structure) == str(b.structure)


def _part(name: Any) -> str:
    if not isinstance(name, str) or not _PART.fullmatch(name):
        raise ValueError(f"{name!r} is no part of a shard")
    return name


def _plain(path: Path, spec: ElementSpec) -> Node:
    found = read_directory(path)
    if not same_elements(found.spec, spec):
        raise ValueError(
            f"{path} holds elements of {found.spec.tree()}, the directory around it says "
            f"{spec.tree()}: store the dataset again"
        )
    return Stored((), spec, found.columns, found.length, str(path))


def _compressed(path: Path, spec: ElementSpec, parts: Sequence[tuple[str, int]]) -> Node:
    paths = tuple(str(path / name) for name, _ in parts)
    return StoredParts((), spec, paths, tuple(length for _, length in parts))
