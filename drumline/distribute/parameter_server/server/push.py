"""Changes of shards, checked before any is made, and applied once.

A request's pushes become `CheckedPush`es (`checked_pushes`): shard, update, shapes and row ids are
looked up first, so a refused request has changed nothing. `apply_once` applies those of one
closure in order, with the updates of several tables in one call of Rust where they have the same
native update; `apply_summed` applies those of a synchronous round as one.

`PushLog` knows which pushes of unfinished closures were applied, by closure, shard and position: a
closure that is run again, on whichever worker, changes only what its first run had not reached. Of
finished closures only their numbers are left, as intervals (`IntervalSet`). The question and the
note are made with the shard's lock held.
"""

from __future__ import annotations

import bisect
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from drumline._core import DistinctRows, UpdateRule, unique_ids
from drumline.distribute.parameter_server.errors import (
    RequestError,
    ShardMismatchError,
    UpdateMismatchError,
)
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.embedding_shard import EmbeddingShard
from drumline.distribute.parameter_server.server.optimizer_updates import OptimizerUpdate
from drumline.distribute.parameter_server.server.shard import ServerShard, locked
from drumline.distribute.parameter_server.wire.messages import Push

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.server.parameter_server import ServerShards


class IntervalSet:
    """Numbers as ranges without gaps, so that a million in a row take no more memory than one.

    Args:
        ranges: their starts and ends, ascending, the ends excluded.
    """

    def __init__(self, ranges: list[tuple[int, int]] | None = None) -> None:
        self._starts = [start for start, _ in ranges or []]
        self._ends = [end for _, end in ranges or []]

    def __contains__(self, number: int) -> bool:
        place = bisect.bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    def add(self, number: int) -> None:
        """Have `number` in the set."""
        if number in self:
            return
        place = bisect.bisect_right(self._starts, number)
        joins_left = place > 0 and self._ends[place - 1] == number
        joins_right = place < len(self._starts) and self._starts[place] == number + 1
        if joins_left and joins_right:
            self._ends.pop(place - 1)
            self._starts.pop(place)
        elif joins_left:
            self._ends[place - 1] = number + 1
        elif joins_right:
            self._starts[place] = number
        else:
            self._starts.insert(place, number)
            self._ends.insert(place, number + 1)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The starts and ends of the ranges, ascending, the ends excluded."""
        return list(zip(self._starts, self._ends, strict=True))


class PushLog:
    """What closures have pushed to which shards.

    A closure that is run again, by whomever, changes only the shards that its first run had not
    reached. When it is finished nothing of it is kept but its number: a closure is called
    ``"<run>:<number>"``, and a late push of a finished one is taken for applied. Closures with
    other names are forgotten when they are finished.

    A push is named by its shard, and by how many pushes of its message to that shard come before.
    Callers hold the shard's lock from the question to the answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pushes: dict[str, set[tuple[str, int]]] = {}
        self._finished: dict[str, IntervalSet] = {}

    def contains(self, closure: str, shard: str, ordinal: int) -> bool:
        """Whether a push was applied."""
        return self.which(closure, [(shard, ordinal)])[0]

    def which(self, closure: str, pushes: Sequence[tuple[str, int]]) -> list[bool]:
        """For each push of a closure, a shard's name and an ordinal, whether it was applied."""
        run, number = _parsed(closure)
        with self._lock:
            if number is not None and number in self._finished.get(run, IntervalSet()):
                return [True] * len(pushes)
            applied = self._pushes.get(closure, ())
            return [push in applied for push in pushes]

    def add(self, closure: str, pushes: Iterable[tuple[str, int]]) -> None:
        """Note that pushes were applied."""
        with self._lock:
            self._pushes.setdefault(closure, set()).update(pushes)

    def finish(self, closures: Iterable[str]) -> None:
        """Note that closures push nothing any more."""
        with self._lock:
            for closure in closures:
                self._pushes.pop(closure, None)
                run, number = _parsed(closure)
                if number is not None:
                    self._finished.setdefault(run, IntervalSet()).add(number)

    def of_shard(self, shard: str) -> dict[str, list[int]]:
        """For each closure the pushes to one shard, as JSON has them."""
        with self._lock:
            found = {
                closure: sorted(ordinal for name, ordinal in pushes if name == shard)
                for closure, pushes in self._pushes.items()
            }
        return {closure: ordinals for closure, ordinals in found.items() if ordinals}

    @property
    def finished(self) -> dict[str, list[tuple[int, int]]]:
        """The numbers of finished closures by run, as JSON has them."""
        with self._lock:
            return {run: numbers.ranges for run, numbers in self._finished.items()}

    def reset(self, shards: dict[str, dict[str, list[int]]], finished: dict[str, Any]) -> None:
        """Know nothing but what `of_shard` returned for shards, by their names, and `finished`."""
        with self._lock:
            self._pushes = {}
            for shard, closures in shards.items():
                for closure, ordinals in closures.items():
                    pushes = self._pushes.setdefault(closure, set())
                    pushes.update((shard, ordinal) for ordinal in ordinals)
            self._finished = {
                run: IntervalSet([(start, end) for start, end in ranges])
                for run, ranges in finished.items()
            }

    def __len__(self) -> int:
        """How many closures are known that are not finished."""
        return len(self._pushes)


