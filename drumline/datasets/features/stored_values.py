"""Examples to the bytes of ``Example`` messages, as TFDS stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from drumline._core import list_message, message_field
from drumline.datasets.features.connector import (
    FeatureConnector,
    FeatureError,
    LeafFeature,
    SerializedSpec,
)
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature

_LIST_FIELDS = {"string": 1, "float32": 2, "int64": 3}
_FEATURES, _FEATURE, _KEY, _VALUE, _LIST = 1, 1, 1, 2, 1

Lengths = tuple[int | None, ...]
"""Of the sequences around a feature, from the outermost; ``None`` for those that vary."""


def leaves(
    feature: FeatureConnector, path: str = "", lengths: Lengths = ()
) -> Iterator[tuple[str, LeafFeature, Lengths]]:
    """Yield the leaves of a feature: the path, the leaf, the sequences around it."""
    if isinstance(feature, FeaturesDict):
        for name, each in feature.items():
            yield from leaves(each, joined(path, name), lengths)
    elif isinstance(feature, SequenceFeature):
        yield from leaves(feature.feature, path, (*lengths, feature.length))
    else:
        assert isinstance(feature, LeafFeature)
        yield path, feature, lengths


def joined(path: str, name: str) -> str:
    """Return the path of what has a name inside of another; one of them may be empty."""
    return f"{path}/{name}" if path and name else path or name


class ExampleEncoder:
    """Makes ``Example`` messages of examples.

    Args:
        features: of an example.
    """

    def __init__(self, features: FeatureConnector) -> None:
        self._features = features
        self._parts: dict[str, tuple[SerializedSpec, Lengths]] = {
            joined(path, suffix): (spec, lengths)
            for path, leaf, lengths in leaves(features)
            for suffix, spec in leaf.serialized.items()
        }

    def encode(self, example: Any) -> bytes:
        """Return an example's message.

        Args:
            example: a value for each feature, in their structure.

        Raises:
            FeatureError: a value does not fit its feature, which is named.
            OSError: a file that is named cannot be read.
        """
        stored = self._stored(self._features, example, "")
        entries: list[bytes] = []
        for key in sorted(self._parts):
            if key in stored:
                spec, lengths = self._parts[key]
                try:
                    entries += _entries(key, stored[key], spec, lengths)
                except FeatureError as error:
                    raise FeatureError(f"feature {key!r}: {error}") from None
        return message_field(_FEATURES, b"".join(entries))

    def _stored(self, feature: FeatureConnector, value: Any, path: str) -> dict[str, Any]:
        if isinstance(feature, FeaturesDict):
            return self._of_dict(feature, value, path)
        try:
            if isinstance(feature, SequenceFeature):
                elements = feature.elements(value)
            else:
                assert isinstance(feature, LeafFeature)
                parts = feature.encode(value)
                return {joined(path, suffix): part for suffix, part in parts.items()}
        except (FeatureError, TypeError, ValueError) as error:
            name = f"feature {path!r}: " if path else ""
            raise FeatureError(f"{name}{error}") from None
        inner = [self._stored(feature.feature, element, path) for element in elements]
        keys = [
            joined(each, suffix)
            for each, leaf, _ in leaves(feature.feature, path)
            for suffix in leaf.serialized
        ]
        missing = [key for one in inner for key in keys if key not in one]
        if missing:
            raise FeatureError(f"feature {missing[0]!r}: a sequence holds no None")
        return {key: [one[key] for one in inner] for key in keys}

    def _of_dict(self, feature: FeaturesDict, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            where = f"feature {path!r}" if path else "an example"
            raise FeatureError(f"{where} is to be a dictionary, got {value!r:.60}")
        missing = [name for name in feature if name not in value]
        unknown = [name for name in value if name not in feature]
        if missing or unknown:
            wrong = f"has no {missing[0]!r}" if missing else f"has {unknown[0]!r} besides"
            where = f"feature {path!r}" if path else "the example"
            raise FeatureError(f"{where} {wrong}; its features are {', '.join(feature)}")
        found: dict[str, Any] = {}
        for name, each in feature.items():
            found.update(self._stored(each, value[name], joined(path, name)))
        return found


def _entries(key: str, value: Any, spec: SerializedSpec, lengths: Lengths) -> list[bytes]:
    if len(lengths) < 2:
        values = [value] if not lengths else value
        return [_entry(key, _flat(values, spec), spec.kind)]
    made = []
    level: list[Any] = value
    for depth in range(len(lengths) - 1):
        counts = [len(each) for each in level]
        made.append(_entry(f"{key}/ragged_row_lengths_{depth}", counts, "int64"))
        level = [item for each in level for item in each]
    return [*made, _entry(f"{key}/ragged_flat_values", _flat(level, spec), spec.kind)]


def _flat(items: list[Any], spec: SerializedSpec) -> list[Any]:
    if spec.shape == () and spec.kind == "string":
        return [item.item() if isinstance(item, np.ndarray) else item for item in items]
    if not len(items):
        return []
    shapes = {np.shape(item) for item in items}
    if len(shapes) > 1:
        raise FeatureError(f"the values of a sequence are of different shapes: {sorted(shapes)}")
    values = np.asarray(items).reshape(-1)
    if values.dtype == np.uint64:  # an Example has no uint64: the bits are kept
        values = values.view(np.int64)
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    elif values.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    listed: list[Any] = values.tolist()
    return listed


def _entry(key: str, values: list[Any], kind: str) -> bytes:
    feature = message_field(_LIST_FIELDS[kind], list_message(kind, values))
    content = message_field(_KEY, key.encode()) + message_field(_VALUE, feature)
    return message_field(_FEATURE, content)
