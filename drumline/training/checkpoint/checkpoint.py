"""Saving and restoring objects by name: `Checkpoint`, its status, and `CheckpointManager`."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from drumline import _recorder
from drumline.training.checkpoint import directory_lock, external_transfer, file_format, index
from drumline.training.checkpoint.external_storage import ProcessesStore, is_away, only_store
from drumline.training.checkpoint.external_transfer import write_together, write_with_external
from drumline.training.checkpoint.file_format import (
    DamagedCheckpointError,
    checkpoint_path,
    file_of,
)
from drumline.training.checkpoint.index import latest_checkpoint, listed
from drumline.training.checkpoint.restoration import Restoration, some
from drumline.training.checkpoint.snapshot import find, take_snapshot, trackable_children
from drumline.training.keras_internals import return_taken_values

_log = logging.getLogger("drumline")


class CheckpointStatus:
    """What `Checkpoint.restore` returns, as TensorFlow's load status.

    Args:
        restoration: what is under way; None if there was no checkpoint to restore.
    """

    def __init__(self, restoration: Restoration | None) -> None:
        self._restoration = restoration

    @property
    def restoration(self) -> Restoration | None:
        """What is under way; None if there was no checkpoint to restore."""
        return self._restoration

    def assert_existing_objects_matched(self) -> CheckpointStatus:
        """Require that every variable and iterator there is now was restored.

        Raises:
            AssertionError: naming those that have no value in the checkpoint.
        """
        missing = self._required().missing
        if missing:
            raise AssertionError(
                f"The checkpoint has no value for {some(missing)}. It was saved from other objects."
            )
        return self

    def assert_consumed(self) -> CheckpointStatus:
        """Require that, moreover, every value of the checkpoint was used.

        Values of a layer or an optimizer that is not built yet are not: build it first, or call
        `assert_existing_objects_matched`.

        Raises:
            AssertionError: naming what was not restored or not used.
        """
        self.assert_existing_objects_matched()
        unused = sorted(self._required().leftover.paths)
        if unused:
            raise AssertionError(
                f"Values of the checkpoint were not used: {some(unused)}. There is no object for "
                "them, or it is not built yet: build it, or call expect_partial()."
            )
        return self

    def expect_partial(self) -> CheckpointStatus:
        """Log no warning about values of the checkpoint that nothing uses."""
        if self._restoration is not None:
            self._restoration.leftover.expected = True
        return self

    def _required(self) -> Restoration:
        if self._restoration is None:
            raise AssertionError("No checkpoint was given (None), so nothing was restored.")
        return self._restoration


class Writers(Protocol):
    """The processes that save the same at the same time."""

    def write(self, path: str, write: Callable[[], None]) -> bool:
        """Call `write` in one of the processes that save to `path`; whether it was this one.

        Returns when the checkpoint is there.
        """

    def restored(self, path: str | None, damaged: Sequence[str]) -> None:
        """Compare what this process has restored with the others, of which none is waited for.

        Args:
            path: of the checkpoint; None if there was none.
            damaged: newer ones that were passed over.

        Raises:
            DamagedCheckpointError: one of them had to pass over a checkpoint, and another did not.
        """

    def job(self) -> str:
        """What the processes have in common, and no other job has."""


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
    writes there. Saving in the first process alone waits for no other. Variables that the strategy
    cuts over its processes (`shard=`) are saved by all of them together to one path that all see,
    each process its own parts in a directory beside the file, which the first one writes last.

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
            trackable_children(value, name)
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
            DirectoryInUseError: another program saves to the same directory. One may, for as long
                as the object that saves there lives: this one, or its `CheckpointManager`.
        """
        return self.save_numbered(file_prefix)[0]

    @_recorder.counted_as(_recorder.CHECKPOINTING)
    def save_numbered(self, file_prefix: str | os.PathLike[str]) -> tuple[str, bool]:
        """As `save`; returns the path, and whether this process has written it."""
        prefix = file_format.checkpoint_path(file_prefix, "Checkpoint.save")
        directory = os.path.dirname(prefix) or "."
        with index.changing(directory):
            number = self.save_counter + 1
            path = f"{prefix}-{number}"

            def list_it() -> None:
                external_transfer.remove_unfinished(prefix)
                index.add(directory, path)

            wrote = self._write(path, number, list_it, lambda: hold_directory(directory, self))
            self.save_counter = number
        return path, wrote

    @_recorder.counted_as(_recorder.CHECKPOINTING)
    def write(self, file_prefix: str | os.PathLike[str]) -> str:
        """Save a checkpoint of exactly this path, which `read` reads; it is counted nowhere.

        Other programs may write to the same directory, by other paths.

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
            DamagedCheckpointError: if it is damaged: a ``ValueError``.
            ValueError: if it is a URL, or a value has another shape or dtype than its variable.
        """
        if save_path is None:
            return CheckpointStatus(None)
        restoration, number = self._read(save_path)
        self.save_counter = number
        return CheckpointStatus(restoration)

    def read(self, save_path: str | os.PathLike[str]) -> CheckpointStatus:
        """Restore what `write` has written; as `restore`, but for `save_counter`."""
        return CheckpointStatus(self._read(save_path)[0])

    def _write(
        self,
        path: str,
        number: int,
        then: Callable[[], None],
        before: Callable[[], None] | None = None,
    ) -> bool:
        """Save to `path`, unless another process does; whether this one has.

        Args:
            path: of the checkpoint.
            number: its number.
            then: is called afterwards.
            before: is called first of all, for a checkpoint that is listed.
        """
        found = find(self.checkpointed_objects())
        return_taken_values(v for v in found.variables.values() if not is_away(v))
        keeper = only_store(found.variables.values())
        if keeper is not None:
            keeper.settle()
        snapshot = take_snapshot(found, number, keeper)
        snapshot.numbered = before is not None
        if keeper is not None and getattr(keeper, "of_processes", False):
            store = cast(ProcessesStore, keeper)
            return write_together(path, snapshot, found, store, before or (lambda: None), then)

        def write() -> None:
            if before is not None:
                before()
            if keeper is None:
                file_format.write(path, snapshot)
                external_transfer.remove_others(path, None)
            else:
                write_with_external(path, snapshot, found, keeper)
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
        found = find(objects)
        return_taken_values(v for v in found.variables.values() if not is_away(v))
        keeper = only_store(found.variables.values())
        if keeper is not None:
            keeper.settle()
        restoration.restore(objects)
        return restoration, snapshot.save_counter


