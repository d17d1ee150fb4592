"""From parsed columns to the values that a feature's description promises.

Ragged features are cut into rows as the partitions of ``RaggedFeature`` say.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, splits_of
from drumline.data.elements.spec import STRING, TensorSpec
from drumline.io.feature_requests import FeatureRequest, Parsed

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
    wanted: FeatureRequest | None
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


Records = np.ndarray | RaggedArray
"""Values of many records: an array (n, ...), or rows of different lengths."""


class FeatureColumn(abc.ABC):
    """One feature of the result; subclasses are frozen dataclasses.

    Attributes:
        name: in the result.
    """

    name: str

    @property
    @abc.abstractmethod
    def wanted(self) -> tuple[FeatureRequest, ...]:
        """The parsed columns that it is made of, that of the values first."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int | None, ...]:
        """Of one record's value; ``None`` for dimensions that vary."""

    @property
    def padding(self) -> Any:
        """What records of a batch are filled up with; ``None`` if they stay ragged."""
        return None

    @abc.abstractmethod
    def records(self, parsed: Sequence[Parsed]) -> Records:
        """The values of the records.

        Raises:
            BadRecord: one of them does not fit the description.
        """

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return self.wanted[0].dtype

    def spec(self) -> TensorSpec:
        """Of one record's value."""
        levels = self.shape.count(None)
        if levels <= 1:
            return TensorSpec(self.shape, self.dtype)
        return RaggedTensorSpec(self.shape, self.dtype, levels - 1)

    def batch_spec(self, size: int | None) -> TensorSpec:
        """Of the value of a vector of `size` records."""
        levels = self.shape.count(None)
        if levels == 0 or self.padding is not None:
            return TensorSpec((size, *self.shape), self.dtype)
        return RaggedTensorSpec((size, *self.shape), self.dtype, levels)


@dataclasses.dataclass(frozen=True)
class FixedColumn(FeatureColumn):
    """As many values in every record."""

    name: str
    values: FeatureRequest
    item: tuple[int, ...]

    @property
    def wanted(self) -> tuple[FeatureRequest, ...]:
        return (self.values,)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return self.item

    def records(self, parsed: Sequence[Parsed]) -> Records:
        return parsed[0].values.reshape(parsed[0].count, *self.item)


@dataclasses.dataclass(frozen=True)
class VaryingColumn(FeatureColumn):
    """Any number of items in a record, or of frames in its list."""

    name: str
    values: FeatureRequest
    item: tuple[int, ...] = ()
    filler: float | int | bytes | None = None

    @property
    def wanted(self) -> tuple[FeatureRequest, ...]:
        return (self.values,)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (None, *self.item)

    @property
    def padding(self) -> Any:
        return self.filler

    def records(self, parsed: Sequence[Parsed]) -> Records:
        assert parsed[0].rows is not None
        return RaggedArray._view(_items(parsed[0].values, self.item), parsed[0].rows)


@dataclasses.dataclass(frozen=True)
class RaggedFramesColumn(FeatureColumn):
    """A list of frames in a record, with any number of values in each."""

    name: str
    values: FeatureRequest

    @property
    def wanted(self) -> tuple[FeatureRequest, ...]:
        return (self.values,)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (None, None)

    def records(self, parsed: Sequence[Parsed]) -> Records:
        rows, frames = parsed[0].rows, parsed[0].frames
        assert rows is not None and frames is not None
        return RaggedArray._view(RaggedArray._view(parsed[0].values, frames), rows)


@dataclasses.dataclass(frozen=True)
class PartitionedColumn(FeatureColumn):
    """Values that are cut into rows of items, these perhaps into rows again."""

    name: str
    values: FeatureRequest
    item: tuple[int, ...]
    cuts: tuple[Cut, ...]

    @property
    def wanted(self) -> tuple[FeatureRequest, ...]:
        return (self.values, *(cut.wanted for cut in self.cuts if cut.wanted is not None))

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (None,) * (len(self.cuts) + 1) + self.item

    def records(self, parsed: Sequence[Parsed]) -> Records:
        values, others = parsed[0], iter(parsed[1:])
        assert values.rows is not None
        items: Any = _items(values.values, self.item)
        counts = np.diff(values.rows)
        for cut in reversed(self.cuts_with(others)):
            items, counts = cut_into_rows(self.name, cut, items, counts)
        return RaggedArray.from_row_lengths(items, counts)

    def cuts_with(self, parsed: Any) -> list[tuple[Cut, Parsed | None]]:
        """The cuts with the columns that say where, outermost first."""
        return [(cut, None if cut.wanted is None else next(parsed)) for cut in self.cuts]


def _items(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return values.reshape(len(values) // math.prod(shape), *shape) if shape else values


def of_records(records: Records) -> Any:
    """A column with a value for each record."""
    if isinstance(records, RaggedArray) and records.ragged_rank > 1:
        return _objects(records)
    return records


def of_batches(records: Records, ends: np.ndarray, size: int | None, padding: Any = None) -> Any:
    """A column with a value for each batch.

    Args:
        records: the values of all records.
        ends: where batches end, int64 (batches + 1,).
        size: of every batch, if it is the same.
        padding: what ragged records are filled up with, if they are.
    """
    if not isinstance(records, RaggedArray):
        if size is None:
            return RaggedArray._view(records, ends)
        return records.reshape(len(ends) - 1, size, *records.shape[1:])
    batches = [records[a:b] for a, b in itertools.pairwise(ends.tolist())]
    if padding is None:
        return _objects(batches)
    return [batch.to_tensor(padding) for batch in batches]


def _objects(rows: Any) -> np.ndarray:
    column = np.empty(len(rows), STRING)
    for i, row in enumerate(rows):
        column[i] = row
    return column
