"""All that a `fit` needs to continue, in one checkpoint."""

from __future__ import annotations

import json
import logging
import os
from typing import Any, cast

import keras
import numpy as np

from drumline._safetensors import SUFFIX
from drumline.distribute import Strategy
from drumline.distribute.process_group.host_collectives import all_gather_host, broadcast
from drumline.distribute.variable import broadcast_initial_values, first_values, forget_start
from drumline.keras.resuming.user_state import decoded, dtype_name, encoded
from drumline.keras.state import step_variables, strategy_of
from drumline.training.checkpoint import Checkpoint, CheckpointManager
from drumline.training.checkpoint.external_storage import (
    ProcessesStore,
    is_away,
    only_store,
    store_of,
)
from drumline.training.checkpoint.external_transfer import write_together
from drumline.training.checkpoint.restoration import some
from drumline.training.checkpoint.snapshot import (
    CheckpointContents,
    HostArray,
    SavedObjects,
    find,
    take_snapshot,
)
from drumline.training.keras_internals import return_taken_values

_log = logging.getLogger("drumline")

_VERSION = 1


class NoTrainingError(ValueError):
    """A checkpoint was saved by something else than a `fit`."""


class Progress:
    """What is no array, as a part of a checkpoint.

    Attributes:
        value: can be written as JSON; None before it is restored.
    """

    def __init__(self, value: dict[str, Any] | None = None) -> None:
        self.value = value

    def state(self) -> dict[str, Any] | None:
        """What a checkpoint holds."""
        return self.value

    def restore(self, state: dict[str, Any]) -> None:
        """Take what a checkpoint holds."""
        self.value = state


class TrainingCheckpoint:
    """The checkpoints that `fit` saves of a model in a directory.

    With several processes the first one reads and writes; the others come along.

    Args:
        model: built and compiled.
        directory: a local path.
        max_to_keep: how many checkpoints are kept; None for all.
        name: the first part of their names.
    """

    def __init__(
        self, model: keras.Model, directory: str, max_to_keep: int | None, name: str
    ) -> None:
        self._model = model
        self._directory = directory
        self._max_to_keep = max_to_keep
        self._name = name
        strategy = strategy_of(model)
        self._spanning = strategy if strategy is not None and strategy.spans_processes else None
        self._saved = 0
        self._restored_path = ""

    def save(self, progress: dict[str, Any]) -> str | None:
        """Save; all processes call this together.

        Args:
            progress: what is no variable of the model's, as `encoded` takes it.

        Returns:
            The checkpoint's path, in the process that has written it.

        Raises:
            OSError: if it cannot be written; those before are still there.
        """
        objects = self._objects()
        if self._spanning is not None and self._spanning.process_index > 0:
            # Values of which every process has a part are read by all together.
            shared = find(objects).variables.items()
            copies = {path: v for path, v in shared if getattr(v, "has_copies", False)}
            take_snapshot(SavedObjects(variables=copies), 0)
            cut = {path: v for path, v in shared if store_of(v) and not is_away(v)}
            if cut:
                return_taken_values(cut.values())
                parts = SavedObjects(variables=cut)
                store = cast(ProcessesStore, only_store(cut.values()))
                write_together(None, CheckpointContents(), parts, store, _nothing, _nothing)
            return None
        arrays: list[np.ndarray] = []
        value = encoded(progress, "the training", arrays)
        specs = [[list(array.shape), dtype_name(array.dtype)] for array in arrays]
        optimizer = _kind_of(self._model.optimizer)
        objects["training"] = Progress(
            {"version": _VERSION, "value": value, "arrays": specs, "optimizer": optimizer}
        )
        objects["arrays"] = list(map(HostArray, arrays))
        checkpoint = Checkpoint(**objects)
        manager = CheckpointManager(checkpoint, self._directory, self._max_to_keep, self._name)
        checkpoint.save_counter = self._number(manager)
        path = manager.save()
        self._saved = checkpoint.save_counter
        return path

    def restore(self, superseded_by: str | None = None) -> dict[str, Any] | None:
        """Restore the latest whole checkpoint, and return its progress; None if there is none.

        All processes call this together.

        Args:
            superseded_by: a file; if it is there and newer, nothing is restored.

        Raises:
            ValueError: if no checkpoint is whole, or they are of another model.
        """
        if self._spanning is None:
            return self._restored_here(superseded_by)
        first = self._spanning.process_index == 0
        found = self._restored_here(superseded_by) if first else None
        if self._spanning._cuts_slots:  # each process reads its own part
            path = text_of_first(self._spanning, self._restored_path)
            if path and not first:
                self._restored_from(path)
        return _shared(self._spanning, found, self.variables)

    @property
    def variables(self) -> list[Any]:
        """All variables that are saved, but for those that servers hold."""
        found = find(self._objects()).variables.values()
        return [variable for variable in found if store_of(variable) is None]

    def _objects(self) -> dict[str, Any]:
        model = self._model
        objects: dict[str, Any] = {"model": model}
        found = {id(variable) for variable in find(objects).variables.values()}
        used = [*model.variables, *model.metrics_variables, *step_variables(model)]
        if model.optimizer is not None:
            used += model.optimizer.variables
        # Metrics that `compile` was given, and what a subclass hides from Keras.
        others = {id(variable): variable for variable in used if id(variable) not in found}
        objects["others"] = list(others.values())
        return objects

    def _number(self, manager: CheckpointManager) -> int:
        numbers = [path.rpartition("-")[2] for path in manager.checkpoints]
        return max([self._saved, *(int(number) for number in numbers if number.isdecimal())])

    def _restored_here(self, superseded_by: str | None) -> dict[str, Any] | None:
        self._restored_path = ""
        if not os.path.isdir(self._directory):
            return None
        manager = CheckpointManager(Checkpoint(), self._directory, self._max_to_keep, self._name)
        if superseded_by is not None and _is_newer(superseded_by, manager.latest_checkpoint):
            return None
        failure: Exception | None = None
        for path in manager.checkpoints[::-1]:
            try:
                found = self._restored_from(path)
                self._restored_path = path
                return found
            except (ValueError, OSError) as error:
                _log.warning("The backup %r is left out: %s", path, error)
                failure = failure or error
        if failure is not None:
            raise failure
        return None

    def _restored_from(self, path: str) -> dict[str, Any]:
        _require_built(self._model)
        progress = Progress()
        Checkpoint(training=progress).restore(path).expect_partial()
        saved = progress.value
        if saved is None or saved.get("version") != _VERSION:
            raise NoTrainingError(
                f"{path} was not saved by a `fit` of this version of drumline. Give the callback "
                "a directory of its own."
            )
        # Slots of different optimizers may have the same shapes. Older backups do not say.
        own = _kind_of(self._model.optimizer)
        if (optimizer := saved.get("optimizer", own)) != own:
            raise ValueError(
                f"{path} was saved with the optimizer {optimizer}, and the model has {own}. "
                "Compile it with the same optimizer as then, or give another directory."
            )
        arrays = [HostArray(np.zeros(shape, dtype)) for shape, dtype in saved["arrays"]]
        status = Checkpoint(**self._objects(), arrays=arrays).restore(path).expect_partial()
        try:
            status.assert_existing_objects_matched()
        except AssertionError as error:
            raise ValueError(
                f"{error} Compile the same model with the same optimizer and metrics as then."
            ) from error
        assert status.restoration is not None
        unused = sorted(status.restoration.leftover.paths - {"training"})
        if unused:
            _log.warning(
                "The backup %s has values that this model and its metrics have no place for: %s.",
                *(path, some(unused)),
            )
        found: dict[str, Any] = decoded(saved["value"], [array.value for array in arrays])
        return found