def hold_directory(directory: str, owner: object) -> None:
    """Let `owner` save to a directory while it exists; the processes of a job count as one.

    Raises:
        DirectoryInUseError: another program saves there.
    """
    directory_lock.hold(directory, owner, None if _writers is None else _writers.job())


_DAMAGE = {errno.EIO, errno.ENOENT, errno.ESTALE, errno.EBADMSG, errno.ENODATA, errno.EUCLEAN}
"""The errors by which systems tell that a file is damaged, or gone."""


def restore_newest_whole(
    checkpoint: Checkpoint, paths: Sequence[str]
) -> tuple[str, CheckpointStatus, list[str]]:
    """Restore the newest checkpoint that is whole, and log which ones are damaged.

    In several processes that restore together each must come to the same.

    Args:
        checkpoint: what is restored.
        paths: of checkpoints, the newest last; at least one.

    Returns:
        Its path, what `Checkpoint.restore` returned, and the paths of newer, damaged ones.

    Raises:
        DamagedCheckpointError: none is whole, or another process did not pass over the same ones.
        ValueError: as `Checkpoint.restore`; what is whole and does not fit is not passed over.
    """
    damaged: dict[str, Exception] = {}
    for path in reversed(paths):
        try:
            status = checkpoint.restore(path)
        except Exception as error:
            if not _is_damage(path, error):
                raise
            damaged[path] = error
            continue
        for each, reason in damaged.items():
            _log.warning("Restored %r in the place of %r: %s", path, each, reason)
        if _writers is not None:
            _writers.restored(path, list(damaged))
        return path, status, list(damaged)
    reasons = "; ".join(str(error) for error in damaged.values())
    newest = next(iter(damaged.values()))
    raise DamagedCheckpointError(
        f"None of the {len(damaged)} checkpoints in {os.path.dirname(paths[-1])!r} is whole. To "
        f"begin from the start, remove them. {reasons}"
    ) from newest


