"""``Example`` messages to the values of features, in whole columns."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import ExampleParser
from drumline._memory import BufferPool
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, objects, splits_of
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, flatten
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.datasets.features.connector import (
    BadItemError,
    FeatureConnector,
    FeatureError,
    Flat,
    LeafFeature,
    SerializedSpec,
)
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature
from drumline.datasets.features.json_format import feature_from_json, feature_to_json
from drumline.datasets.features.stored_values import Lengths, joined
from drumline.io.feature_requests import Failed, FeatureRequest, Parsed, Parts, parse, parser

_FEATURES = 1
_BLOCKS = 16


class BadRecordError(ValueError):
    """A record whose values cannot be those of its feature.

    Attributes:
        row: its number.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


@dataclasses.dataclass(frozen=True)
class LeafColumn:
    """A leaf of an example, read from its parts in ``Example`` messages.

    Attributes:
        path: of the leaf.
        leaf: what decodes it; ``None``: the part is given as it is stored.
        parts: what is stored, by what follows the path.
        lengths: of the sequences around it.
    """

    path: str
    leaf: LeafFeature | None
    parts: tuple[tuple[str, SerializedSpec], ...]
    lengths: Lengths

    def spec(self) -> TensorSpec:
        """Of a value."""
        leaf, stored = self.leaf, self.parts[0][1]
        shape, dtype = (stored.shape, stored.dtype) if leaf is None else (leaf.shape, leaf.dtype)
        if len(self.lengths) < 2:
            return TensorSpec((*self.lengths, *shape), dtype)
        rank = len(self.lengths)
        return RaggedTensorSpec((*[None] * rank, *shape), dtype, rank - 1)

    @property
    def is_costly(self) -> bool:
        """Whether bytes are decoded, as of pictures, sound and compressed arrays."""
        if self.leaf is None or self.leaf.dtype == STRING:
            return False
        return any(spec.dtype == STRING for _, spec in self.parts)

    @functools.cached_property
    def requests(self) -> list[FeatureRequest]:
        """What to parse."""
        return [request for suffix, spec in self.parts for request in self._of(suffix, spec)]

    def _of(self, suffix: str, spec: SerializedSpec) -> list[FeatureRequest]:
        key, rank = joined(self.path, suffix), len(self.lengths)
        whole = (*self.lengths, *spec.shape)
        varying = whole.count(None)
        if rank < 2:
            if varying > 1:
                raise FeatureError(
                    f"feature {key!r}: the shape {whole} varies in several dimensions, of which "
                    "an Example says nothing"
                )
            count = SerializedSpec(whole, spec.dtype).count
            if varying:
                return [FeatureRequest(key, spec.kind, "varying", count)]
            default = None if spec.default is None else (spec.default,) * count
            return [FeatureRequest(key, spec.kind, "fixed", count, default)]
        if None in spec.shape:
            raise FeatureError(f"feature {key!r}: sequences of sequences hold no {spec.shape}")
        rows = [f"{key}/ragged_row_lengths_{depth}" for depth in range(rank - 1)]
        return [
            *(FeatureRequest(row, "int64", "varying") for row in rows),
            FeatureRequest(f"{key}/ragged_flat_values", spec.kind, "varying", spec.count),
        ]

    def column(self, parsed: Sequence[Parsed]) -> Column:
        """Return the values of all records that were parsed.

        Raises:
            BadRecordError: one of them cannot be decoded.
        """
        n = parsed[0].count
        if len(self.lengths) < 2 and None in self.parts[0][1].shape:
            return self._varying(parsed[0])
        found: dict[str, np.ndarray] = {}
        splits: list[np.ndarray] = []
        rest = iter(parsed)
        for suffix, spec in self.parts:
            some = [next(rest) for _ in self._of(suffix, spec)]
            found[suffix], here = self._items(some, spec)
            if splits and any((a != b).any() for a, b in zip(splits, here, strict=True)):
                raise BadRecordError(0, "its parts are of different lengths")
            splits = here
        total = len(found[self.parts[0][0]])
        try:
            items: Flat = self._decode(found, total)
        except BadItemError as error:
            raise BadRecordError(_record(error.item, splits, n), str(error)) from None
        return _nested(items, splits, self.lengths, self.spec())

    def _decode(self, found: dict[str, np.ndarray], total: int) -> Flat:
        if self.leaf is not None:
            return self.leaf.decode(found, total)
        suffix, spec = self.parts[0]
        return found[suffix].astype(spec.dtype, copy=False)

    def _varying(self, parsed: Parsed) -> Column:
        """Return values of which one dimension varies."""
        spec = self.spec()
        values = parsed.values.astype(spec.dtype, copy=False)
        assert parsed.rows is not None
        inner = [dim for dim in spec.shape if dim is not None]
        if spec.shape[0] is None:
            return RaggedArray(values.reshape(-1, *inner), parsed.rows)
        width = int(np.prod(inner, dtype=np.int64))
        edges = (parsed.rows * width).tolist()
        shape = [-1 if dim is None else dim for dim in spec.shape]
        return [values[a:b].reshape(shape) for a, b in itertools.pairwise(edges)]

    def _items(
        self, parsed: Sequence[Parsed], spec: SerializedSpec
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the items of all records, and where those of each level end."""
        last = parsed[-1]
        values = last.values.reshape(-1, *spec.shape)
        if not self.lengths:
            return values, []
        if len(self.lengths) == 1:
            rows = last.rows
            if rows is None:
                rows = np.arange(last.count + 1, dtype=np.int64) * (self.lengths[0] or 0)
            return values, [rows]
        outer = parsed[0].rows
        assert outer is not None
        splits = [outer]
        for level, after in itertools.pairwise(parsed):
            assert level.rows is not None and after.rows is not None
            lengths = level.values
            ends = splits_of(np.maximum(lengths, 0))
            wrong = ends[level.rows] != after.rows
            if len(lengths) and lengths.min() < 0:
                wrong[1:] |= np.add.reduceat(np.append(lengths < 0, False), level.rows[:-1]) > 0
            if wrong.any():
                row = max(int(np.flatnonzero(wrong)[0]) - 1, 0)
                raise BadRecordError(row, "the stored lengths of rows are not those of the values")
            splits.append(ends)
        return values, splits


def _record(item: int, splits: Sequence[np.ndarray], n: int) -> int:
    """Return the number of the record that an item belongs to."""
    for ends in reversed(splits):
        item = int(np.searchsorted(ends, item, "right")) - 1
    return min(item, n - 1)


def _stacked(rows: Sequence[np.ndarray], spec: TensorSpec, number: int) -> np.ndarray:
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise BadRecordError(
            number, f"the values of a sequence are of different shapes: {sorted(shapes)}"
        )
    if rows:
        return np.stack(rows)
    inner = spec.shape[1:] if type(spec) is TensorSpec else spec.shape[spec.ragged_rank + 1 :]  # type: ignore[attr-defined]
    return np.empty((0, *[dim or 0 for dim in inner]), spec.dtype)


def _nested(
    items: Flat, splits: Sequence[np.ndarray], lengths: Lengths, spec: TensorSpec
) -> Column:
    """Return items as a column of the sequences that they make."""
    if not lengths:
        return items if isinstance(items, np.ndarray) else _by_row(items, spec)
    if len(lengths) == 1:
        outer = splits[0]
        if isinstance(items, np.ndarray):
            if lengths[0] is not None:
                return items.reshape(len(outer) - 1, lengths[0], *items.shape[1:])
            return RaggedArray(items, outer)
        edges = outer.tolist()
        pairs = enumerate(itertools.pairwise(edges))
        return [_stacked(items[a:b], spec, i) for i, (a, b) in pairs]
    return _ragged(items, splits, spec)


def _ragged(items: Flat, splits: Sequence[np.ndarray], spec: TensorSpec) -> np.ndarray:
    ends = splits[0]
    for inner in splits[1:]:
        ends = inner[ends]
    edges, tops = ends.tolist(), splits[0].tolist()
    if isinstance(items, np.ndarray):
        whole: Any = items
        for inner in reversed(splits[1:]):
            whole = RaggedArray(whole, inner)
        return objects([whole[a:b] for a, b in itertools.pairwise(tops)])
    rows = []
    for i in range(len(tops) - 1):
        nested: Any = _stacked(items[edges[i] : edges[i + 1]], spec, i)
        first, last = tops[i], tops[i + 1]
        levels = []
        for inner in splits[1:]:
            levels.append(inner[first : last + 1] - inner[first])
            first, last = int(inner[first]), int(inner[last])
        for level in reversed(levels):
            nested = RaggedArray(nested, level)
        rows.append(nested)
    return objects(rows)


def _by_row(items: list[np.ndarray], spec: TensorSpec) -> Column:
    if None in spec.shape[1:]:
        return items
    if not items:
        return RaggedArray(np.empty((0, *spec.shape[1:]), spec.dtype), np.zeros(1, np.int64))
    return RaggedArray.from_row_lengths(np.concatenate(items), [len(row) for row in items])


@dataclasses.dataclass(frozen=True)
class DecodeExamples(NativeOperation):
    """From a record to the values of its features.

    Attributes:
        features: as JSON.
        stored: the paths of leaves that are given as they are stored.
        supervised: the names of the parts of a tuple, nested in lists and objects, as JSON; empty:
            all features, in a dictionary.
        called: the name of the dataset, for errors.
    """

    takes_packed = True
    features: str
    stored: tuple[str, ...] = ()
    supervised: str = ""
    called: str = "dataset"

    @classmethod
    def of(cls, features: FeatureConnector, **others: Any) -> DecodeExamples:
        """Return the operation for features."""
        return cls(json.dumps(feature_to_json(features), sort_keys=True), **others)

    @property
    def name(self) -> str:
        return f"datasets.decode({self.called})"

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @functools.cached_property
    def _tree(self) -> Any:
        tree = self._columns_of(feature_from_json(json.loads(self.features)), "", ())
        return _chosen(tree, json.loads(self.supervised)) if self.supervised else tree

    def _columns_of(self, feature: FeatureConnector, path: str, lengths: Lengths) -> Any:
        if isinstance(feature, FeaturesDict):
            items = sorted(feature.items())
            return {k: self._columns_of(v, joined(path, k), lengths) for k, v in items}
        if isinstance(feature, SequenceFeature):
            return self._columns_of(feature.feature, path, (*lengths, feature.length))
        assert isinstance(feature, LeafFeature)
        parts = tuple(feature.serialized.items())
        if path not in self.stored:
            return LeafColumn(path, feature, parts, lengths)
        made = {part[0]: LeafColumn(path, None, (part,), lengths) for part in parts}
        return made.get("", made)

    @functools.cached_property
    def columns(self) -> list[LeafColumn]:
        """The leaves, in order."""
        return flatten(self._tree)[0]

    @property
    def is_costly(self) -> bool:
        """Whether more is done than to find the values in records."""
        return any(column.is_costly for column in self.columns)

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (record,) = arguments
        if record.dtype != STRING or record.shape != ():
            raise TypeError(f"{self.name}: takes records (bytes), not {record}")
        structure = flatten(self._tree)[1]
        return ElementSpec(structure, tuple(column.spec() for column in self.columns))

    @functools.cached_property
    def _parts(self) -> Parts:
        requests = tuple(request for column in self.columns for request in column.requests)
        return ((_FEATURES, requests),)

    @functools.cached_property
    def _parser(self) -> ExampleParser:
        return parser(self._parts)

    @functools.cached_property
    def _pool(self) -> BufferPool:
        return BufferPool(_BLOCKS * len(self._parts[0][1]))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Parses on all cores, then decodes a column after the other."""
        parsed, failed = parse(self._parser, self._parts, columns[0], self._pool)  # type: ignore[arg-type]
        error = None if failed is None else self._error(failed)
        while True:
            made: list[Column] = []
            rest = iter(parsed)
            try:
                made.extend(
                    column.column([next(rest) for _ in column.requests]) for column in self.columns
                )
            except BadRecordError as bad:
                where = self.columns[len(made)].path
                error = ValueError(f"{self.name}: feature {where!r}: {bad}")
                parsed = [each.first(bad.row) for each in parsed]
                continue
            return OperationResult(made, error)

    def _error(self, failed: Failed) -> Exception:
        where = self.name
        if failed.column is not None:
            where += f": feature {self._parts[0][1][failed.column].key!r}"
        if failed.offset is not None:
            where += f", at byte {failed.offset} of the record"
        return ValueError(f"{where}: {failed.message}")


def _chosen(tree: Any, wanted: Any) -> Any:
    """Return parts of a tree in the structure of their names; lists stand for tuples."""
    if isinstance(wanted, list):
        return tuple(_chosen(tree, each) for each in wanted)
    if isinstance(wanted, dict):
        return {key: _chosen(tree, each) for key, each in wanted.items()}
    if wanted not in tree:
        raise FeatureError(f"there is no feature {wanted!r}; there are {', '.join(tree)}")
    return tree[wanted]
