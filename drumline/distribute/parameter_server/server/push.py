"""Changes of parts, checked before any is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from drumline._core import DistinctRows, UpdateRule
from drumline.distribute.parameter_server.server.applied import AppliedPushes
from drumline.distribute.parameter_server.server.optimizer_updates import Rule
from drumline.distribute.parameter_server.server.requests import (
    Arrays,
    PartMismatchError,
    RequestError,
    RuleMismatchError,
    field,
)
from drumline.distribute.parameter_server.server.shard import Part, locked
from drumline.distribute.parameter_server.server.shards import Parts
from drumline.distribute.parameter_server.server.table_shard import TablePart

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

    part: Part
    kind: str
    ordinal: int
    value: np.ndarray
    ids: np.ndarray | None = None
    rows: DistinctRows | None = None
    rule: Rule | None = None

    def check(self) -> None:
        """Make sure that it can be applied.

        Raises:
            PartMismatchError: if its shape or dtype is not the part's.
            RuleMismatchError: if it is of rows, and the rule is not.
            UnknownRuleError: if the rule has no learning rate.
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
            raise RuleMismatchError(
                f"Rows were pushed to the part {self.part.name!r} for the rule "
                f"{self.rule.name!r}, which updates whole values. Attach a sparse one."
            )

    def apply(self) -> None:
        """Change the part, whose lock is held."""
        part = self.part
        rule, ids, rows = self.rule, self.ids, self.rows
        if isinstance(part, TablePart) and not (rule is None or ids is None or rows is None):
            part.update_rows(ids, rows, self.value, rule)
        elif rule is not None:
            part.update(self.value, rule)
        elif self.kind == "add":
            part.add(self.value)
        else:
            part.write(0, part.rows, self.value)


def pushes_of(header: dict[str, Any], arrays: Arrays, parts: Parts) -> list[Push]:
    """The pushes of a request, all of which can be applied.

    Raises:
        RequestError: if it is not well formed.
        UnknownPartError, RuleMismatchError, PartMismatchError, RowIndexError, RepeatedRowError,
            UnknownRuleError: if one cannot be applied.
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


def apply_once(pushes: Sequence[Push], closure: str | None, applied: AppliedPushes) -> list[bool]:
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


def _apply_group(group: Sequence[Push], closure: str | None, applied: AppliedPushes) -> list[bool]:
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
    tables = [(cast(TablePart, push.part), push) for push in group]
    updates = [
        part.begin_update(push.ids, push.rows, push.value, first.rule)  # type: ignore[arg-type]
        for part, push in tables
    ]
    formula.update_rows(updates, float(first.rule.learning_rate))
    for part, _ in tables:
        part.count_update()


def _table(part: Part) -> TablePart:
    if isinstance(part, TablePart):
        return part
    raise PartMismatchError(
        f"Rows were pushed to the part {part.name!r}, which is no table. Push a gradient of the "
        "whole value, with the kind 'dense'."
    )