def _parsed(closure: str) -> tuple[str, int | None]:
    run, colon, number = closure.rpartition(":")
    return run, int(number) if colon and number.isdecimal() else None


GRADIENTS = ("dense", "rows")
KINDS = (*GRADIENTS, "add", "assign")


@dataclass(frozen=True)
class CheckedPush:
    """A change of a shard.

    Attributes:
        shard: which.
        kind: ``"dense"`` for a gradient of the whole value, ``"rows"`` for one of some rows,
            ``"add"`` and ``"assign"`` for the value itself.
        ordinal: how many pushes of the same message to the same shard stand before it.
        value: the gradient or value.
        ids: which rows, for that kind.
        rows: the same, checked.
        update: what takes the gradient; None for values.
    """

    shard: ServerShard
    kind: str
    ordinal: int
    value: np.ndarray
    ids: np.ndarray | None = None
    rows: DistinctRows | None = None
    update: OptimizerUpdate | None = None

    def check(self) -> None:
        """Make sure that it can be applied.

        Raises:
            ShardMismatchError: if its shape or dtype is not the shard's.
            UpdateMismatchError: if it is of rows, and the update is not.
            UnknownUpdateError: if the update has no learning rate.
        """
        shard = self.shard
        if self.update is not None:
            self.update.require_learning_rate()
        shape = shard.shape
        if self.rows is not None:
            self._require_sparse()
            shape = (len(self.rows), *shard.shape[1:])
        what = "The value" if self.update is None else "The gradient"
        shard.check_value(what, self.value, shape)

    def _require_sparse(self) -> None:
        if self.update is not None and not self.update.sparse:
            raise UpdateMismatchError(
                f"Rows were pushed to the shard {self.shard.name!r} for the update "
                f"{self.update.name!r}, which updates whole values. Attach a sparse one."
            )

    def apply(self) -> None:
        """Change the shard, whose lock is held."""
        shard = self.shard
        update, ids, rows = self.update, self.ids, self.rows
        if isinstance(shard, EmbeddingShard) and not (
            update is None or ids is None or rows is None
        ):
            shard.update_rows(ids, rows, self.value, update)
        elif update is not None:
            shard.update(self.value, update)
        elif self.kind == "add":
            shard.add(self.value)
        else:
            shard.write(0, shard.rows, self.value)


