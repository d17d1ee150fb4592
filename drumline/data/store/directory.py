"""A directory that holds the elements of a dataset."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import uuid
import weakref
from pathlib import Path
from typing import Any

from drumline.data.execute.block import Block
from drumline.data.spec import ElementSpec
from drumline.data.store.columns import ColumnWriter, read_column
from drumline.data.store.specs import spec_from_json, spec_to_json

_VERSION = 1
_DESCRIPTION = "dataset.json"


class DirectoryWriter:
    """Writes elements beside the place where they will be; ``finish`` moves them there.

    Args:
        path: of the directory to be.
        spec: of the elements.

    Raises:
        TypeError: such elements cannot be stored.
        OSError: the directory cannot be made.
    """

    def __init__(self, path: Path, spec: ElementSpec):
        self._path = path
        self._description: dict[str, Any] = {"version": _VERSION, **spec_to_json(spec)}
        self._unfinished = path.with_name(f"{path.name}.unfinished-{uuid.uuid4().hex[:8]}")
        self._unfinished.mkdir(parents=True)
        self._length = 0
        self._columns = [
            ColumnWriter(self._unfinished / str(i), leaf) for i, leaf in enumerate(spec.leaves)
        ]
        self._abandoned = weakref.finalize(self, _delete, self._unfinished, self._columns)

    def add(self, block: Block) -> None:
        """Writes the elements of a block.

        Raises:
            OSError: the disk is full, for one.
        """
        for writer, column in zip(self._columns, block.columns, strict=True):
            writer.append(column[: block.n])
        self._length += block.n

    def finish(self, replace: bool) -> None:
        """Completes the directory and moves it to its place.

        Args:
            replace: whether elements that are stored there already make way.
        """
        for writer in self._columns:
            writer.finish()
        with open(self._unfinished / _DESCRIPTION, "w") as file:
            json.dump({**self._description, "length": self._length}, file)
            file.flush()
            os.fsync(file.fileno())
        if replace and is_stored(self._path):
            former = self._unfinished.with_name(self._unfinished.name + ".former")
            os.rename(self._path, former)
            os.rename(self._unfinished, self._path)
            shutil.rmtree(former)
        elif is_stored(self._path):
            self.drop()
        else:
            os.rename(self._unfinished, self._path)
        self._abandoned.detach()

    def drop(self) -> None:
        """Deletes what was written."""
        self._abandoned()


def _delete(path: Path, columns: list[ColumnWriter]) -> None:
    for writer in columns:
        writer.close()
    shutil.rmtree(path, ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class StoredElements:
    """What a directory holds.

    Attributes:
        spec: of the elements.
        columns: for each leaf an array, a `RaggedArray` or `StoredStrings`, memory-mapped.
        length: the number of elements.
    """

    spec: ElementSpec
    columns: tuple[Any, ...]
    length: int


def is_stored(path: Path) -> bool:
    """Whether elements are stored there."""
    return (path / _DESCRIPTION).is_file()


def read_directory(path: Path) -> StoredElements:
    """Opens what a `DirectoryWriter` finished.

    Raises:
        FileNotFoundError: nothing is stored there.
        ValueError: it is damaged.
    """
    if not is_stored(path):
        raise FileNotFoundError(
            f"no dataset is stored in {str(path)!r} (no file {_DESCRIPTION}); Dataset.save(path) "
            "stores one"
        )
    try:
        text = json.loads((path / _DESCRIPTION).read_text())
        version, length = text["version"], int(text["length"])
        spec = spec_from_json(text)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path / _DESCRIPTION} cannot be understood: {error!r}") from error
    if version != _VERSION:
        raise ValueError(
            f"{str(path)!r} was stored in version {version}, this drumline reads {_VERSION}"
        )
    columns = [read_column(path / str(i), leaf, length) for i, leaf in enumerate(spec.leaves)]
    return StoredElements(spec, tuple(columns), length)
