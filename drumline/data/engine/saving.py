"""``save``: the elements of a plan written so that another process can resume the writing."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from drumline import _local_path
from drumline._local_path import local_path
from drumline.data.elements.block import Block
from drumline.data.elements.errors import IteratorStateError
from drumline.data.elements.spec import ElementSpec
from drumline.data.engine.iterator import Epochs, check_state, checked_state
from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.rewrite.fingerprint import fingerprint_of
from drumline.data.runtime.stage import BatchSizeController, Stage, State
from drumline.data.storage.saved import ShardsWriter, elements_writer
from drumline.data.storage.store.columns import spec_to_json
from drumline.data.storage.store.directory import (
    Begun,
    DirectoryWriter,
    ResumableDirectory,
    StoredElements,
    begun,
)
from drumline.data.storage.store.disk_errors import naming


def store_elements(plan: Node, options: Options, writer: DirectoryWriter | ShardsWriter) -> None:
    """Store the elements of a plan's first epoch, replacing what was stored before.

    Raises:
        Exception: what making an element raised; then nothing is stored.
    """
    try:
        stage, _ = Epochs(plan, options).start(0, None)
        try:
            for block in blocks_of(stage, plan.spec):
                writer.add(block)
        finally:
            stage.close()
        writer.finish(replace=True)
    except BaseException:
        writer.drop()
        raise


def blocks_of(
    stage: Stage, spec: ElementSpec, room: Callable[[], int | None] = lambda: None
) -> Iterator[Block]:
    """Yield all that a stage makes.

    Args:
        stage: makes elements of ``spec``.
        spec: of the elements.
        room: returns how many elements the next block may have at most.

    Raises:
        Exception: what making an element raised, after the elements before it.
    """
    block_size = BatchSizeController(spec.row_nbytes())
    while True:
        limit = block_size.start(stage.preferred_block_size) if stage.allows_readahead else 1
        block = stage.next(min(limit, room() or limit))
        block_size.stop()
        if block is None:
            return
        yield block
        if block.error is not None:
            raise block.error


def writable_directory(path: str | bytes | os.PathLike[str], operation: str) -> Path:
    """Return the path as given by the user.

    Raises:
        ValueError: it is a URL: what is mapped into memory has to be local.
    """
    plain = _local_path.local_path(path, operation, "what is mapped into memory")
    return Path(plain).expanduser().absolute()


_SECONDS = 10.0
"""Seconds between checkpoints, unless an interval in elements is given."""

_KNOWN = ("directory", "max_to_keep", "checkpoint_interval", "checkpoint_name", "step_counter")


@dataclasses.dataclass(frozen=True)
class CheckpointArgs:
    """The ``checkpoint_args``, named as the arguments of ``tf.train.CheckpointManager``.

    Attributes:
        directory: where checkpoints are kept.
        max_to_keep: how many; ``None`` for all.
        checkpoint_interval: how many elements come between two; ``None`` for those of ten seconds.
        checkpoint_name: what the names of their files begin with.
        step_counter: a variable that counts the elements, or ``None``.
    """

    directory: Path
    max_to_keep: int | None = 1
    checkpoint_interval: int | None = None
    checkpoint_name: str = "ckpt"
    step_counter: Any = None


def checked_arguments(given: Mapping[str, Any]) -> CheckpointArgs:
    """Return the arguments, checked.

    Raises:
        ValueError: one is missing, unknown or out of range.
        TypeError: the step counter is no variable.
    """
    if "checkpoint" in given:
        raise ValueError(
            "save: checkpoint_args must not have 'checkpoint': what is saved is the position"
        )
    if unknown := sorted(set(given) - set(_KNOWN)):
        raise ValueError(
            f"save: checkpoint_args has {', '.join(map(repr, unknown))}; it may have "
            f"{', '.join(map(repr, _KNOWN))}"
        )
    if "directory" not in given:
        raise ValueError("save: checkpoint_args needs 'directory', where checkpoints are kept")
    for name in ("max_to_keep", "checkpoint_interval"):
        number = given.get(name)
        if number is not None and number < 1:
            raise ValueError(f"save: {name} must be a positive integer or None, got {number}")
    counter = given.get("step_counter")
    if counter is not None and not callable(getattr(counter, "assign_add", None)):
        raise TypeError(f"save: step_counter must be a variable, got {type(counter).__name__}")
    plain = local_path(given["directory"], "save", "the directory of checkpoints")
    directory = Path(plain).expanduser().absolute()
    return CheckpointArgs(**{**given, "directory": directory})


class SaveCheckpoints:
    """The files of checkpoints, ``<name>-<number>.json``, in one directory.

    Args:
        arguments: which, and when they are due.
    """

    def __init__(self, arguments: CheckpointArgs):
        self._arguments = arguments
        self._pattern = re.compile(rf"{re.escape(arguments.checkpoint_name)}-(\d+)\.json")
        self._count = 0
        self._since = time.monotonic()

    def room(self) -> int | None:
        """Return how many elements may come before the next checkpoint; ``None`` for any number."""
        interval = self._arguments.checkpoint_interval
        return None if interval is None else interval - self._count

    def passed(self, count: int) -> bool:
        """Count elements that were written; return whether a checkpoint is due."""
        if self._arguments.step_counter is not None:
            self._arguments.step_counter.assign_add(count)
        self._count += count
        if self._arguments.checkpoint_interval is None:
            return time.monotonic() - self._since >= _SECONDS
        return self._count >= self._arguments.checkpoint_interval

    def add(self, content: dict[str, Any]) -> None:
        """Write a checkpoint, and delete the oldest beyond ``max_to_keep``."""
        files = self._files()
        directory = self._arguments.directory
        directory.mkdir(parents=True, exist_ok=True)
        number = max(files, default=0) + 1
        path = directory / f"{self._arguments.checkpoint_name}-{number}.json"
        partial = path.with_name(f".{path.name}.partial")
        with naming(partial), open(partial, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        kept = self._arguments.max_to_keep
        for old in sorted(files)[: 0 if kept is None else max(0, len(files) + 1 - kept)]:
            files[old].unlink(missing_ok=True)
        self._count, self._since = 0, time.monotonic()

    def latest(self) -> tuple[Path, dict[str, Any]] | None:
        """Return the newest checkpoint and its file.

        Raises:
            ValueError: it is damaged.
        """
        files = self._files()
        if not files:
            return None
        path = files[max(files)]
        try:
            content = json.loads(path.read_text())
            if not isinstance(content, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            raise ValueError(
                f"save: the checkpoint {str(path)!r} is damaged ({error}); delete it, and the save "
                "continues from the one before it, or starts again"
            ) from error
        return path, content

    def delete(self) -> None:
        """Delete all checkpoints."""
        for path in self._files().values():
            path.unlink(missing_ok=True)

    def _files(self) -> dict[int, Path]:
        if not self._arguments.directory.is_dir():
            return {}
        found = {}
        for path in self._arguments.directory.iterdir():
            if match := self._pattern.fullmatch(path.name):
                found[int(match[1])] = path
        return found


_VERSION = 1
_BLOCK_NBYTES = 4 << 20


class ResumableSave:
    """Writes the elements of a plan's first epoch into a directory, resumably.

    They are written as columns, in a directory that outlives the process. A checkpoint has the
    position: what was written after it is truncated, and computed again.

    Args:
        plan: makes the elements.
        options: of the dataset.
        place: the directory to be.
        checkpoints: where to look for one, and to write others.

    Raises:
        TypeError: elements cannot be stored, or it is not known whether another process makes the
            same ones.
        ValueError: the checkpoint is of another save, or damaged.
        RuntimeError: another process has resumed it.
    """

    def __init__(self, plan: Node, options: Options, place: Path, checkpoints: SaveCheckpoints):
        spec_to_json(plan.spec)
        self._spec = plan.spec
        self._place = place
        self._checkpoints = checkpoints
        self._epochs = Epochs(plan, options)
        self._identity = {
            "version": _VERSION,
            "path": str(place),
            "dataset": f"{fingerprint_of(plan):016x}",
        }
        found = self._found()
        path = None if found is None else begun(place, found["directory"])
        # Without the directory the save was completed, or the directory was deleted.
        self._checkpoint = None if path is None else found
        self._resumable = path is not None
        self._directory = ResumableDirectory(place, path)

    def store(self, spec: ElementSpec, compression: str | None, sharded: bool) -> None:
        """Write the elements that are missing, and move all to their place.

        Args:
            spec: of the elements.
            compression: as of a `ShardsWriter`.
            sharded: whether the plan gives the shard of each, too.

        Raises:
            Exception: what making an element raised; what was written stays.
        """
        written = None if self._checkpoint is None else self._checkpoint["written"]
        try:
            writer = DirectoryWriter(self._place, self._spec, begun=Begun(self._directory, written))
            self._fill(writer)
            if compression is None and not sharded:
                writer.finish(replace=True)
            else:
                _copy(writer.elements(), elements_writer(self._place, spec, compression, sharded))
            self._checkpoints.delete()
            self._resumable = False
        finally:
            self._directory.drop()
            if not self._resumable:
                shutil.rmtree(self._directory.path, ignore_errors=True)

    def _found(self) -> dict[str, Any] | None:
        """Return the latest checkpoint, if it is of this save."""
        found = self._checkpoints.latest()
        if found is None:
            return None
        path, content = found
        try:
            if any(content.get(key) != value for key, value in self._identity.items()):
                raise IteratorStateError("the dataset or the path is another")
            check_state(content["iterator"], self._epochs.operations)
        except IteratorStateError as error:
            raise ValueError(
                f"save: the checkpoint {str(path)!r} is of another save ({error}). Give another "
                "directory for checkpoints, or delete it to start again"
            ) from error
        return content

    def _fill(self, writer: DirectoryWriter) -> None:
        state = None if self._checkpoint is None else self._checkpoint["iterator"]
        if state is not None:
            self._epochs = self._epochs.with_seeds(state["seeds"])
        stage, form = self._epochs.start(0, None if state is None else state["form"])
        try:
            if state is not None:
                stage.restore(state["at"])
            for block in blocks_of(stage, self._spec, self._checkpoints.room):
                writer.add(block)
                due = self._checkpoints.passed(block.n)
                # The position after an error is behind the element that is to be made again.
                if due and block.error is None:
                    self._add_checkpoint(writer, form, stage.state())
            self._add_checkpoint(writer, form, stage.state())
        finally:
            stage.close()

    def _add_checkpoint(self, writer: DirectoryWriter, form: Any, at: State) -> None:
        # The elements come first, then the checkpoint that refers to them.
        written = writer.sync()
        self._checkpoints.add(
            {
                **self._identity,
                "directory": self._directory.path.name,
                "iterator": checked_state(
                    self._epochs.operations, self._epochs.seeds, 0, form, at, 0
                ),
                "written": written,
            }
        )
        self._resumable = True


def _copy(elements: StoredElements, writer: Any) -> None:
    step = max(1, _BLOCK_NBYTES // elements.spec.row_nbytes())
    try:
        for start in range(0, elements.length, step):
            stop = min(start + step, elements.length)
            writer.add(Block([column[start:stop] for column in elements.columns], stop - start))
        writer.finish(replace=True)
    except BaseException:
        writer.drop()
        raise
