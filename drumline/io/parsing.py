"""``tf.io``'s functions that parse serialized ``Example`` and ``SequenceExample`` messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drumline.data.native.apply import apply
from drumline.io.examples.describe import feature_lists_of, features_of
from drumline.io.examples.operation import ParseExample
from drumline.io.features import Feature

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
