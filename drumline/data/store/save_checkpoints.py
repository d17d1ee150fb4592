"""Checkpoints of a ``save``: where it was, so that another process can go on."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drumline._local_path import local_path
from drumline.data.store.disk_errors import naming

_SECONDS = 10.0
"""Between checkpoints, unless it is said after how many elements."""

_KNOWN = ("directory", "max_to_keep", "checkpoint_interval", "checkpoint_name", "step_counter")


@dataclasses.dataclass(frozen=True)
class CheckpointArgs:
    """What ``checkpoint_args`` says, as ``tf.train.CheckpointManager`` is told.

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
    """The arguments, checked.

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
        """How many elements may come before the next checkpoint; ``None`` for any number."""
        interval = self._arguments.checkpoint_interval
        return None if interval is None else interval - self._count

    def passed(self, count: int) -> bool:
        """Hears of elements that were written; returns whether a checkpoint is due."""
        if self._arguments.step_counter is not None:
            self._arguments.step_counter.assign_add(count)
        self._count += count
        if self._arguments.checkpoint_interval is None:
            return time.monotonic() - self._since >= _SECONDS
        return self._count >= self._arguments.checkpoint_interval

    def add(self, content: dict[str, Any]) -> None:
        """Writes a checkpoint, and deletes those that are too many."""
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
        """The newest checkpoint and its file.

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
                "goes on from the one before it, or begins anew"
            ) from error
        return path, content

    def delete(self) -> None:
        """Deletes all."""
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
