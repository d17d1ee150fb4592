"""Which of several processes writes a checkpoint that all of them save, and what they restore.

The first process writes; it says on the group's blackboard when it begins each of its saves, and
when that is done. Another one that saves waits until the first has saved to that path as often as
itself, or as often in all. In the second case it may have saved to another path instead, or it
saved more than the others before and is about to save to this one: it is waited for a little
longer, once for a directory in which it never saves. If the file at its path is one that the first
process wrote, or wrote and deleted since, a process has nothing to do; if not (another directory,
another disk), it writes. So neither waits for ever where only one saves.

Each says on the blackboard which checkpoint it has restored, and looks at what the others said:
where one had to go back to an older checkpoint than another, the last of the two to come raises.
None waits, so one may restore alone.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from drumline.distribute.process_group.coordination import KeyValueStore
from drumline.distribute.process_group.group import ProcessGroup
from drumline.training.checkpoint.file_format import DamagedCheckpointError, saved_token

_log = logging.getLogger("drumline")

PATIENCE_SECONDS = 60.0
"""How long another process waits for the first to begin a save."""

DOUBT_SECONDS = 2.0
"""How long it waits where the first may have saved to another path instead."""

_POLL_SECONDS = 0.05
_REMEMBERED = 64


class OneWriter:
    """Decides for `Checkpoint` who writes.

    Args:
        group: the processes.
        coordination: their blackboard.
    """

    def __init__(self, group: ProcessGroup, coordination: KeyValueStore) -> None:
        self._group = group
        self._coordination = coordination
        self._counts: Counter[str] = Counter()
        self._own: set[str] = set()
        self._restored = 0
        self._job = ""
        self._lock = threading.Lock()
        if group.is_chief:
            self._job = secrets.token_hex(8)
            coordination.name_job(self._job)

    def job(self) -> str:
        """See `drumline.training.checkpoint.checkpoint.Writers`."""
        if not self._job:
            self._job = self._coordination.job()
        return self._job

    def restored(self, path: str | None, damaged: Sequence[str]) -> None:
        """See `drumline.training.checkpoint.checkpoint.Writers`."""
        with self._lock:
            self._restored += 1
            number = self._restored
        own = {
            "name": None if path is None else os.path.basename(path),
            "damaged": [os.path.basename(each) for each in damaged],
        }
        rank = self._group.process_index
        self._coordination.tell_restored(number, rank, own)
        for process, other in sorted(self._coordination.restored(number).items()):
            if other["name"] == own["name"] or not (other["damaged"] or own["damaged"]):
                continue
            here, there = self._group.task, self._group.tasks[process]
            raise DamagedCheckpointError(
                f"{here} has restored {own['name']!r} and found {own['damaged']} damaged; {there} "
                f"has restored {other['name']!r} and found {other['damaged']} damaged. Processes "
                "that train together must begin with one checkpoint: remove those that are damaged "
                "in one of them everywhere, and start again."
            )

    def write(self, path: str, write: Callable[[], None]) -> bool:
        """See `drumline.training.checkpoint.checkpoint.Writers`.

        Raises:
            OSError: in the others, if the first process could not write.
        """
        with self._lock:
            whole = os.path.abspath(path)
            self._counts[whole] += 1
            if self._group.is_chief:
                self._write_first(whole, write)
                return True
            if self._is_written(whole):
                return False
        write()
        return True

    def _write_first(self, path: str, write: Callable[[], None]) -> None:
        number = self._counts.total()
        save = {"path": path, "nth": self._counts[path], "state": "begun"}
        self._coordination.tell_save(number, save)
        try:
            write()
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            self._coordination.tell_save(number, {**save, "state": reason})
            raise
        done = {**save, "state": "done", "token": saved_token(path)}
        self._coordination.tell_save(number, done)
        if number > _REMEMBERED:
            self._coordination.forget_save(number - _REMEMBERED)

    def _is_written(self, path: str) -> bool:
        """Wait for the first process, and say whether what is at `path` is its work."""
        started = time.monotonic()
        directory = os.path.dirname(path)
        while True:
            waited = time.monotonic() - started
            saves = self._coordination.saves()
            here = {n: save for n, save in saves.items() if save["path"] == path}
            latest = here.get(max(here, default=0), {"nth": 0, "state": "none"})
            if latest["nth"] < self._counts[path]:
                if max(saves, default=0) >= self._counts.total():
                    shared = any(
                        os.path.dirname(save["path"]) == directory for save in saves.values()
                    )
                    if (directory in self._own and not shared) or waited > DOUBT_SECONDS:
                        self._own.add(directory)
                        return False
                if waited > PATIENCE_SECONDS:
                    _log.warning(
                        "%s saves %s by itself: %s, which writes what all save, has not begun in "
                        "%.0f s. Let all processes call save, or the first one alone.",
                        *(self._group.task, path, self._group.tasks[0], PATIENCE_SECONDS),
                    )
                    return False
            elif latest["state"] == "done":
                token = saved_token(path)
                if token in {save.get("token") for save in here.values()} - {None}:
                    return True
                if token is None and _is_shared(directory, saves.values()):
                    return True  # the first process is ahead, and has deleted it as too old
                if self._coordination.saves().keys() == saves.keys():
                    return False
                # The first process may be writing over it already: that is waited for, too.
            elif latest["state"] != "begun":
                raise OSError(f"{self._group.tasks[0]} could not save {path}: {latest['state']}")
            time.sleep(_POLL_SECONDS)


def _is_in(directory: str, save: Mapping[str, Any]) -> bool:
    return os.path.dirname(save["path"]) == directory


def _is_shared(directory: str, saves: Iterable[Mapping[str, Any]]) -> bool:
    """Whether something that the first process saved to this directory is seen in it."""
    return any(
        save.get("token") is not None and saved_token(save["path"]) == save["token"]
        for save in saves
        if _is_in(directory, save)
    )
