"""Where a snapshot keeps its elements."""

from __future__ import annotations

from pathlib import Path

from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.engine.fingerprint import fingerprint_of
from drumline.data.operations.cache import CacheStore, Recorder
from drumline.data.plan.node import Node
from drumline.data.store.file_store import FileRecorder
from drumline.data.store.shards import StoredShards, read_shards, same_elements
from drumline.data.store.unfinished import is_stored
from drumline.data.store.writing import elements_writer


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
        self._opened: StoredShards | None = None

    def arguments(self) -> tuple[Path, int, ElementSpec, str | None, bool]:
        """What makes one of the same directory, in another process perhaps."""
        return self._place, self._number, self._spec, self._compression, self._sharded

    @property
    def full(self) -> bool:
        return self._opened is not None or is_stored(self._path)

    @property
    def blocks(self) -> list[Block] | None:
        """Nothing: elements are read as a plan."""
        return None

    def shards(self) -> list[Node]:
        """The shards as plans.

        Raises:
            ValueError: the directory is damaged.
        """
        if self._opened is None:
            found = read_shards(self._path)
            if not same_elements(found.spec, self._spec):
                raise ValueError(
                    f"the snapshot {str(self._path)!r} holds elements of {found.spec.tree()}, not "
                    f"of {self._spec.tree()}: delete it"
                )
            self._opened = found
        return self._opened.plans(self._spec)

    def recorder(self) -> Recorder:
        writer = elements_writer(self._path, self._spec, self._compression, self._sharded)
        return FileRecorder(writer)

    def anew(self, plan: Node) -> SnapshotStore:
        return SnapshotStore(
            self._place, fingerprint_of(plan), self._spec, self._compression, self._sharded
        )
