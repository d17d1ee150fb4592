"""Changes of parts, checked before any is made.

Applying the pushes of several closures as one.

Which pushes were applied, so that none is applied twice.

A set of numbers that are almost all those up to some.
"""

from __future__ import annotations

import bisect
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

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
from drumline.distribute.parameter_server.server.requests import Arrays, field
from drumline.distribute.parameter_server.server.shard import ServerShard, locked
from drumline.distribute.parameter_server.server.shards import ServerShards


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
    """What closures have pushed to which parts.

    A closure that is run again, by whomever, changes only the parts that its first run had not
    reached. When it is finished nothing of it is kept but its number: a closure is called
    ``"<run>:<number>"``, and a late push of a finished one is taken for applied. Closures with
    other names are forgotten when they are finished.

    A push is named by its part and by how many pushes of its message to that part stand before it.
    Callers hold the part's lock from the question to the answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pushes: dict[str, set[tuple[str, int]]] = {}
        self._finished: dict[str, IntervalSet] = {}

    def contains(self, closure: str, part: str, ordinal: int) -> bool:
        """Whether a push was applied."""
        return self.which(closure, [(part, ordinal)])[0]

    def which(self, closure: str, pushes: Sequence[tuple[str, int]]) -> list[bool]:
        """For each push of a closure, a part's name and an ordinal, whether it was applied."""
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

    def of_part(self, part: str) -> dict[str, list[int]]:
        """For each closure the pushes to one part, as JSON has them."""
        with self._lock:
            found = {
                closure: sorted(ordinal for name, ordinal in pushes if name == part)
                for closure, pushes in self._pushes.items()
            }
        return {closure: ordinals for closure, ordinals in found.items() if ordinals}

    @property
    def finished(self) -> dict[str, list[tuple[int, int]]]:
        """The numbers of finished closures by run, as JSON has them."""
        with self._lock:
            return {run: numbers.ranges for run, numbers in self._finished.items()}

    def reset(self, parts: dict[str, dict[str, list[int]]], finished: dict[str, Any]) -> None:
        """Know nothing but what `of_part` told of parts, by their names, and `finished`."""
        with self._lock:
            self._pushes = {}
            for part, closures in parts.items():
                for closure, ordinals in closures.items():
                    pushes = self._pushes.setdefault(closure, set())
                    pushes.update((part, ordinal) for ordinal in ordinals)
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
class Push:
    """A change of a part.

    Attributes:
        part: which.
        kind: ``"dense"`` for a gradient of the whole value, ``"rows"`` for one of some rows,
            ``"add"`` and ``"assign"`` for the value itself.
        ordinal: how many pushes of the same message to the same part stand before it.
        value: the gradient or value.
        ids: which rows, for that kind.
        rows: the same, checked.
        rule: what takes the gradient; None for values.
    """

    part: ServerShard
    kind: str
    ordinal: int
    value: np.ndarray
    ids: np.ndarray | None = None
    rows: DistinctRows | None = None
    rule: OptimizerUpdate | None = None

    def check(self) -> None:
        """Make sure that it can be applied.

        Raises:
            ShardMismatchError: if its shape or dtype is not the part's.
            UpdateMismatchError: if it is of rows, and the rule is not.
            UnknownUpdateError: if the rule has no learning rate.
        """
        part = self.part
        if self.rule is not None:
            self.rule.require_learning_rate()
        shape = part.shape
        if self.rows is not None:
            self._require_sparse()
            shape = (len(self.rows), *part.shape[1:])
        what = "The value" if self.rule is None else "The gradient"
        part.check_value(what, self.value, shape)

    def _require_sparse(self) -> None:
        if self.rule is not None and not self.rule.sparse:
            raise UpdateMismatchError(
                f"Rows were pushed to the part {self.part.name!r} for the rule "
                f"{self.rule.name!r}, which updates whole values. Attach a sparse one."
            )

    def apply(self) -> None:
        """Change the part, whose lock is held."""
        part = self.part
        rule, ids, rows = self.rule, self.ids, self.rows
        if isinstance(part, EmbeddingShard) and not (rule is None or ids is None or rows is None):
            part.update_rows(ids, rows, self.value, rule)
        elif rule is not None:
            part.update(self.value, rule)
        elif self.kind == "add":
            part.add(self.value)
        else:
            part.write(0, part.rows, self.value)


def pushes_of(header: dict[str, Any], arrays: Arrays, parts: ServerShards) -> list[Push]:
    """The pushes of a request, all of which can be applied.

    Raises:
        RequestError: if it is not well formed.
        UnknownShardError, UpdateMismatchError, ShardMismatchError, RowIndexError, RepeatedRowError,
            UnknownUpdateError: if one cannot be applied.
    """
    counts: dict[str, int] = {}
    pushes = []
    for entry in header.get("push", ()):
        name, kind = field(entry, "name", str), field(entry, "kind", str)
        if kind not in KINDS:
            raise RequestError(f"A push to {name!r} is of the kind {kind!r}; there are {KINDS}.")
        part = parts.get(name)
        ids, rows = None, None
        if kind == "rows":
            ids = arrays.take_ids(entry, f"the ids of a push to {name!r}")
            rows = _table(part).distinct(ids)
        value = arrays.take(f"the array of a push to {name!r}")
        rule = part.rule(entry.get("rule")) if kind in GRADIENTS else None
        push = Push(part, kind, counts.get(name, 0), value, ids, rows, rule)
        push.check()
        counts[name] = push.ordinal + 1
        pushes.append(push)
    return pushes