def _is_damage(path: str, error: Exception) -> bool:
    """Whether the checkpoint could not be read, as opposed to one that is of something else."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _DAMAGE
    return isinstance(error, DamagedCheckpointError) or not file_of(path).is_file()


class CheckpointManager:
    """Saves a checkpoint again and again, and keeps the latest, as ``tf.train.CheckpointManager``.

    One program saves to a directory at a time: from its first `save` on, until the manager is
    dropped or the program ends, however it ends. Managers that save nothing may be anywhere.

    Args:
        checkpoint: what is saved.
        directory: where; made if need be. Checkpoints that are there count as its own. What a
            killed program did not finish is removed.
        max_to_keep: how many are kept, the older deleted; None keeps all.
        checkpoint_name: the first part of the checkpoints' names.

    Raises:
        ValueError: if `max_to_keep` is not positive, `directory` is a URL (``gs://...``), or
            `checkpoint_name` is no name of a file.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        checkpoint_name: str = "ckpt",
    ) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep must be a positive integer or None, got {max_to_keep}.")
        if not checkpoint_name or os.path.basename(checkpoint_name) != checkpoint_name:
            raise ValueError(
                f"checkpoint_name must be the first part of a file's name, got "
                f"{checkpoint_name!r}. Give folders by `directory`."
            )
        self._checkpoint = checkpoint
        self._directory = checkpoint_path(directory, "CheckpointManager")
        self._max_to_keep = max_to_keep
        self._name = checkpoint_name
        self._damaged: list[str] = []
        Path(self._directory).mkdir(parents=True, exist_ok=True)
        file_format.remove_abandoned(Path(self._directory))

    @property
    def directory(self) -> str:
        """Where checkpoints are kept."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints that are kept, the latest last."""
        return listed(self._directory)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the latest, as `drumline.train.latest_checkpoint`; None if there is none."""
        return latest_checkpoint(self._directory)

    def save(self, checkpoint_number: int | None = None) -> str:
        """Save a checkpoint, then delete those that are too many.

        Args:
            checkpoint_number: its number; by default one more than the last.

        Returns:
            Its path.

        Raises:
            OSError, DirectoryInUseError: as `Checkpoint.save`.
        """
        with index.changing(self._directory):
            if checkpoint_number is not None:
                self._checkpoint.save_counter = int(checkpoint_number) - 1
            path, wrote = self._checkpoint.save_numbered(os.path.join(self._directory, self._name))
            if wrote:
                hold_directory(self._directory, self)
                self._delete_surplus(path)
        return path

    def _delete_surplus(self, saved: str) -> None:
        if self._max_to_keep is None:
            return
        # What is damaged does not count among those that are kept.
        damaged = [each for each in self._damaged if each != saved]
        present = self.checkpoints
        whole = [each for each in present if each not in damaged]
        kept = whole[-self._max_to_keep :]
        surplus = [each for each in present if each not in kept]
        if surplus:
            index.record(self._directory, kept)
        for old in surplus:
            file_of(old).unlink(missing_ok=True)
            external_transfer.remove_others(old, None)
        self._damaged = []

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint that is whole, and return its path; None if there is none.

        Damaged ones are passed over with a warning that names them and what is wrong. Processes
        that restore together come to the same one.

        Raises:
            DamagedCheckpointError: there are checkpoints, and none is whole; or one is damaged in
                this process and not in another.
            ValueError: the checkpoint is of other objects.
        """
        present = self.checkpoints
        if not present:
            if _writers is not None:
                _writers.restored(None, [])
            return None
        path, _, self._damaged = restore_newest_whole(self._checkpoint, present)
        return path
