"""``Example`` and ``SequenceExample``."""

from __future__ import annotations

from drumline._core import message_fields
from drumline.data.messages.maps import FeatureLists, Features
from drumline.data.messages.message import Message, block, checked


class Example(Message):
    """A record of features, as ``tf.train.Example``; ``dl.io.parse_example`` reads many at once."""

    def __init__(self, features: Features | None = None):
        """Takes features.

        Raises:
            TypeError: they are no ``Features``.
        """
        self._is_given = features is not None
        self._features = Features() if features is None else features
        checked(self._features, Features, "Example: features")

    @property
    def features(self) -> Features:
        """The features by their names: ``example.features.feature["label"]``."""
        return self._features

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        content = self._features.SerializeToString(deterministic)
        return [(1, content)] if content or self._is_given else []

    def _read(self, message: bytes) -> None:
        for number, content in message_fields(message):
            if number == 1:
                self._is_given = True
                self._features._read(content)

    def _text(self) -> list[str]:
        return block("features", self._features._text()) if self._fields(False) else []


class SequenceExample(Message):
    """Features of a whole and of each of its frames, as ``tf.train.SequenceExample``."""

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None):
        """Takes both.

        Raises:
            TypeError: one is of another class.
        """
        self._given = {1: context is not None, 2: feature_lists is not None}
        self._context = Features() if context is None else context
        self._feature_lists = FeatureLists() if feature_lists is None else feature_lists
        checked(self._context, Features, "SequenceExample: context")
        checked(self._feature_lists, FeatureLists, "SequenceExample: feature_lists")

    @property
    def context(self) -> Features:
        """Features of the whole."""
        return self._context

    @property
    def feature_lists(self) -> FeatureLists:
        """Features of the frames: ``sequence.feature_lists.feature_list["words"].feature[0]``."""
        return self._feature_lists

    def _parts(self) -> list[tuple[int, str, Message]]:
        return [(1, "context", self._context), (2, "feature_lists", self._feature_lists)]

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        contents = [(n, part.SerializeToString(deterministic)) for n, _, part in self._parts()]
        return [(n, content) for n, content in contents if content or self._given[n]]

    def _read(self, message: bytes) -> None:
        parts = {number: part for number, _, part in self._parts()}
        for number, content in message_fields(message):
            if number in parts:
                self._given[number] = True
                parts[number]._read(content)

    def _text(self) -> list[str]:
        present = {number for number, _ in self._fields(False)}
        parts = [(name, part) for number, name, part in self._parts() if number in present]
        return [line for name, part in parts for line in block(name, part._text())]
