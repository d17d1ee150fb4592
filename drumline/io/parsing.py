"""Parsing ``Example`` and ``SequenceExample`` messages, as ``tf.io``, in whole columns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drumline._core import ExampleParser
from drumline._memory import BufferPool
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, Structure, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.io.feature_columns import BadRecord, FeatureColumn, of_batches, of_records
from drumline.io.feature_requests import (
    Failed,
    FeatureRequest,
    Parsed,
    Parts,
    Records,
    parse,
    parser,
)
from drumline.io.features import Feature, feature_lists_of, features_of

_BLOCKS = 16
"""How many blocks' buffers are kept for later ones."""

Part = tuple[int, tuple[FeatureColumn, ...]]
"""The number of a message's field, and the features of it that are wanted."""


@dataclasses.dataclass(frozen=True)
class ParseExample(NativeOperation):
    """From a record, or a vector of records, to the values of its features.

    Attributes:
        called: the function's name, for errors.
        parts: ``Example``'s features, or ``SequenceExample``'s context and feature lists.
        batches: whether an argument is a vector of records.
        lengths: whether the lengths of a batch's lists, which are filled up, are results too.
    """

    takes_packed = True
    called: str
    parts: tuple[Part, ...]
    batches: bool
    lengths: bool = False

    @property
    def name(self) -> str:
        return f"io.{self.called}"

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @functools.cached_property
    def _columns(self) -> list[FeatureColumn]:
        return [column for _, columns in self.parts for column in columns]

    @functools.cached_property
    def _counted(self) -> list[FeatureColumn]:
        lists = self.parts[-1][1] if self.lengths else ()
        return [column for column in lists if column.padding is not None]

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        serialized, *names = arguments
        for spec in arguments:
            if not spec.is_string:
                raise TypeError(f"{self.called}: takes serialized records (bytes), not {spec}")
            if len(spec.shape) != (1 if self.batches else 0):
                wanted = "a vector of records" if self.batches else "one record"
                raise ValueError(f"{self.called}: takes {wanted}, not {spec}")
        size = serialized.shape[0] if self.batches else None
        for spec in names:
            if self.batches and None not in (size, spec.shape[0]) and spec.shape[0] != size:
                raise ValueError(f"{self.called}: {spec.shape[0]} names for {size} records")
        specs = [c.batch_spec(size) if self.batches else c.spec() for c in self._columns]
        lengths = [TensorSpec((size,), np.int64) for _ in self._counted]
        return ElementSpec(self._structure(), (*specs, *lengths))

    def _structure(self) -> Structure:
        dicts = [_dict(columns) for _, columns in self.parts]
        if self.lengths:
            dicts.append(_dict(self._counted))
        if len(dicts) == 1:
            return dicts[0]
        return Structure("tuple", tuple, (), tuple(dicts))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        serialized, *names = columns
        records: Any
        records, ends, size = (
            _flat(serialized) if self.batches else (serialized, np.arange(n + 1), 1)
        )
        parsed, failed = parse(self._parser, self._wanted, records, self._pool)
        values: list[Any] = []
        while len(values) < len(self._columns):
            try:
                values = self._values(parsed)
            except BadRecord as bad:
                parsed = [column.first(bad.row) for column in parsed]
                failed = Failed(bad.row, None, None, None, f"feature {bad.feature!r}: {bad}")
        good = n if failed is None else int(np.searchsorted(ends, failed.row, "right")) - 1
        results = self._results(values, ends[: good + 1], size)
        if failed is None:
            return OperationResult(results)
        return OperationResult(
            results, self._error(failed, good, failed.row - int(ends[good]), names)
        )

    @functools.cached_property
    def _wanted(self) -> Parts:
        return tuple(
            (field, tuple(wanted for column in columns for wanted in column.wanted))
            for field, columns in self.parts
        )

    @functools.cached_property
    def _parser(self) -> ExampleParser:
        return parser(self._wanted)

    @functools.cached_property
    def _pool(self) -> BufferPool:
        """As many buffers of a size as there may be columns of it, in several blocks."""
        return BufferPool(_BLOCKS * len(self._columns))

    def _values(self, parsed: Sequence[Parsed]) -> list[Any]:
        rest = iter(parsed)
        return [c.records([next(rest) for _ in c.wanted]) for c in self._columns]

    def _results(self, values: Sequence[Any], ends: np.ndarray, size: int | None) -> list[Column]:
        count = int(ends[-1])
        values = [value[:count] for value in values]
        pairs = list(zip(self._columns, values, strict=True))
        if not self.batches:
            return [of_records(value) for value in values]
        results = [of_batches(value, ends, size, column.padding) for column, value in pairs]
        counted = [value for column, value in pairs if column in self._counted]
        lengths = [of_batches(v.row_lengths(), ends, size) for v in counted]
        return results + lengths

    def _error(self, failed: Failed, row: int, record: int, names: Sequence[Column]) -> Exception:
        where = [f"{self.called}:"]
        if self.batches:
            where.append(f"record {record}:")
        if names:
            name = names[0][row][record] if self.batches else names[0][row]
            where.append(f"{name!r:.200}:")
        if failed.column is not None:
            wanted = [w for _, every in self._wanted for w in every][failed.column]
            end = ":" if failed.offset is None else ","
            where.append(_feature(wanted, failed.frame) + end)
        if failed.offset is not None:
            where.append(f"at byte {failed.offset}:")
        return ValueError(" ".join([*where, failed.message]))


def _feature(wanted: FeatureRequest, frame: int | None) -> str:
    if "frames" not in wanted.form:
        return f"feature {wanted.key!r}"
    return f"feature list {wanted.key!r}" + ("" if frame is None else f", frame {frame}")