class RequestArrays:
    """The arrays of a request, taken in order.

    Raises:
        RequestError: from `take` and `take_ids` if there are no more, and from `end` if there are
            some left.
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = arrays
        self._next = 0
        self._ids: np.ndarray | None = None
        self._next_id = 0

    def take(self, what: str) -> np.ndarray:
        """The next array."""
        if self._next == len(self._arrays):
            raise RequestError(
                f"A request brings {len(self._arrays)} arrays, too few: {what} is missing."
            )
        self._next += 1
        return self._arrays[self._next - 1]

    def take_ids(self, count: int | None, what: str) -> np.ndarray:
        """The next array, or the next `count` elements of the last array."""
        if count is None:
            return self.take(what)
        if self._ids is None:
            self._ids = self._arrays[-1] if self._arrays else np.zeros(0, np.int32)
        start, self._next_id = self._next_id, self._next_id + count
        if self._ids.ndim != 1 or not start <= self._next_id <= len(self._ids):
            raise RequestError(
                f"A request's last array has the shape {self._ids.shape}; of {what}, its elements "
                f"[{start}, {self._next_id}), some are missing."
            )
        return self._ids[start : self._next_id]

    def end(self) -> None:
        """There are no more."""
        taken = self._next + (self._ids is not None)
        if taken != len(self._arrays):
            raise RequestError(
                f"A request brings {len(self._arrays)} arrays; its header speaks of {taken}."
            )
        if self._ids is not None and self._next_id != len(self._ids):
            raise RequestError(
                f"A request's last array holds {len(self._ids)} ids; its header speaks of "
                f"{self._next_id}."
            )


def checked_pushes(
    entries: Sequence[Push], arrays: RequestArrays, shards: ServerShards
) -> list[CheckedPush]:
    """The pushes of a request, all of which can be applied.

    Raises:
        RequestError: if it is not well formed.
        UnknownShardError, UpdateMismatchError, ShardMismatchError, RowIndexError, RepeatedRowError,
            UnknownUpdateError: if one cannot be applied.
    """
    counts: dict[str, int] = {}
    pushes = []
    for entry in entries:
        name, kind = entry.name, entry.kind
        if kind not in KINDS:
            raise RequestError(f"A push to {name!r} is of the kind {kind!r}; there are {KINDS}.")
        shard = shards.get(name)
        ids, rows = None, None
        if kind == "rows":
            ids = arrays.take_ids(entry.ids, f"the ids of a push to {name!r}")
            rows = _table(shard).distinct(ids)
        value = arrays.take(f"the array of a push to {name!r}")
        update = shard.attached(entry.update) if kind in GRADIENTS else None
        push = CheckedPush(shard, kind, counts.get(name, 0), value, ids, rows, update)
        push.check()
        counts[name] = push.ordinal + 1
        pushes.append(push)
    return pushes


def apply_once(pushes: Sequence[CheckedPush], closure: str | None, applied: PushLog) -> list[bool]:
    """Apply pushes, except for those of a closure that were applied before.

    Returns:
        For each whether it was applied now.
    """
    done: list[bool] = []
    for group in groups(pushes):
        done += _apply_group(group, closure, applied)
    return done


def groups(pushes: Sequence[CheckedPush]) -> Iterator[list[CheckedPush]]:
    """The pushes in order, together where they are of rows of different tables, for one native."""
    group: list[CheckedPush] = []
    names: set[str] = set()
    for push in pushes:
        joins = group and _native(push) and _native(group[0]) and group[0].update is push.update
        if group and (not joins or push.shard.name in names):
            yield group
            group, names = [], set()
        group.append(push)
        names.add(push.shard.name)
    if group:
        yield group


def _native(push: CheckedPush) -> UpdateRule | None:
    return None if push.rows is None or push.update is None else push.update.native


def _apply_group(group: Sequence[CheckedPush], closure: str | None, applied: PushLog) -> list[bool]:
    with locked([push.shard for push in group]):
        if closure is None:
            _apply(group)
            return [True] * len(group)
        keys = [(push.shard.name, push.ordinal) for push in group]
        known = applied.which(closure, keys)
        new = [push for push, is_known in zip(group, known, strict=True) if not is_known]
        if new:
            _apply(new)
            applied.add(closure, keys)
        return [not is_known for is_known in known]


def _apply(group: Sequence[CheckedPush]) -> None:
    first = group[0]
    native = _native(first)
    if native is None or first.update is None:
        first.apply()
        return
    tables = [(cast(EmbeddingShard, push.shard), push) for push in group]
    updates = [
        shard.begin_update(push.ids, push.rows, push.value, first.update)  # type: ignore[arg-type]
        for shard, push in tables
    ]
    native.update_rows(updates, float(first.update.learning_rate))
    for shard, _ in tables:
        shard.count_update()


def _table(shard: ServerShard) -> EmbeddingShard:
    if isinstance(shard, EmbeddingShard):
        return shard
    raise ShardMismatchError(
        f"Rows were pushed to the shard {shard.name!r}, which is no table. Push a gradient of "
        "the whole value, with the kind 'dense'."
    )


Pushes = Sequence[tuple[str, CheckedPush]]
"""Pushes with the names of their closures."""


def apply_summed(pushes: Pushes, applied: PushLog, divisor: int | None) -> None:
    """Apply pushes so that each shard takes one update, with the sum of its gradients.

    Pushes that were applied before are left out.

    Args:
        pushes: in the order in which they are summed.
        applied: the pushes that were applied.
        divisor: what the sums are divided by; None for nothing.
    """
    groups: dict[tuple[str, str, str | None], list[tuple[str, CheckedPush]]] = {}
    for closure, push in pushes:
        update = push.update.name if push.update else None
        groups.setdefault((push.shard.name, push.kind, update), []).append((closure, push))
    for group in groups.values():
        _sum_group(group, applied, divisor)


def _sum_group(group: Pushes, applied: PushLog, divisor: int | None) -> None:
    shard = group[0][1].shard
    with shard.lock:
        new = [
            (closure, push)
            for closure, push in group
            if not applied.contains(closure, shard.name, push.ordinal)
        ]
        if not new:
            return
        for push in _merged([push for _, push in new], divisor):
            push.apply()
        for closure, push in new:
            applied.add(closure, [(shard.name, push.ordinal)])


def _merged(pushes: Sequence[CheckedPush], divisor: int | None) -> Sequence[CheckedPush]:
    first = pushes[0]
    if first.update is None:
        return pushes
    if first.rows is None:
        total = _total(pushes)
        ids, rows = None, None
    else:
        ids, total = _total_of_rows(pushes)
        rows = type(first.rows)(ids, first.shard.rows)
    if divisor is not None:
        total /= divisor
    value = memory.copied(total).astype(first.value.dtype, copy=False)
    return [dataclasses.replace(first, value=value, ids=ids, rows=rows)]


def _total(pushes: Sequence[CheckedPush]) -> np.ndarray:
    total = pushes[0].value.astype(_wide(pushes[0].value.dtype))
    for push in pushes[1:]:
        total += push.value
    return total


def _total_of_rows(pushes: Sequence[CheckedPush]) -> tuple[np.ndarray, np.ndarray]:
    given = [push.ids for push in pushes if push.ids is not None]
    ids, inverse, _ = unique_ids(np.concatenate(given, dtype=np.int64), [0, pushes[0].shard.rows])
    value = pushes[0].value
    total = np.zeros((len(ids), *value.shape[1:]), _wide(value.dtype))
    start = 0
    for push in pushes:
        # A push has no row twice, so nothing is lost when rows are added by their places.
        total[inverse[start : start + len(push.value)]] += push.value
        start += len(push.value)
    return ids, total


def _wide(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
