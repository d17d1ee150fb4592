"""What workers ask for at every step: pushes, then rows and values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline._core import TableRows
from drumline.distribute.parameter_server.server.applied import AppliedPushes
from drumline.distribute.parameter_server.server.dense_part import DensePart
from drumline.distribute.parameter_server.server.errors import PartMismatchError
from drumline.distribute.parameter_server.server.part import Part, locked
from drumline.distribute.parameter_server.server.parts import Parts
from drumline.distribute.parameter_server.server.push import Push, apply_once, pushes_of
from drumline.distribute.parameter_server.server.requests import Arrays, field
from drumline.distribute.parameter_server.server.stats import Stats
from drumline.distribute.parameter_server.server.table_part import TablePart
from drumline.distribute.parameter_server.server.table_part import gather as gather_tables
from drumline.distribute.parameter_server.wire.message import Message


@dataclass(frozen=True)
class Gather:
    """Rows that are asked for."""

    part: TablePart
    rows: TableRows


@dataclass(frozen=True)
class Pull:
    """A value that is asked for, unless it is still of the version that the asker has."""

    part: Part
    version: int | None


class Exchange:
    """One request, whose every name, shape and id was checked before anything is changed.

    Args:
        request: see `Owner` for its fields.
        parts: the server's.
        applied: the pushes that were applied before.
        stats: counts what is done.

    Raises:
        Any of `owner.errors` if the request cannot be served.
    """

    def __init__(
        self, request: Message, parts: Parts, applied: AppliedPushes, stats: Stats
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

    def _pulled(self, part: Part) -> np.ndarray:
        lane = self._request.lane
        if isinstance(part, DensePart) and lane is not None:
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


def _gather(entry: dict[str, Any], arrays: Arrays, parts: Parts) -> Gather:
    name = field(entry, "name", str)
    part = parts.get(name)
    ids = arrays.take_ids(entry, f"the ids of the rows of {name!r}")
    if not isinstance(part, TablePart):
        raise PartMismatchError(
            f"Rows were asked for of the part {name!r}, which is no table. Pull its value."
        )
    return Gather(part, part.checked(ids))