def apply_once(pushes: Sequence[Push], closure: str | None, applied: PushLog) -> list[bool]:
    """Apply pushes, except for those of a closure that were applied before.

    Returns:
        For each whether it was applied now.
    """
    done: list[bool] = []
    for group in groups(pushes):
        done += _apply_group(group, closure, applied)
    return done


def groups(pushes: Sequence[Push]) -> Iterator[list[Push]]:
    """The pushes in order, together where they are of rows of different tables, for one formula."""
    group: list[Push] = []
    names: set[str] = set()
    for push in pushes:
        joins = group and _formula(push) and _formula(group[0]) and group[0].rule is push.rule
        if group and (not joins or push.part.name in names):
            yield group
            group, names = [], set()
        group.append(push)
        names.add(push.part.name)
    if group:
        yield group


def _formula(push: Push) -> UpdateRule | None:
    return None if push.rows is None or push.rule is None else push.rule.formula


def _apply_group(group: Sequence[Push], closure: str | None, applied: PushLog) -> list[bool]:
    with locked([push.part for push in group]):
        if closure is None:
            _apply(group)
            return [True] * len(group)
        keys = [(push.part.name, push.ordinal) for push in group]
        known = applied.which(closure, keys)
        new = [push for push, is_known in zip(group, known, strict=True) if not is_known]
        if new:
            _apply(new)
            applied.add(closure, keys)
        return [not is_known for is_known in known]


def _apply(group: Sequence[Push]) -> None:
    first = group[0]
    formula = _formula(first)
    if formula is None or first.rule is None:
        first.apply()
        return
    tables = [(cast(EmbeddingShard, push.part), push) for push in group]
    updates = [
        part.begin_update(push.ids, push.rows, push.value, first.rule)  # type: ignore[arg-type]
        for part, push in tables
    ]
    formula.update_rows(updates, float(first.rule.learning_rate))
    for part, _ in tables:
        part.count_update()


def _table(part: ServerShard) -> EmbeddingShard:
    if isinstance(part, EmbeddingShard):
        return part
    raise ShardMismatchError(
        f"Rows were pushed to the part {part.name!r}, which is no table. Push a gradient of the "
        "whole value, with the kind 'dense'."
    )


Pushes = Sequence[tuple[str, Push]]
"""Pushes with the names of their closures."""


def apply_summed(pushes: Pushes, applied: PushLog, divisor: int | None) -> None:
    """Apply pushes so that each part takes one update, with the sum of its gradients.

    Pushes that were applied before are left out.

    Args:
        pushes: in the order in which they are summed.
        applied: the pushes that were applied.
        divisor: what the sums are divided by; None for nothing.
    """
    groups: dict[tuple[str, str, str | None], list[tuple[str, Push]]] = {}
    for closure, push in pushes:
        rule = push.rule.name if push.rule else None
        groups.setdefault((push.part.name, push.kind, rule), []).append((closure, push))
    for group in groups.values():
        _sum_group(group, applied, divisor)


def _sum_group(group: Pushes, applied: PushLog, divisor: int | None) -> None:
    part = group[0][1].part
    with part.lock:
        new = [
            (closure, push)
            for closure, push in group
            if not applied.contains(closure, part.name, push.ordinal)
        ]
        if not new:
            return
        for push in _merged([push for _, push in new], divisor):
            push.apply()
        for closure, push in new:
            applied.add(closure, [(part.name, push.ordinal)])


def _merged(pushes: Sequence[Push], divisor: int | None) -> Sequence[Push]:
    first = pushes[0]
    if first.rule is None:
        return pushes
    if first.rows is None:
        total = _total(pushes)
        ids, rows = None, None
    else:
        ids, total = _total_of_rows(pushes)
        rows = type(first.rows)(ids, first.part.rows)
    if divisor is not None:
        total /= divisor
    value = memory.copied(total).astype(first.value.dtype, copy=False)
    return [dataclasses.replace(first, value=value, ids=ids, rows=rows)]


def _total(pushes: Sequence[Push]) -> np.ndarray:
    total = pushes[0].value.astype(_wide(pushes[0].value.dtype))
    for push in pushes[1:]:
        total += push.value
    return total


def _total_of_rows(pushes: Sequence[Push]) -> tuple[np.ndarray, np.ndarray]:
    given = [push.ids for push in pushes if push.ids is not None]
    ids, inverse, _ = unique_ids(np.concatenate(given, dtype=np.int64), [0, pushes[0].part.rows])
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
