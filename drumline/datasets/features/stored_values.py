"""Examples to the bytes of ``Example`` messages, as TFDS stores them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from drumline._core import example_messages
from drumline.datasets.features.connector import (
    BadItemError,
    FeatureConnector,
    FeatureError,
    LeafFeature,
    SerializedSpec,
)
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature
from drumline.datasets.features.media import Pixels, files_of

_PLAIN = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)
) - {"uint64", "float8"}
"""Numbers that are the same as Python's and in an ``Example``."""

_MOST_ROWS, _MOST_BYTES = 256, 4 << 20

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
    """Makes ``Example`` messages of examples, many at once.

    What there is to know of features is found out once. Pictures are encoded for all examples that
    were added, on all cores, when the messages are taken.

    Args:
        features: of an example.
    """

    def __init__(self, features: FeatureConnector) -> None:
        self._parts = _parts_of(features)
        self._root = _step(features, "", 0)
        self._order = sorted(range(len(self._parts)), key=lambda slot: self._parts[slot].key)
        self._stored = [pair for slot in self._order for pair in self._parts[slot].stored]
        self._quick = _quick_encoders(features, [self._parts[slot].key for slot in self._order])
        self._rows: list[list[Any]] = []
        self._nbytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so many examples were added that it is time to take them."""
        return len(self._rows) >= _MOST_ROWS or self._nbytes > _MOST_BYTES

    def add(self, example: Any) -> None:
        """Add an example; nothing of it is referred to afterwards.

        Args:
            example: a value for each feature, in their structure.

        Raises:
            FeatureError: a value does not fit its feature, which is named.
            OSError: a file that is named cannot be read.
        """
        row = self._quick_row(example) or self._row(example)
        self._rows.append(row)
        self._nbytes += sum(map(_nbytes, row))

    def _quick_row(self, example: Any) -> list[Any] | None:
        """Return what is stored of an example if all its values are of the most usual kinds."""
        if type(example) is not dict or len(example) != len(self._quick):
            return None
        row = []
        for name, encode in self._quick:
            stored = encode(example.get(name))
            if stored is None:
                return None
            row.append(stored)
        return row

    def _row(self, example: Any) -> list[Any]:
        values: list[Any] = [None] * len(self._parts)
        self._root.put(example, values)
        row: list[Any] = []
        for slot in self._order:
            part, value = self._parts[slot], values[slot]
            if value is None:
                row += [None] * len(part.stored)
                continue
            try:
                row += part.convert(value)
            except FeatureError as error:
                raise FeatureError(f"feature {part.key!r}: {error}") from None
        return row

    def take(self) -> list[bytes]:
        """Return the messages of the examples that were added since the last call, in order.

        Raises:
            BadItemError: a picture cannot be encoded; its item is the number of the example.
        """
        return self.begin_taking()()

    def begin_taking(self) -> Callable[[], list[bytes]]:
        """Return what does the work of `take`; another thread may call it, while more is added."""
        rows, self._rows, self._nbytes = self._rows, [], 0
        return functools.partial(self._messages, rows)

    def _messages(self, rows: list[list[Any]]) -> list[bytes]:
        found: list[tuple[Pixels, int, list[Any], int]] = []
        for number, row in enumerate(rows):
            for place, value in enumerate(row):
                if type(value) is Pixels:
                    found.append((value, number, row, place))
                elif type(value) is list:
                    for at, each in enumerate(value):
                        if type(each) is Pixels:
                            found.append((each, number, value, at))
        try:
            files = files_of([pixels for pixels, *_ in found])
        except BadItemError as error:
            raise BadItemError(found[error.item][1], str(error)) from None
        for (_, _, holder, place), file in zip(found, files, strict=True):
            holder[place] = file
        return example_messages(self._stored, rows)

    def encode(self, example: Any) -> bytes:
        """Return one example's message; the errors are those of `add` and `take`."""
        self.add(example)
        return self.take()[0]


class _Part:
    """A part of a leaf: the key, and how its value is stored."""

    def __init__(self, key: str, spec: SerializedSpec, lengths: Lengths) -> None:
        self.key, self._depth = key, len(lengths)
        kind = spec.kind
        self._flat = _flattening(spec)
        if self._depth < 2:
            self.stored = [(key.encode(), kind)]
        else:
            counts = [f"{key}/ragged_row_lengths_{i}".encode() for i in range(self._depth - 1)]
            values = f"{key}/ragged_flat_values".encode()
            self.stored = [*((each, "int64") for each in counts), (values, kind)]
        self._is_text = spec.shape == () and kind == "string"
        self._is_number = spec.shape == () and spec.dtype.name in _PLAIN

    def convert(self, value: Any) -> list[Any]:
        """Return what is stored of a value, for each entry of the message."""
        if not self._depth:
            if self._is_text and type(value) is not np.ndarray:
                return [value]
            return [value.item() if self._is_number else self._flat([value])]
        if self._depth == 1:
            return [self._flat(value)]
        made: list[Any] = []
        for _ in range(self._depth - 1):
            made.append(np.array([len(each) for each in value], np.int64))
            value = [item for each in value for item in each]
        return [*made, self._flat(value)]


