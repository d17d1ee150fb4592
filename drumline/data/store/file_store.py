"""A cache in a directory."""

from __future__ import annotations

import threading
import uuid
import weakref
from pathlib import Path

from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.operations.cache import CacheStore, Recorder
from drumline.data.store.directory import DirectoryWriter, StoredElements, read_directory
from drumline.data.store.shards import ShardsWriter, same_elements
from drumline.data.store.unfinished import is_stored


class FileStore(CacheStore):
    """What ``cache(filename)`` remembers: also for later processes, and others at the same time.

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
        """What makes one of the same directory, in another process perhaps."""
        return self._path, self._spec, self._source, self._key

    @property
    def full(self) -> bool:
        return self._opened is not None or is_stored(self._path)

    @property
    def blocks(self) -> list[Block] | None:
        """The elements as one block, memory-mapped.

        Raises:
            ValueError: the directory holds elements of another kind, or is damaged.
        """
        if not self.full:
            return None
        if self._opened is None:
            self._opened = self._checked(read_directory(self._path))
        return [Block(self._opened.columns, self._opened.length)]

    def recorder(self) -> Recorder:
        """What takes the elements of a pass.

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


_lock = threading.Lock()


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
