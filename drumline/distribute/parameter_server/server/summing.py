"""Applying the pushes of several closures as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from drumline._core import unique_ids
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.applied import AppliedPushes
from drumline.distribute.parameter_server.server.push import Push

Pushes = Sequence[tuple[str, Push]]
"""Pushes with the names of their closures."""


def apply_summed(pushes: Pushes, applied: AppliedPushes, divisor: int | None) -> None:
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
        _apply_group(group, applied, divisor)


def _apply_group(group: Pushes, applied: AppliedPushes, divisor: int | None) -> None:
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