def _flattening(spec: SerializedSpec) -> Callable[[list[Any]], Any]:
    """Return what makes one list or new array of the values of items."""
    is_text = spec.kind == "string"
    if spec.shape == () and is_text:
        return lambda items: [
            item.item() if isinstance(item, np.ndarray) else item for item in items
        ]
    floats = np.dtype(np.float64 if spec.dtype == np.float64 else np.float32)
    wanted = floats if spec.kind == "float32" else np.dtype(np.int64)

    def flat(items: list[Any]) -> Any:
        if not len(items):
            return [] if is_text else np.empty(0, wanted)
        if len(items) > 1:
            shapes = {np.shape(item) for item in items}
            if len(shapes) > 1:
                listed = sorted(shapes)
                raise FeatureError(f"the values of a sequence are of different shapes: {listed}")
        values = np.asarray(items[0] if len(items) == 1 else items).reshape(-1)
        if is_text:
            return values.tolist()
        if values.dtype == np.uint64:  # an Example has no uint64: the bits are kept
            values = values.view(np.int64)
        return values.astype(wanted)

    return flat


def _quick_encoders(
    features: FeatureConnector, names: Sequence[str]
) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return names and functions of features in the order of a message, if all have one."""
    found: list[tuple[str, Callable[[Any], Any]]] = []
    if not isinstance(features, FeaturesDict):
        return found
    for name in names:
        each = features.get(name)
        if not isinstance(each, LeafFeature):
            return []
        owner = next(kind for kind in type(each).__mro__ if "encode" in vars(kind))
        quick = each.quick_encoder() if "quick_encoder" in vars(owner) else None
        if quick is None or list(each.serialized) != [""]:
            return []
        found.append((name, quick))
    return found


def _nbytes(value: Any) -> int:
    if type(value) is bytes:
        return len(value)
    if type(value) is list:
        return sum(map(_nbytes, value))
    if type(value) is Pixels:  # they become smaller, and many cores want many of them
        return value.array.nbytes // 8
    return getattr(value, "nbytes", 0)


class _Step(Protocol):
    """Part of the way from an example to its values."""

    def put(self, value: Any, row: list[Any]) -> None:
        """Put what is stored of a value into its places in a row."""


def _parts_of(feature: FeatureConnector, path: str = "") -> list[_Part]:
    return [
        _Part(joined(place, suffix), spec, lengths)
        for place, leaf, lengths in leaves(feature, path)
        for suffix, spec in leaf.serialized.items()
    ]


def _step(feature: FeatureConnector, path: str, first: int) -> _Step:
    """Return the way of a feature, whose values have the places of a row from `first` on."""
    if isinstance(feature, FeaturesDict):
        return _EntriesStep(feature, path, first)
    if isinstance(feature, SequenceFeature):
        return _ElementsStep(feature, path, first)
    assert isinstance(feature, LeafFeature)
    return _LeafStep(feature, path, first)


class _LeafStep:
    def __init__(self, feature: LeafFeature, path: str, first: int) -> None:
        self._encode, self._path = feature.encode, path
        self._places = {suffix: first + i for i, suffix in enumerate(feature.serialized)}

    def put(self, value: Any, row: list[Any]) -> None:
        try:
            parts = self._encode(value)
        except (FeatureError, TypeError, ValueError) as error:
            raise _naming(self._path, error) from None
        for suffix, part in parts.items():
            row[self._places[suffix]] = part


class _ElementsStep:
    def __init__(self, feature: SequenceFeature, path: str, first: int) -> None:
        self._elements, self._path, self._first = feature.elements, path, first
        self._keys = [part.key for part in _parts_of(feature.feature, path)]
        self._step = _step(feature.feature, path, 0)

    def put(self, value: Any, row: list[Any]) -> None:
        try:
            elements = self._elements(value)
        except (FeatureError, TypeError, ValueError) as error:
            raise _naming(self._path, error) from None
        inner: list[list[Any]] = []
        for element in elements:
            values: list[Any] = [None] * len(self._keys)
            self._step.put(element, values)
            for key, each in zip(self._keys, values, strict=True):
                if each is None:
                    raise FeatureError(f"feature {key!r}: a sequence holds no None")
            inner.append(values)
        for i in range(len(self._keys)):
            row[self._first + i] = [values[i] for values in inner]


def _naming(path: str, error: BaseException) -> FeatureError:
    return FeatureError(f"feature {path!r}: {error}" if path else str(error))


class _EntriesStep:
    def __init__(self, feature: FeaturesDict, path: str, first: int) -> None:
        self._path, self._names = path, dict.fromkeys(feature).keys()
        self._steps: list[tuple[str, _Step]] = []
        for name, each in feature.items():
            self._steps.append((name, _step(each, joined(path, name), first)))
            first += len(_parts_of(each))

    def put(self, value: Any, row: list[Any]) -> None:
        if not isinstance(value, Mapping):
            where = f"feature {self._path!r}" if self._path else "an example"
            raise FeatureError(f"{where} is to be a dictionary, got {value!r:.60}")
        if value.keys() != self._names:
            raise self._other_names(value)
        for name, step in self._steps:
            step.put(value[name], row)

    def _other_names(self, value: Mapping[Any, Any]) -> FeatureError:
        missing = [name for name in self._names if name not in value]
        unknown = [name for name in value if name not in self._names]
        wrong = f"has no {missing[0]!r}" if missing else f"has {unknown[0]!r} besides"
        where = f"feature {self._path!r}" if self._path else "the example"
        return FeatureError(f"{where} {wrong}; its features are {', '.join(self._names)}")