def _nothing() -> None:
    pass


def _kind_of(optimizer: Any) -> str:
    """An optimizer by its class, and those in it: ``"LossScaleOptimizer(Adam)"``; "none"."""
    if optimizer is None:
        return "none"
    inner = [held for held in vars(optimizer).values() if isinstance(held, keras.Optimizer)]
    name = type(optimizer).__name__
    return f"{name}({', '.join(map(_kind_of, inner))})" if inner else name


def _is_newer(file: str, checkpoint: str | None) -> bool:
    if checkpoint is None or not os.path.exists(file):
        return False
    return os.path.getmtime(file) > os.path.getmtime(f"{checkpoint}{SUFFIX}")


def _require_built(model: keras.Model) -> None:
    if not model.built:
        raise ValueError(
            f"BackupAndRestore restores model {model.name!r}, which is not built. Build it before "
            "`fit`, for instance with a keras.Input as its first layer."
        )
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _shared(
    strategy: Strategy, progress: dict[str, Any] | None, variables: list[Any]
) -> dict[str, Any] | None:
    """What the first process has restored, in all."""
    arrays: list[np.ndarray] = []
    text = json.dumps(encoded(progress, "the training", arrays))
    specs = [[list(array.shape), dtype_name(array.dtype)] for array in arrays]
    text, specs = json.loads(text_of_first(strategy, json.dumps([text, specs])))
    if (found := json.loads(text)) is None:
        return None
    if strategy.process_index:
        arrays = [np.zeros(shape, dtype) for shape, dtype in specs]
    shared = first_values(strategy, arrays)
    forget_start(variables)
    broadcast_initial_values(strategy, variables)
    whole: dict[str, Any] = decoded(found, shared)
    return whole


def text_of_first(strategy: Strategy, text: str) -> str:
    """The first process's text, in all processes, which call this together."""
    data = np.frombuffer(text.encode(), np.uint8)
    size = int(broadcast(strategy, np.array(len(data), np.int32)))
    buffer = np.resize(data, size) if len(data) else np.zeros(size, np.uint8)
    return bytes(np.asarray(broadcast(strategy, buffer), np.uint8)).decode()


def texts_of_all(strategy: Strategy, text: str) -> list[str]:
    """Every process's text, in all processes, which call this together."""
    data = np.frombuffer(text.encode(), np.uint8)
    sizes = all_gather_host(strategy, np.array([len(data)], np.int64))[:, 0]
    buffer = np.zeros(int(sizes.max()), np.uint8)
    buffer[: len(data)] = data
    gathered = all_gather_host(strategy, buffer)
    return [bytes(row[:size]).decode() for row, size in zip(gathered, sizes, strict=True)]
