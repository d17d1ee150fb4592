"""From parsed columns to the values that a feature's description promises."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.ragged import RaggedArray
from drumline.data.ragged_spec import RaggedTensorSpec
from drumline.data.spec import STRING, TensorSpec
from drumline.io.examples.partitions import Cut, cut_into_rows
from drumline.io.feature_requests import Parsed, Wanted

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
    def wanted(self) -> tuple[Wanted, ...]:
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
    values: Wanted
    item: tuple[int, ...]

    @property
    def wanted(self) -> tuple[Wanted, ...]:
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
    values: Wanted
    item: tuple[int, ...] = ()
    filler: float | int | bytes | None = None

    @property
    def wanted(self) -> tuple[Wanted, ...]:
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
    values: Wanted

    @property
    def wanted(self) -> tuple[Wanted, ...]:
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
    values: Wanted
    item: tuple[int, ...]
    cuts: tuple[Cut, ...]

    @property
    def wanted(self) -> tuple[Wanted, ...]:
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
