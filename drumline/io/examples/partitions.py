"""Cutting a record's values into rows, as ``RaggedFeature``'s partitions say."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, splits_of
from drumline.io.examples.wanted import Parsed, Wanted

_MOST_ROWS = 1 << 24


class BadRecord(Exception):
    """A record that does not fit a feature's description.

    Attributes:
        row: its position.
        feature: the feature's name.
        message: what is wrong.
    """

    def __init__(self, row: int, feature: str, message: str):
        super().__init__(message)
        self.row = row
        self.feature = feature
        self.message = message


@dataclasses.dataclass(frozen=True)
class Cut:
    """A level of rows.

    Attributes:
        kind: ``"RowSplits"``, ``"RowLengths"``, ``"RowStarts"``, ``"RowLimits"``,
            ``"ValueRowIds"`` or ``"UniformRowLength"``.
        wanted: the column of integers that says where; not for the last kind.
        length: of rows of the last kind.
    """

    kind: str
    wanted: Wanted | None
    length: int = 0


def cut_into_rows(
    feature: str, cut: tuple[Cut, Parsed | None], items: Any, counts: np.ndarray
) -> tuple[RaggedArray, np.ndarray]:
    """Items of which each record has `counts` (n,) as rows, and how many rows each record has.

    Raises:
        BadRecord: a record's rows do not hold all of its items, each once.
    """
    how, said = cut
    if said is None:
        lengths, rows = _uniform(feature, how.length, counts)
    else:
        assert said.rows is not None
        lengths, rows = _BY_KIND[how.kind](feature, said.values, np.diff(said.rows), counts)
        _check(feature, how, lengths, rows, counts)
    return RaggedArray(items, splits_of(lengths)), rows


def _uniform(feature: str, length: int, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if (bad := np.flatnonzero(counts % length)).size:
        message = f"it holds {counts[bad[0]]} values, not a multiple of UniformRowLength({length})"
        raise BadRecord(int(bad[0]), feature, message)
    rows = counts // length
    return np.full(int(rows.sum()), length, np.int64), rows


def _from_lengths(
    feature: str, said: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return said, sizes


def _from_splits(
    feature: str, said: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    starts = splits_of(sizes)[:-1][sizes > 0]
    _check_zero(feature, "RowSplits", said, starts, sizes)
    lengths = np.delete(np.diff(said, prepend=0), starts)
    return lengths, np.maximum(sizes - 1, 0)


def _from_starts(
    feature: str, said: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    starts = splits_of(sizes)[:-1][sizes > 0]
    _check_zero(feature, "RowStarts", said, starts, sizes)
    ends = np.append(said, 0)[1:]
    ends[splits_of(sizes)[1:][sizes > 0] - 1] = counts[sizes > 0]
    return ends - said, sizes


def _from_limits(
    feature: str, said: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.diff(said, prepend=0)
    starts = splits_of(sizes)[:-1][sizes > 0]
    lengths[starts] = said[starts]
    return lengths, sizes


def _from_ids(
    feature: str, said: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    records = np.repeat(np.arange(len(sizes)), sizes)
    starts = splits_of(sizes)[:-1][sizes > 0]
    steps = np.diff(said, prepend=0)
    steps[starts] = said[starts]
    bad = np.flatnonzero((steps < 0) | (said < 0) | (said >= _MOST_ROWS))
    if bad.size:
        message = f"its ValueRowIds do not rise from 0 or more to below {_MOST_ROWS}"
        raise BadRecord(int(records[bad[0]]), feature, message)
    if (differ := np.flatnonzero(sizes != counts)).size:
        row = int(differ[0])
        message = f"it has {sizes[row]} ValueRowIds for {counts[row]} values"
        raise BadRecord(row, feature, message)
    rows = np.zeros(len(sizes), np.int64)
    rows[sizes > 0] = said[splits_of(sizes)[1:][sizes > 0] - 1] + 1
    total = int(rows.sum())
    return np.bincount(said + splits_of(rows)[:-1][records], minlength=total), rows


_BY_KIND = {
    "RowLengths": _from_lengths,
    "RowSplits": _from_splits,
    "RowStarts": _from_starts,
    "RowLimits": _from_limits,
    "ValueRowIds": _from_ids,
}


def _check_zero(
    feature: str, kind: str, said: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> None:
    if (bad := np.flatnonzero(said[starts])).size:
        row = int(np.flatnonzero(sizes > 0)[bad[0]])
        raise BadRecord(row, feature, f"its {kind} begin with {said[starts[bad[0]]]}, not with 0")


def _check(
    feature: str, cut: Cut, lengths: np.ndarray, rows: np.ndarray, counts: np.ndarray
) -> None:
    most = np.repeat(counts, rows)
    wrong = np.flatnonzero((lengths < 0) | (lengths > most))
    ends = splits_of(np.clip(lengths, 0, most))[splits_of(rows)]
    bad = np.diff(ends) != counts
    bad[np.repeat(np.arange(len(rows)), rows)[wrong]] = True
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        of = cut.wanted.key if cut.wanted is not None else ""
        message = f"the {cut.kind} in feature {of!r} do not cut its {counts[row]} values into rows"
        raise BadRecord(row, feature, message)
