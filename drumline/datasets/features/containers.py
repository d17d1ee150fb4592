"""Features made of others: dictionaries, sequences, videos, translations, datasets."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline.data.elements.spec import TensorSpec
from drumline.datasets.features.connector import (
    Documentation,
    FeatureConnector,
    FeatureError,
    dtype_name,
)
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import TensorFeature, TextFeature, shape_json


def to_feature(value: Any) -> FeatureConnector:
    """Return a feature of what stands for one: itself, a dictionary, or a dtype of a scalar.

    Raises:
        FeatureError: it is none of these.
    """
    if isinstance(value, FeatureConnector):
        return value
    if isinstance(value, Mapping):
        return FeaturesDict(value)
    if isinstance(value, TensorSpec):
        return TensorFeature(value.shape, value.dtype)
    return TensorFeature((), value)


class FeaturesDict(FeatureConnector, Mapping[str, FeatureConnector]):
    """Features by their names, as ``tfds.features.FeaturesDict``.

    Args:
        feature_dict: features, dtypes of scalars, or dictionaries of them.
        doc: what it means.

    Raises:
        FeatureError: a value is none of these, or a name is no text.
    """

    json_class = "features_dict.FeaturesDict"
    shown_as = "FeaturesDict"

    def __init__(
        self, feature_dict: Mapping[str, Any], *, doc: Documentation | str | None = None
    ) -> None:
        super().__init__(doc)
        for name in feature_dict:
            if not isinstance(name, str) or not name:
                raise FeatureError(f"features have names, got {name!r}")
        self._features = {name: to_feature(value) for name, value in feature_dict.items()}

    @property
    def shape(self) -> dict[str, Any]:
        return {name: each.shape for name, each in self._features.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        return {name: each.dtype for name, each in self._features.items()}

    def __getitem__(self, name: str) -> Any:
        return self._features[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def json_content(self) -> tuple[str, dict[str, Any]]:
        from drumline.datasets.features.json_format import feature_to_json

        features = {name: feature_to_json(each) for name, each in self._features.items()}
        return "featuresDict", {"features": features}

    __eq__ = FeatureConnector.__eq__
    __hash__ = FeatureConnector.__hash__

    def __repr__(self) -> str:
        lines = [f"{self.shown_as}({{"]
        for name, each in sorted(self._features.items()):
            shown = f"{name!r}: {each.inner_repr()},"
            lines += ["    " + line for line in shown.split("\n")]
        return "\n".join([*lines, "})"])


class SequenceFeature(FeatureConnector):
    """Any number of values of a feature, as ``tfds.features.Sequence``.

    Of a dictionary each entry is a sequence. A sequence in a sequence is a ``RaggedArray``.

    Args:
        feature: of each value; a dtype stands for a scalar.
        length: how many there are, if always the same.
        doc: what it means.

    Raises:
        FeatureError: an argument is invalid.
    """

    json_class = "sequence_feature.Sequence"
    shown_as = "Sequence"

    def __init__(
        self, feature: Any, length: int | None = None, *, doc: Documentation | str | None = None
    ) -> None:
        super().__init__(doc)
        self.feature = to_feature(feature)
        self.length = None if length is None else int(length)
        if self.length is not None and not 0 <= self.length < 1 << 40:
            raise FeatureError(f"{self.shown_as}: length must be a number from 0 on, got {length}")

    @property
    def shape(self) -> Any:
        return _each(self.feature.shape, lambda shape: (self.length, *shape))

    @property
    def dtype(self) -> Any:
        return self.feature.dtype

    def __getitem__(self, name: str) -> Any:
        return self.feature[name]  # type: ignore[index]

    def __contains__(self, name: object) -> bool:
        return isinstance(self.feature, Mapping) and name in self.feature

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "feature":
            raise AttributeError(name)
        return getattr(self.feature, name)

    def elements(self, value: Any) -> list[Any]:
        """Return the values that one example has.

        Args:
            value: a list or array of them, or of a dictionary a dictionary of lists.

        Raises:
            FeatureError: lists are of different lengths, or there are none.
        """
        found = _elements(value)
        if self.length is not None and len(found) != self.length:
            raise FeatureError(f"there are {len(found)} values, not {self.length}")
        return found

    def json_content(self) -> tuple[str, dict[str, Any]]:
        from drumline.datasets.features.json_format import feature_to_json

        length = str(-1 if self.length is None else self.length)
        return "sequence", {"feature": feature_to_json(self.feature), "length": length}

    def __repr__(self) -> str:
        inner = self.feature.inner_repr()
        if inner.startswith("FeaturesDict("):
            inner = inner[len("FeaturesDict(") : -1]
        return f"{self.shown_as}({inner})"


def _each(nested: Any, function: Any) -> Any:
    if isinstance(nested, Mapping):
        return {name: _each(value, function) for name, value in nested.items()}
    return function(nested)


def _elements(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        columns = {name: _elements(column) for name, column in value.items()}
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            found = ", ".join(f"{name}: {len(column)}" for name, column in columns.items())
            raise FeatureError(f"the lists of a sequence are of different lengths ({found})")
        count = lengths.pop() if lengths else 0
        return [{name: column[i] for name, column in columns.items()} for i in range(count)]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise FeatureError(f"{value!r:.60} is no list")
    return list(value)


class VideoFeature(SequenceFeature):
    """Frames (frames, height, width, channels), as ``tfds.features.Video``.

    Each is stored as a picture. The frames of a file are taken out by the program ffmpeg, which is
    run as ``ffmpeg -i FILE *ffmpeg_extra_args %010d.jpeg``; nothing else needs it.

    Args:
        shape: of it; (None, None, None, 3) by default.
        encoding_format: of a frame, ``"png"`` or ``"jpeg"``.
        ffmpeg_extra_args: of ffmpeg, such as ``("-vf", "scale=256x256")``.
        use_colormap: whether the values are classes.
        dtype: uint8 or uint16.
        doc: what it means.

    Raises:
        FeatureError: the arguments do not go together.
    """

    json_class = "video_feature.Video"
    shown_as = "Video"

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        encoding_format: str = "png",
        ffmpeg_extra_args: Sequence[str] = (),
        use_colormap: bool = False,
        dtype: Any = np.uint8,
        doc: Documentation | str | None = None,
    ) -> None:
        whole = tuple(shape) if shape else (None, None, None, 3)
        if len(whole) != 4:
            raise FeatureError(f"Video: a shape has 4 dimensions, got {whole}")
        frame = ImageFeature(whole[1:], dtype, encoding_format, use_colormap)
        super().__init__(frame, whole[0], doc=doc)
        self.ffmpeg_extra_args = tuple(ffmpeg_extra_args)

    def elements(self, value: Any) -> list[Any]:
        if isinstance(value, str | os.PathLike):
            return super().elements(self._frames(Path(value)))
        if isinstance(value, bytes) or hasattr(value, "read"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "video")
                path.write_bytes(value if isinstance(value, bytes) else value.read())
                return super().elements(self._frames(path))
        return super().elements(value)

    def _frames(self, path: Path) -> list[bytes]:
        """Return the frames of a file, each as the file of a picture."""
        if not path.is_file():
            raise FeatureError(f"{path}: there is no such file of a video")
        frame: Any = self.feature
        with tempfile.TemporaryDirectory() as folder:
            frames = os.path.join(folder, f"%010d.{frame.encoding_format}")
            quiet = ("-nostdin", "-loglevel", "error")
            command = ["ffmpeg", *quiet, "-i", str(path), *self.ffmpeg_extra_args, frames]
            try:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
            except FileNotFoundError:
                raise FeatureError(
                    "the frames of a video's file are taken out by the program ffmpeg, which is "
                    "not installed: install it, or give the frames"
                ) from None
            found = [each.read_bytes() for each in sorted(Path(folder).iterdir())]
        if done.returncode or not found:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise FeatureError(f"{path}: ffmpeg took no frames out of it: {said}")
        return found

    def json_content(self) -> tuple[str, dict[str, Any]]:
        frame: Any = self.feature
        content = frame.json_content()[1]
        content["shape"] = shape_json(self.shape)
        if self.ffmpeg_extra_args:
            content["ffmpegExtraArgs"] = list(self.ffmpeg_extra_args)
        return "video", content


class TranslationFeature(FeaturesDict):
    """A text in several languages, as ``tfds.features.Translation``.

    Args:
        languages: their codes.
        doc: what it means.
    """

    json_class = "translation_feature.Translation"
    shown_as = "Translation"

    def __init__(self, languages: Sequence[str], *, doc: Documentation | str | None = None) -> None:
        super().__init__({language: TextFeature() for language in languages}, doc=doc)

    @property
    def languages(self) -> list[str]:
        """The codes of the languages."""
        return list(self)

    def json_content(self) -> tuple[str, dict[str, Any]]:
        return "translation", {"languages": self.languages}


class VariableTranslation(SequenceFeature):
    """Texts in some of several languages, as ``tfds.features.TranslationVariableLanguages``.

    Args:
        languages: their codes, if they are known.
        doc: what it means.
    """

    json_class = "translation_feature.TranslationVariableLanguages"
    shown_as = "TranslationVariableLanguages"

    def __init__(
        self, languages: Sequence[str] | None = None, *, doc: Documentation | str | None = None
    ) -> None:
        super().__init__({"language": TextFeature(), "translation": TextFeature()}, doc=doc)
        self.languages = sorted(set(languages)) if languages else None

    def elements(self, value: Any) -> list[Any]:
        if not isinstance(value, Mapping):
            raise FeatureError(f"{value!r:.60} is no dictionary of languages")
        unknown = sorted(set(value) - set(self.languages or value))
        if unknown:
            raise FeatureError(f"the languages {unknown} are none of {self.languages}")
        pairs = [
            (language, text)
            for language, texts in value.items()
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        return [{"language": language, "translation": text} for language, text in sorted(pairs)]

    def json_content(self) -> tuple[str, dict[str, Any]]:
        content: dict[str, Any] = {"variableLanguagesPerExample": True}
        if self.languages is not None:
            content["languages"] = self.languages
        return "translation", content


class DatasetFeature(SequenceFeature):
    """Steps that are read as a dataset inside of an example, as ``tfds.features.Dataset``.

    Args:
        feature: of each step.
        length: how many there are, if always the same.
        doc: what it means.
    """

    json_class = "dataset_feature.Dataset"
    shown_as = "Dataset"

    @property
    def shape(self) -> Any:
        return self.feature.shape


def describe(feature: FeatureConnector, name: str = "") -> list[tuple[str, str, str, str]]:
    """Return rows of a table: of each feature its name, class, shape and dtype."""
    rows = [(name, feature.shown_as, "", "")]
    if isinstance(feature, Mapping):
        rows = rows if name else []
        for key, each in feature.items():
            rows += describe(each, f"{name}/{key}" if name else key)
        return rows
    if isinstance(feature, SequenceFeature) and isinstance(feature.feature, Mapping):
        return rows + describe(feature.feature, name)[1:]
    kind = feature.shown_as
    if isinstance(feature, SequenceFeature):
        kind = f"{kind}({feature.feature.shown_as})"
    classes = getattr(feature, "num_classes", None)
    if classes is not None:
        kind = f"{kind}, {classes} classes"
    return [(name, kind, str(feature.shape), dtype_name(feature.dtype))]
