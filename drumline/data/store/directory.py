"""A directory that holds elements as columns."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypedDict

from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.store.columns import ColumnWriter, read_column
from drumline.data.store.compression import COMPRESSIONS, compress_arrays
from drumline.data.store.specs import spec_from_json, spec_to_json
from drumline.data.store.unfinished import DESCRIPTION, UnfinishedDirectory, is_stored

_PLAIN = 1
_NEWEST = 2
"""The version of what is compressed, or in shards."""


class Written(TypedDict):
    """How far a directory was written; JSON-able.

    Attributes:
        length: the number of elements.
        rows: of the files of each leaf.
    """

    length: int
    rows: list[dict[str, int]]


@dataclasses.dataclass(frozen=True)
class Begun:
    """What an earlier process may have left behind.

    Attributes:
        directory: where it wrote.
        written: up to where to go on; ``None`` begins.
    """

    directory: UnfinishedDirectory
    written: Written | None


class DirectoryWriter:
    """Writes elements beside the place where they will be; ``finish`` moves them there.

    Args:
        path: of the directory to be.
        spec: of the elements.
        compression: ``"GZIP"``, ``"SNAPPY"`` or ``None``.
        begun: where to write, and go on, instead of in a directory that is made.
        source: as of an `UnfinishedDirectory`.

    Raises:
        TypeError: such elements cannot be stored.
        OSError: the directory cannot be made, or files of ``begun`` are not there.
        ValueError: they are shorter than they were.
    """

    def __init__(
        self,
        path: Path,
        spec: ElementSpec,
        compression: str | None = None,
        begun: Begun | None = None,
        source: str = "",
    ):
        self._spec = spec
        self._compression = compression
        self._description = {"version": _PLAIN, **spec_to_json(spec)}
        self._directory = UnfinishedDirectory(path, source) if begun is None else begun.directory
        written = None if begun is None else begun.written
        self.length = 0 if written is None else written["length"]
        self._columns: list[ColumnWriter] = []
        for i, leaf in enumerate(spec.leaves):
            rows = None if written is None else written["rows"][i]
            column = ColumnWriter(self._directory.path / str(i), leaf, rows)
            self._directory.on_drop(column.close)
            self._columns.append(column)

    def add(self, block: Block) -> None:
        """Writes the elements of a block.

        Raises:
            OSError: the disk is full, for one.
        """
        for writer, column in zip(self._columns, block.columns, strict=True):
            writer.append(column[: block.n])
        self.length += block.n

    def sync(self) -> Written:
        """Has the disk keep the elements so far."""
        return {"length": self.length, "rows": [column.sync() for column in self._columns]}

    def finish(self, replace: bool) -> None:
        """Completes the directory and moves it to its place.

        Args:
            replace: whether elements that are stored there already make way.
        """
        self._finish_files()
        description = {**self._description, "length": self.length}
        if self._compression is not None:
            compress_arrays(self._directory.path, self._compression)
            description |= {"version": _NEWEST, "compression": self._compression}
        self._directory.finish(description, replace)

    def elements(self) -> StoredElements:
        """All that was written, memory-mapped; no more is written then."""
        self._finish_files()
        columns = [
            read_column(self._directory.path / str(i), leaf, self.length)
            for i, leaf in enumerate(self._spec.leaves)
        ]
        return StoredElements(self._spec, tuple(columns), self.length)

    def _finish_files(self) -> None:
        for writer in self._columns:
            writer.finish()

    def drop(self) -> None:
        """Deletes what was written."""
        self._directory.drop()


@dataclasses.dataclass(frozen=True)
class StoredElements:
    """What a directory holds.

    Attributes:
        spec: of the elements.
        columns: for each leaf an array, a `RaggedArray` or `StoredStrings`, memory-mapped unless it
            is compressed.
        length: the number of elements.
    """

    spec: ElementSpec
    columns: tuple[Any, ...]
    length: int


def read_directory(path: Path) -> StoredElements:
    """Opens what a `DirectoryWriter` finished.

    Raises:
        FileNotFoundError: nothing is stored there.
        ValueError: it is damaged, or its elements are in shards.
    """
    spec, text = read_description(path)
    if not isinstance(text.get("length"), int):
        raise ValueError(f"{path / DESCRIPTION} says no length: the elements are in shards")
    length, compression = text["length"], text.get("compression")
    columns = [
        read_column(path / str(i), leaf, length, compression) for i, leaf in enumerate(spec.leaves)
    ]
    return StoredElements(spec, tuple(columns), length)


def read_description(path: Path) -> tuple[ElementSpec, dict[str, Any]]:
    """The spec of the elements that are stored in a directory, and all that it says of itself.

    Raises:
        FileNotFoundError: nothing is stored there.
        ValueError: the description is damaged, or of another version.
    """
    if not is_stored(path):
        raise FileNotFoundError(
            f"no dataset is stored in {str(path)!r} (no file {DESCRIPTION}); Dataset.save(path) "
            "stores one"
        )
    try:
        text = json.loads((path / DESCRIPTION).read_text())
        version, spec = text["version"], spec_from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / DESCRIPTION} cannot be understood: {error!r}") from error
    if version not in (_PLAIN, _NEWEST):
        raise ValueError(
            f"{str(path)!r} was stored in version {version}, this drumline reads up to {_NEWEST}"
        )
    if text.get("compression") not in (None, *COMPRESSIONS):
        raise ValueError(
            f"{str(path)!r} was stored with compression {text['compression']!r:.40}, this drumline "
            f"reads {' and '.join(COMPRESSIONS)}"
        )
    return spec, text