def _dict(columns: Sequence[FeatureColumn]) -> Structure:
    names = tuple(column.name for column in columns)
    return Structure("dict", dict, names, (LEAF_STRUCTURE,) * len(names))


def _flat(batches: Any) -> tuple[Records, np.ndarray, int | None]:
    """All records, where batches end, and the size of all batches if it is the same."""
    if isinstance(batches, RaggedArray):
        return np.asarray(batches.values), batches.row_splits, None
    n, size = batches.shape
    return batches.reshape(n * size), np.arange(n + 1, dtype=np.int64) * size, size


_FEATURES, _CONTEXT, _FEATURE_LISTS = 1, 1, 2


def parse_example(
    serialized: Any,
    features: Mapping[str, Feature],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """The features of a vector of serialized ``Example`` messages, as ``tf.io.parse_example``.

    Args:
        serialized: ``bytes`` (n,); a single one is parsed as by ``parse_single_example``.
        features: what to have, by the features' names: ``FixedLenFeature``, ``VarLenFeature``,
            ``FixedLenSequenceFeature``, ``RaggedFeature``.
        example_names: strings (n,) by which errors call the records.

    Returns:
        For each feature, in the order of `features`: an array ``(n, *shape)``; ``(n, longest,
        *shape)`` of a ``FixedLenSequenceFeature``; a ``RaggedArray`` of n rows of the others.

    Raises:
        TypeError: a description is none of the above, or `serialized` are no bytes.
        ValueError: a record is damaged, lacks a feature, or holds it in another form; the message
            names the feature and the byte.
    """
    return _parsed("parse_example", serialized, features, example_names)


def parse_single_example(
    serialized: Any,
    features: Mapping[str, Feature],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """The features of one serialized ``Example`` message, as ``tf.io.parse_single_example``.

    Args:
        serialized: ``bytes``.
        features: as of ``parse_example``.
        example_names: a string by which errors call the record.

    Returns:
        For each feature: an array of its shape; ``(None, *shape)`` of a
        ``FixedLenSequenceFeature``; ``(None,)`` of a ``VarLenFeature`` and of a ``RaggedFeature``
        without partitions; else a ``RaggedArray``.

    Raises:
        TypeError, ValueError: as ``parse_example``.
    """
    return _parsed("parse_single_example", serialized, features, example_names, single=True)


def _parsed(
    called: str, serialized: Any, features: Any, names: Any, single: bool = False
) -> dict[str, Any]:
    if not features:
        raise ValueError(f"{called}: features says what to have of the records; it is {features!r}")
    parts = ((_FEATURES, features_of(features, called)),)
    operation = ParseExample(called, parts, not single and _is_vector(serialized))
    result: dict[str, Any] = apply(operation, *_arguments(serialized, names))
    return result


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Feature] | None = None,
    sequence_features: Mapping[str, Feature] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The context and lists of ``SequenceExample`` messages, as ``tf.io.parse_sequence_example``.

    Args:
        serialized: ``bytes`` (n,).
        context_features: what to have of the contexts: as ``features`` of ``parse_example``, but
            without ``FixedLenSequenceFeature``.
        sequence_features: what to have of the lists of frames: ``FixedLenSequenceFeature``,
            ``VarLenFeature``, ``RaggedFeature`` without partitions.
        example_names: strings (n,) by which errors call the records.

    Returns:
        Three dicts: the context's values; those of the lists, an array ``(n, longest, *shape)`` of
        a ``FixedLenSequenceFeature`` and a ``RaggedArray`` ``(n, None, None)`` of the others; the
        number of frames, int64 (n,), of each ``FixedLenSequenceFeature``.

    Raises:
        TypeError, ValueError: as ``parse_example``.
    """
    called = "parse_sequence_example"
    parts = _sequence_parts(called, context_features, sequence_features)
    operation = ParseExample(called, parts, batches=True, lengths=True)
    result: tuple[dict[str, Any], ...] = apply(operation, *_arguments(serialized, example_names))
    return result[0], result[1], result[2]


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Feature] | None = None,
    sequence_features: Mapping[str, Feature] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The context and lists of one ``SequenceExample``, as ``tf.io.parse_single_sequence_example``.

    Args:
        serialized: ``bytes``.
        context_features, sequence_features: as of ``parse_sequence_example``.
        example_name: a string by which errors call the record.

    Returns:
        Two dicts: the context's values, as of ``parse_single_example``; those of the lists, an
        array ``(None, *shape)`` of a ``FixedLenSequenceFeature``, a ``RaggedArray`` of frames of
        the others.

    Raises:
        TypeError, ValueError: as ``parse_example``.
    """
    called = "parse_single_sequence_example"
    parts = _sequence_parts(called, context_features, sequence_features)
    operation = ParseExample(called, parts, batches=False)
    result: tuple[dict[str, Any], ...] = apply(operation, *_arguments(serialized, example_name))
    return result[0], result[1]


def _sequence_parts(called: str, context: Any, lists: Any) -> tuple[Any, ...]:
    if not context and not lists:
        raise ValueError(f"{called}: give context_features, sequence_features or both")
    columns = features_of(context or {}, called)
    for column in columns:
        if column.padding is not None:
            raise ValueError(
                f"{called}: feature {column.name!r} of the context is a FixedLenSequenceFeature, "
                "which describes lists; use VarLenFeature"
            )
    return (_CONTEXT, columns), (_FEATURE_LISTS, feature_lists_of(lists or {}, called))


def _arguments(serialized: Any, names: Any) -> list[Any]:
    return [serialized] if names is None else [serialized, names]


def _is_vector(serialized: Any) -> bool:
    """Whether it is no single record."""
    return not isinstance(serialized, bytes | str) and getattr(serialized, "shape", None) != ()
