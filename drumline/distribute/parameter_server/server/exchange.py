"""What workers ask for at every step: pushes, then rows and values.

What a server has done, and how long it took.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline._core import TableRows
from drumline.distribute.parameter_server.server.applied import AppliedPushes
from drumline.distribute.parameter_server.server.dense_shard import DenseShard
from drumline.distribute.parameter_server.server.push import Push, apply_once, pushes_of
from drumline.distribute.parameter_server.server.requests import Arrays, ShardMismatchError, field
from drumline.distribute.parameter_server.server.shard import ServerShard, locked
from drumline.distribute.parameter_server.server.shards import ServerShards
from drumline.distribute.parameter_server.server.table_shard import TableShard
from drumline.distribute.parameter_server.server.table_shard import gather as gather_tables
from drumline.distribute.parameter_server.wire.codec import Message


class Stats:
    """Counts since the server started. Times are in seconds, waiting for locks included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"push": 0.0, "read": 0.0}

    def pushed(self, pushes: Sequence[Push], applied: Sequence[bool], seconds: float) -> None:
        """Note pushes, and which of them were applied."""
        with self._lock:
            for push, now in zip(pushes, applied, strict=True):
                self._counts["pushes" if now else "repeated_pushes"] += 1
                self._counts["bytes_in"] += push.value.nbytes
                if now and push.rows is not None:
                    self._counts["rows_updated"] += len(push.rows)
            self._seconds["push"] += seconds

    def read(self, rows: int, arrays: Sequence[np.ndarray], seconds: float) -> None:
        """Note an exchange's reply."""
        with self._lock:
            self._counts["exchanges"] += 1
            self._counts["rows_gathered"] += rows
            self._counts["bytes_out"] += sum(array.nbytes for array in arrays)
            self._seconds["read"] += seconds

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        names = ("exchanges", "pushes", "repeated_pushes", "rows_gathered", "rows_updated")
        with self._lock:
            counts = {name: self._counts[name] for name in (*names, "bytes_in", "bytes_out")}
            return {**counts, "seconds": dict(self._seconds)}


@dataclass(frozen=True)
class Gather:
    """Rows that are asked for."""

    part: TableShard
    rows: TableRows


@dataclass(frozen=True)
class Pull:
    """A value that is asked for, unless it is still of the version that the asker has."""

    part: ServerShard
    version: int | None


class Exchange:
    """One request, whose every name, shape and id was checked before anything is changed.

    Args:
        request: see `ParameterServer` for its fields.
        parts: the server's.
        applied: the pushes that were applied before.
        stats: counts what is done.

    Raises:
        Any of `owner.errors` if the request cannot be served.
    """

    def __init__(
        self, request: Message, parts: ServerShards, applied: AppliedPushes, stats: Stats
    ) -> None:
        header = request.header
        arrays = Arrays(request.arrays)
        self._request = request
        self._applied = applied
        self._stats = stats
        closure = header.get("closure")
        self.closure = None if closure is None else str(closure)
        self.pushes: list[Push] = pushes_of(header, arrays, parts)
        self._gathers = [_gather(entry, arrays, parts) for entry in header.get("gather", ())]
        self._pulls = [
            Pull(parts.get(field(entry, "name", str)), entry.get("version"))
            for entry in header.get("pull", ())
        ]
        arrays.end()

    @property
    def was_applied(self) -> bool:
        """Whether all of its pushes, of which there are some, were applied before."""
        keys = [(push.part.name, push.ordinal) for push in self.pushes]
        return bool(keys) and all(self._applied.which(str(self.closure), keys))

    def apply(self) -> list[bool]:
        """Apply the pushes, once; say for each whether it was now."""
        started = time.perf_counter()
        applied = apply_once(self.pushes, self.closure, self._applied)
        self.note(applied, time.perf_counter() - started)
        return applied

    def note(self, applied: Sequence[bool], seconds: float) -> None:
        """Count the pushes, and how long they took."""
        self._stats.pushed(self.pushes, applied, seconds)

    def reply(self, applied: Sequence[bool]) -> Message:
        """The rows and values that were asked for, as they are now."""
        started = time.perf_counter()
        arrays = self._gathered()
        versions, changed = [], []
        for pull in self._pulls:
            with pull.part.lock:
                versions.append(pull.part.version)
                changed.append(pull.part.version != pull.version)
                if changed[-1]:
                    arrays.append(self._pulled(pull.part))
        self._stats.read(self._gathers_rows, arrays, time.perf_counter() - started)
        header: dict[str, Any] = {
            "versions": versions,
            "changed": changed,
            "applied": list(applied),
        }
        return Message(header, arrays)

    @property
    def _gathers_rows(self) -> int:
        return sum(len(gather.rows) for gather in self._gathers)

    def _pulled(self, part: ServerShard) -> np.ndarray:
        lane = self._request.lane
        if isinstance(part, DenseShard) and lane is not None:
            return part.pull(lane.shared)
        return part.read(0, part.rows)

    def _gathered(self) -> list[np.ndarray]:
        lane = self._request.lane
        forms = [((len(g.rows), *g.part.shape[1:]), g.part.dtype) for g in self._gathers]
        outs = [np.empty(*form) for form in forms] if lane is None else lane.empties(forms)
        with locked(gather.part for gather in self._gathers):
            gather_tables(
                [(g.part, g.rows, out) for g, out in zip(self._gathers, outs, strict=True)]
            )
        return outs


def _gather(entry: dict[str, Any], arrays: Arrays, parts: ServerShards) -> Gather:
    name = field(entry, "name", str)
    part = parts.get(name)
    ids = arrays.take_ids(entry, f"the ids of the rows of {name!r}")
    if not isinstance(part, TableShard):
        raise ShardMismatchError(
            f"Rows were asked for of the part {name!r}, which is no table. Pull its value."
        )
    return Gather(part, part.checked(ids))
