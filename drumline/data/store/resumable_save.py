"""Writing the elements of a plan, so that another process can go on with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from drumline.data.elements.block import Block
from drumline.data.elements.errors import IteratorStateError
from drumline.data.elements.spec import ElementSpec
from drumline.data.engine.epochs import Epochs
from drumline.data.engine.fingerprint import fingerprint_of
from drumline.data.engine.iterator import check_sealed, sealed
from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.runtime.stage import State
from drumline.data.store.directory import Begun, DirectoryWriter, StoredElements
from drumline.data.store.kept import KeptDirectory, begun
from drumline.data.store.save_checkpoints import SaveCheckpoints
from drumline.data.store.saving import blocks_of
from drumline.data.store.specs import spec_to_json
from drumline.data.store.writing import elements_writer

_VERSION = 1
_BLOCK_NBYTES = 4 << 20


class ResumableSave:
    """The elements of a plan's first epoch on their way into a directory.

    They are written as columns, in a directory that stays if the process ends. A checkpoint says
    how far: what was written after it is cut off, and made again.

    Args:
        plan: makes the elements.
        options: of the dataset.
        place: the directory to be.
        checkpoints: where to look for one, and to write others.

    Raises:
        TypeError: elements cannot be stored, or it cannot be told whether another process makes the
            same ones.
        ValueError: the checkpoint is of another save, or damaged.
        RuntimeError: another process goes on with it.
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
        # Without the directory the save was completed, or somebody deleted it.
        self._checkpoint = None if path is None else found
        self._resumable = path is not None
        self._directory = KeptDirectory(place, path)

    def store(self, spec: ElementSpec, compression: str | None, sharded: bool) -> None:
        """Writes the elements that are missing, and moves all to their place.

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
        """The latest checkpoint, if it is of this save."""
        found = self._checkpoints.latest()
        if found is None:
            return None
        path, content = found
        try:
            if any(content.get(key) != value for key, value in self._identity.items()):
                raise IteratorStateError("the dataset or the path is another")
            check_sealed(content["iterator"], self._epochs.operations)
        except IteratorStateError as error:
            raise ValueError(
                f"save: the checkpoint {str(path)!r} is of another save ({error}). Give another "
                "directory for checkpoints, or delete it to begin anew"
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
        # First the elements, then what says that they are there.
        written = writer.sync()
        self._checkpoints.add(
            {
                **self._identity,
                "directory": self._directory.path.name,
                "iterator": sealed(self._epochs.operations, self._epochs.seeds, 0, form, at, 0),
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
