"""Saving and restoring objects by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from drumline.training.checkpoint import file_format, kept_directories
from drumline.training.checkpoint.external_storage import only_keeper
from drumline.training.checkpoint.keeping import write_with_kept
from drumline.training.checkpoint.latest import listed, record
from drumline.training.checkpoint.parts import parts_of
from drumline.training.checkpoint.restoration import Restoration
from drumline.training.checkpoint.snapshot import find, take_snapshot
from drumline.training.checkpoint.status import CheckpointStatus


class Writers(Protocol):
    """The processes that save the same at the same time."""

    def write(self, path: str, write: Callable[[], None]) -> bool:
        """Call `write` in one of the processes that save to `path`; whether it was this one.

        Returns when the checkpoint is there.
        """


_writers: Writers | None = None


def save_together(writers: Writers | None) -> None:
    """Have `writers` decide who writes checkpoints, in a process that works with others."""
    global _writers
    _writers = writers


class Checkpoint:
    """A group of objects whose values are saved and restored, as ``tf.train.Checkpoint``.

    A checkpoint holds values and where they were found: the names given here, then the order in
    which a program makes layers and variables. It does not depend on the strategy or the number of
    replicas. Names may be added later by assigning to an attribute.

    Variables on parameter servers are saved by the servers, each its own parts, to a directory
    beside the checkpoint's file that all of them and this process must see. The file is written
    last: a program that ends before leaves the earlier checkpoint. Saving and restoring wait for
    scheduled functions, and raise what one of them failed with.

    Of the processes of a `MultiWorkerMirroredStrategy` that save to one path, the first one writes
    and the others wait until it has; one that saves to another path, or to a disk of its own,
    writes there. Saving in the first process alone waits for nobody.

    Args:
        **objects: Keras models, layers, optimizers, metrics, variables and seed generators,
            iterators of datasets, and dicts, lists and `Checkpoint`s of these.

    Attributes:
        save_counter: how often `save` was called, over all restarts.

    Raises:
        TypeError: if an object cannot be saved.
    """

    def __init__(self, **objects: Any) -> None:
        self.save_counter = 0
        for name, value in objects.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "save_counter":
            if hasattr(type(self), name):
                raise ValueError(f"{name!r} is a method of Checkpoint; choose another name.")
            parts_of(value, name)
        super().__setattr__(name, value)

    def checkpointed_objects(self) -> dict[str, Any]:
        """The objects by name."""
        return {name: value for name, value in vars(self).items() if name != "save_counter"}

    def save(self, file_prefix: str | os.PathLike[str]) -> str:
        """Save a numbered checkpoint, which `latest_checkpoint` finds.

        It is on the disk when this returns. A program that ends before leaves the earlier ones.

        Args:
            file_prefix: a path; ``-1``, ``-2``, ... are appended.

        Returns:
            The path of the checkpoint, for `restore`.

        Raises:
            ValueError: if `file_prefix` is a URL (``gs://...``).
            OSError: if it cannot be written; earlier checkpoints are still there.
        """
        return self.save_numbered(file_prefix)[0]

    def save_numbered(self, file_prefix: str | os.PathLike[str]) -> tuple[str, bool]:
        """As `save`; returns the path, and whether this process has written it."""
        number = self.save_counter + 1
        prefix = file_format.checkpoint_path(file_prefix, "Checkpoint.save")
        path = f"{prefix}-{number}"

        def list_it() -> None:
            kept_directories.remove_unfinished(prefix)
            directory = os.path.dirname(path) or "."
            record(directory, [*(known for known in listed(directory) if known != path), path])

        wrote = self._write(path, number, list_it)
        self.save_counter = number
        return path, wrote

    def write(self, file_prefix: str | os.PathLike[str]) -> str:
        """Save a checkpoint of exactly this path, which `read` reads; it is counted nowhere.

        Raises:
            ValueError, OSError: as of `save`.
        """
        path = file_format.checkpoint_path(file_prefix, "Checkpoint.write")
        self._write(path, self.save_counter, lambda: None)
        return path

    def restore(self, save_path: str | os.PathLike[str] | None) -> CheckpointStatus:
        """Restore what `save` has saved.

        Layers and optimizers that are not built yet get their values when they are. Either
        everything that exists is restored or, on an error, nothing.

        Args:
            save_path: a path from `save` or `latest_checkpoint`; None restores nothing.

        Raises:
            FileNotFoundError: if there is no such checkpoint.
            ValueError: if it is damaged or a URL, or a value has another shape or dtype than its
                variable.
        """
        if save_path is None:
            return CheckpointStatus(None)
        restoration, number = self._read(save_path)
        self.save_counter = number
        return CheckpointStatus(restoration)

    def read(self, save_path: str | os.PathLike[str]) -> CheckpointStatus:
        """Restore what `write` has written; as `restore`, but for `save_counter`."""
        return CheckpointStatus(self._read(save_path)[0])

    def _write(self, path: str, number: int, then: Callable[[], None]) -> bool:
        """Save to `path` and call `then`, unless another process does; whether this one has."""
        found = find(self.checkpointed_objects())
        keeper = only_keeper(found.variables.values())
        if keeper is not None:
            keeper.settle()
        snapshot = take_snapshot(found, number, keeper)

        def write() -> None:
            if keeper is None:
                file_format.write(path, snapshot)
                kept_directories.remove_others(path, None)
            else:
                write_with_kept(path, snapshot, found, keeper)
            then()

        if _writers is None:
            write()
            return True
        return _writers.write(path, write)

    def _read(self, path: str | os.PathLike[str]) -> tuple[Restoration, int]:
        path = file_format.checkpoint_path(path, "Checkpoint.restore")
        snapshot = file_format.read(path)
        restoration = Restoration(path, snapshot)
        objects = self.checkpointed_objects()
        keeper = only_keeper(find(objects).variables.values())
        if keeper is not None:
            keeper.settle()
        restoration.restore(objects)
        return restoration, snapshot.save_counter
